"""Whoever waits hears of commits soon, sleeps soundly while there are none, and leaves nothing open behind it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify.store.sqlite import commit_wait
from ramify.store.sqlite.commit_wait import CommitWait
from ramify.store.sqlite.write_sensor import WriteSensor
from tests.store.sqlite.real import in_forked_child

LIMIT = 20


class Commits:
    """A file that is written to, and the token that tells of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = 0
        self.asking = threading.Event()
        self._count = 0
        path.touch()

    def changed(self) -> int:
        self.asked += 1
        self.asking.set()
        return self._count

    def write(self) -> None:
        self._count += 1
        with self.path.open("ab") as file:
            file.write(b"page")


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    return Commits(tmp_path / "log")


@pytest.fixture
def listening(commits: Commits) -> Iterator[CommitWait]:
    """A wait that has seen all there is so far."""
    made = CommitWait(commits.changed, str(commits.path))
    assert made.wait(0)
    yield made
    made.close()


def during_a_wait(listening: CommitWait, commits: Commits, do: Callable[[], None]) -> bool:
    """What a wait in another thread says when this is done meanwhile."""
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(listening.wait(LIMIT)))
    commits.asking.clear()
    thread.start()
    assert commits.asking.wait(LIMIT)
    do()
    thread.join(2 * LIMIT)
    return said[0]


@pytest.fixture
def asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that asks only when it has heard something."""
    monkeypatch.setattr(commit_wait, "EAGER_FOR", 0.0)
    monkeypatch.setattr(commit_wait, "ALERT_FOR", 0.0)
    monkeypatch.setattr(commit_wait, "QUIET_SECONDS", 10 * LIMIT)


needs_inotify = pytest.mark.skipif(not Path("/proc/sys/fs/inotify").exists(), reason="this system tells of no writes")


@needs_inotify
@pytest.mark.usefixtures("asks_no_more")
def test_a_write_is_heard(listening: CommitWait, commits: Commits) -> None:
    assert during_a_wait(listening, commits, commits.write)


@pytest.mark.usefixtures("asks_no_more")
def test_a_call_is_heard(listening: CommitWait, commits: Commits) -> None:
    assert during_a_wait(listening, commits, listening.ring)


@needs_inotify
def test_a_commit_that_is_seen_only_after_its_write_is_noticed_all_the_same(
    listening: CommitWait, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes its time between the write and the moment others may see it."""
    monkeypatch.setattr(commit_wait, "QUIET_SECONDS", 10 * LIMIT)
    listening._last_heard = float("-inf")

    def write_slowly() -> None:
        with commits.path.open("ab") as file:
            file.write(b"page")
        before = commits.asked
        while commits.asked < before + 3:
            commits.asking.clear()
            assert commits.asking.wait(LIMIT)
        commits._count += 1

    assert during_a_wait(listening, commits, write_slowly)


def test_a_deaf_bell_asks(commits: Commits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_wait, "QUIET_SECONDS", 10 * LIMIT)
    nowhere = str(tmp_path / "nothing here")
    assert not WriteSensor(nowhere).hears_writes
    deaf = CommitWait(commits.changed, nowhere)
    assert deaf.wait(0)
    monkeypatch.setattr(commit_wait, "ALERT_FOR", 0.0)
    assert during_a_wait(deaf, commits, commits.write)
    deaf.close()


@needs_inotify
def test_while_nothing_happens_it_hardly_asks(
    listening: CommitWait, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_wait, "EAGER_FOR", 0.0)
    monkeypatch.setattr(commit_wait, "ALERT_FOR", 0.0)
    before = commits.asked
    assert not listening.wait(2 * commit_wait.QUIET_SECONDS)
    assert commits.asked - before <= 4


@needs_inotify
@pytest.mark.usefixtures("asks_no_more")
@pytest.mark.parametrize("what", ["write", "ring"])
def test_several_may_sleep_at_once_and_all_of_them_hear(listening: CommitWait, commits: Commits, what: str) -> None:
    """Two kernels of one program share a store."""
    open_before = len(os.listdir("/dev/fd"))
    said: list[bool] = []
    threads = [threading.Thread(target=lambda: said.append(listening.wait(LIMIT))) for _ in range(3)]
    for thread in threads:
        commits.asking.clear()
        thread.start()
        assert commits.asking.wait(LIMIT)
    if what == "write":
        commits.write()
    else:
        listening.ring()
    for thread in threads:
        thread.join(2 * LIMIT)
    assert said == [True, True, True]
    assert len(os.listdir("/dev/fd")) == open_before


def test_a_closed_bell_leaves_no_descriptor_open(commits: Commits) -> None:
    open_before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        made = CommitWait(commits.changed, str(commits.path))
        made.wait(0)
        made.close()
        made.close()
    assert len(os.listdir("/dev/fd")) == open_before


def test_closing_during_a_wait_waits_for_nobody(listening: CommitWait, commits: Commits) -> None:
    """The descriptors stay until the sleeper has gone: they could be given to somebody else under its feet."""

    def close_and_write() -> None:
        listening.close()
        assert listening._sensor is not None
        commits.write()

    assert during_a_wait(listening, commits, close_and_write)
    assert listening._sensor is None


def test_a_forked_child_does_not_wait_for_a_thread_that_only_its_parent_has(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    ringing, forked = threading.Event(), threading.Event()

    def call(sensor: WriteSensor) -> None:
        ringing.set()
        assert forked.wait(LIMIT)

    monkeypatch.setattr(WriteSensor, "call", call)
    sleeper = CommitWait(commits.changed, str(commits.path))
    sleeper.wait(0)
    ringer = threading.Thread(target=sleeper.ring)
    ringer.start()
    assert ringing.wait(LIMIT)

    def close() -> str:
        signal.alarm(LIMIT)
        sleeper.close()
        return "closed"

    assert in_forked_child(close) == "closed"
    forked.set()
    ringer.join(LIMIT)
    sleeper.close()
