"""Whoever waits hears of commits soon, sleeps soundly while there are none, and leaves nothing open behind it."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify.errors import StoreUnavailable
from ramify.store import commit_wait
from ramify.store.commit_wait import CommitWait
from ramify.store.sqlite.file.write_sensor import WriteSensor
from tests.store.sqlite.real import in_forked_child, wait_until

LIMIT = 20


class Commits:
    """A file that is written to, and the token that tells of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = 0
        self._count = 0
        path.touch()

    def changed(self) -> int:
        self.asked += 1
        return self._count

    def write(self) -> None:
        self.appear()
        with self.path.open("ab") as file:
            file.write(b"page")

    def appear(self) -> None:
        """A commit that no write tells of."""
        self._count += 1


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    return Commits(tmp_path / "log")


@pytest.fixture
def listening(commits: Commits) -> Iterator[CommitWait]:
    made = CommitWait(commits.changed, lambda: WriteSensor(str(commits.path)))
    yield made
    made.close()


class Sleeper:
    """A thread that waits, from what there is to see so far."""

    def __init__(self, listening: CommitWait, seconds: float = LIMIT) -> None:
        self._seen = self._found = listening.wait(0, 0)
        self._thread = threading.Thread(target=self._sleep, args=(listening, seconds))
        self._thread.start()
        wait_until(lambda: listening._listener is not None)

    def _sleep(self, listening: CommitWait, seconds: float) -> None:
        self._found = listening.wait(seconds, self._seen)

    def is_woken(self) -> bool:
        """Whether it heard something; it must be over, or come to its end long before its time."""
        self._thread.join(LIMIT / 2)
        return not self._thread.is_alive() and self._found != self._seen

    def is_over(self) -> bool:
        return not self._thread.is_alive()


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
    sleeper = Sleeper(listening)
    commits.write()
    assert sleeper.is_woken()


@pytest.mark.usefixtures("asks_no_more")
def test_a_call_is_heard(listening: CommitWait) -> None:
    sleeper = Sleeper(listening)
    listening.ring()
    assert sleeper.is_woken()


@needs_inotify
@pytest.mark.usefixtures("asks_no_more")
def test_a_commit_of_this_process_is_heard_at_once_and_once(listening: CommitWait, commits: Commits) -> None:
    """It need not be asked for again and again: when it is announced it can be seen."""
    sleeper = Sleeper(listening)
    wait_until(lambda: listening._sensor is not None)
    commits.appear()
    listening.outcome(None)
    assert sleeper.is_woken()
    seen = listening.wait(0, 0)
    assert listening.wait(0, seen) == seen


def test_a_commit_costs_nothing_when_nobody_waits(listening: CommitWait) -> None:
    """Not even the lock."""
    taken, leave = threading.Event(), threading.Event()

    def keep() -> None:
        with listening._lock:
            taken.set()
            assert leave.wait(LIMIT)

    keeper = threading.Thread(target=keep)
    keeper.start()
    assert taken.wait(LIMIT)
    announcing = threading.Thread(target=listening.outcome, args=(None,))
    announcing.start()
    announcing.join(LIMIT)
    assert not announcing.is_alive()
    leave.set()
    keeper.join(LIMIT)


@needs_inotify
def test_a_commit_that_is_seen_only_after_its_write_is_noticed_all_the_same(
    listening: CommitWait, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes its time between the write and the moment others may see it."""
    monkeypatch.setattr(commit_wait, "QUIET_SECONDS", 10 * LIMIT)
    sleeper = Sleeper(listening)
    wait_until(lambda: listening._sensor is not None)
    listening._last_heard = float("-inf")
    with commits.path.open("ab") as file:
        file.write(b"page")
    before = commits.asked
    wait_until(lambda: commits.asked >= before + 3)
    commits.appear()
    assert sleeper.is_woken()


def test_a_deaf_bell_asks(commits: Commits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_wait, "QUIET_SECONDS", 10 * LIMIT)
    monkeypatch.setattr(commit_wait, "ALERT_FOR", 0.0)
    nowhere = str(tmp_path / "nothing here")
    assert not WriteSensor(nowhere).hears_writes
    deaf = CommitWait(commits.changed, lambda: WriteSensor(nowhere))
    sleeper = Sleeper(deaf)
    commits.write()
    assert sleeper.is_woken()
    deaf.close()


@needs_inotify
def test_while_nothing_happens_it_hardly_asks(
    listening: CommitWait, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait."""
    monkeypatch.setattr(commit_wait, "EAGER_FOR", 0.0)
    monkeypatch.setattr(commit_wait, "ALERT_FOR", 0.0)
    others = [Sleeper(listening) for _ in range(10)]
    before, seen = commits.asked, listening.wait(0, 0)
    assert listening.wait(2 * commit_wait.QUIET_SECONDS, seen) == seen
    assert commits.asked - before <= 4
    listening.ring()
    assert all(other.is_woken() for other in others)


@needs_inotify
@pytest.mark.usefixtures("asks_no_more")
@pytest.mark.parametrize("what", ["write", "ring"])
def test_many_may_sleep_at_once_and_all_of_them_hear(listening: CommitWait, commits: Commits, what: str) -> None:
    """Kernels of one program share a store, and its threads wait for runs; one listens for all."""
    sleepers = [Sleeper(listening)]
    wait_until(lambda: listening._sensor is not None)
    open_before = len(os.listdir("/dev/fd"))
    sleepers += [Sleeper(listening) for _ in range(20)]
    wait_until(lambda: len(listening._told._waiters) == 20)  # type: ignore[attr-defined]
    assert len(os.listdir("/dev/fd")) == open_before
    if what == "write":
        commits.write()
    else:
        listening.ring()
    assert all(sleeper.is_woken() for sleeper in sleepers)


@needs_inotify
@pytest.mark.usefixtures("asks_no_more")
def test_when_the_one_who_listens_leaves_another_does(listening: CommitWait, commits: Commits) -> None:
    """Also when the time of those whose turn it would be is up at the same moment."""
    end = time.monotonic() + 0.4
    short = [Sleeper(listening, end - time.monotonic()) for _ in range(10)]
    long = Sleeper(listening)
    wait_until(lambda: len(listening._told._waiters) == 10)  # type: ignore[attr-defined]
    wait_until(lambda: all(sleeper.is_over() for sleeper in short))
    commits.write()
    assert long.is_woken()
    assert not any(sleeper.is_woken() for sleeper in short)


@pytest.mark.usefixtures("asks_no_more")
def test_when_the_one_who_listens_fails_the_others_do_not_sleep_on(commits: Commits) -> None:
    """A store that was closed, say: all of them are told."""
    failing = threading.Event()

    def changed() -> int:
        if failing.is_set():
            raise StoreUnavailable("away")
        return commits.changed()

    listening = CommitWait(changed, lambda: WriteSensor(str(commits.path)))
    raised: list[StoreUnavailable] = []

    def sleep(seen: int) -> None:
        try:
            listening.wait(10 * LIMIT, seen)
        except StoreUnavailable as error:
            raised.append(error)

    threads = [threading.Thread(target=sleep, args=(listening.wait(0, 0),), daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(listening._told._waiters) == 4 and listening._sensor is not None)  # type: ignore[attr-defined]
    failing.set()
    listening.outcome(None)
    wait_until(lambda: len(raised) == 5)
    listening.close()


def test_a_closed_bell_leaves_no_descriptor_open(commits: Commits) -> None:
    open_before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        made = CommitWait(commits.changed, lambda: WriteSensor(str(commits.path)))
        made.wait(0.001, made.wait(0, 0))
        made.close()
        made.close()
    assert len(os.listdir("/dev/fd")) == open_before


def test_closing_during_a_wait_waits_for_nobody(listening: CommitWait, commits: Commits) -> None:
    """The descriptors stay until the sleeper has gone: they could be given to somebody else under its feet."""
    sleeper = Sleeper(listening)
    wait_until(lambda: listening._sensor is not None)
    listening.close()
    assert listening._sensor is not None
    commits.write()
    assert sleeper.is_woken()
    assert listening._sensor is None


def test_a_forked_child_does_not_wait_for_threads_that_only_its_parent_has(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for one who holds the lock nor for one who listens."""
    ringing, forked = threading.Event(), threading.Event()

    def call(sensor: WriteSensor) -> None:
        ringing.set()
        assert forked.wait(LIMIT)

    monkeypatch.setattr(WriteSensor, "call", call)
    sleeper = CommitWait(commits.changed, lambda: WriteSensor(str(commits.path)))
    asleep = Sleeper(sleeper)
    wait_until(lambda: sleeper._sensor is not None)
    ringer = threading.Thread(target=sleeper.ring)
    ringer.start()
    assert ringing.wait(LIMIT)

    def close() -> str:
        signal.alarm(LIMIT)
        seen = sleeper.wait(0, 0)
        commits.appear()
        asked = commits.asked
        assert sleeper.wait(LIMIT / 4, seen) != seen
        assert commits.asked > asked
        sleeper.close()
        return "closed"

    assert in_forked_child(close) == "closed"
    forked.set()
    ringer.join(LIMIT)
    assert asleep.is_woken()
    sleeper.close()
