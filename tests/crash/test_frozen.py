"""Frozen processes: one that does not beat is buried, and what it hands in after it thaws is refused and recorded.

One that froze inside a write transaction holds everybody up, and nothing is lost by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify.errors import StoreUnavailable
from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, RunState
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from tests.crash.client import HELD_KIND
from tests.crash.clients import LIMIT, STORE, Client, Clients, wait_until

ANY = Want(frozenset({HELD_KIND}), 1)
#: Short for a test, and long enough that a busy machine does not make this process look frozen itself.
DEAD_AFTER = 1.0
BUSY = 0.3


class Watcher:
    """This process: it has a store of its own, beats, and waits for a frozen one to be dead enough."""

    def __init__(self, folder: Path) -> None:
        self.store = SqliteStore(folder / STORE, busy_timeout=BUSY)
        self.process = new_process_id()
        self.store.enter(NewProcess(self.process))
        first = self.store.reserve(2)
        self.run = self.store.start(NewRun(first), [NewTasks(first + 1, HELD_KIND, [b"1"])]).run.id
        self.task = first + 1

    def buries(self, process: int) -> bool:
        """Beat and look once; whether the other one is buried now."""
        self.store.beat(self.process)
        return process in self.store.reap(self.process, DEAD_AFTER).processes

    def silence_of(self, process: int) -> float:
        """For how many seconds a process has not beaten."""
        (age,) = (p.beat_age for p in self.store.reads.processes() if p.id == process)
        assert age is not None
        return age

    def claim(self) -> Claim:
        """Take the task."""
        (claim,) = self.store.claim(Stamp(self.process, 1), ANY).claims
        return claim

    def statuses(self) -> list[Status]:
        """What the log says about the task."""
        return [event.status for event in self.store.reads.events(self.task, self.task)]


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    made = Watcher(tmp_path)
    yield made
    made.store.close()


def holding(clients: Clients, folder: Path, *options: str) -> tuple[Client, int]:
    """A client that has claimed the task, and the number of its process."""
    client = clients.add()
    client.begin("hold", folder, 0, *options)
    word, process = client.hear().split()
    assert word == "held"
    return client, int(process)


def test_a_frozen_process_is_buried_and_its_late_commit_is_refused_and_recorded(
    tmp_path: Path, watcher: Watcher, clients: Clients
) -> None:
    client, process = holding(clients, tmp_path)
    client.stop()
    wait_until(lambda: watcher.buries(process), "the frozen process to be buried")
    claim = watcher.claim()
    assert list(claim.tasks) == [watcher.task]
    assert claim.deaths.count == 0
    watcher.store.commit(Stamp(watcher.process, 2), [Part(claim.token, claim.tasks)])
    client.tell()
    client.thaw()
    assert client.hear() == "reaped"
    assert client.ends_within(LIMIT)
    (refusal,) = watcher.store.reads.refusals()
    assert (refusal.process, refusal.tasks) == (process, 1)
    assert watcher.statuses() == [Status.DONE]
    # The child of the late commit is not there, so nothing is left to do.
    assert len(watcher.store.reads.tasks(watcher.run).rows) == 1
    assert watcher.store.advance([(watcher.run, 0)])[0].state is RunState.DONE
    assert oracle.check(watcher.store) == []


def test_a_frozen_process_that_nobody_replaced_yet_is_refused_all_the_same(
    tmp_path: Path, watcher: Watcher, clients: Clients
) -> None:
    client, process = holding(clients, tmp_path)
    client.stop()
    wait_until(lambda: watcher.buries(process), "the frozen process to be buried")
    client.tell()
    client.thaw()
    assert client.hear() == "reaped"
    assert client.ends_within(LIMIT)
    assert watcher.statuses() == []
    assert list(watcher.claim().tasks) == [watcher.task]
    assert [refusal.process for refusal in watcher.store.reads.refusals()] == [process]
    assert oracle.check(watcher.store) == []


def test_a_silent_process_is_not_buried_by_one_that_just_came(
    tmp_path: Path, watcher: Watcher, clients: Clients
) -> None:
    client, process = holding(clients, tmp_path)
    client.stop()
    wait_until(lambda: watcher.silence_of(process) > DEAD_AFTER, "the frozen process to be silent for long")
    newcomer = SqliteStore(tmp_path / STORE, busy_timeout=BUSY)
    number = new_process_id()
    newcomer.enter(NewProcess(number))
    newcomer.beat(number)
    # After a stalled disk or a suspended machine everybody looks silent to whoever wakes first.
    answer = newcomer.reap(number, DEAD_AFTER)
    assert (answer.processes, answer.clean_window) == ((), False)
    newcomer.close()
    client.tell()
    client.thaw()
    assert client.hear() == "committed"
    assert client.ends_within(LIMIT)
    assert watcher.statuses() == [Status.DONE]


def test_a_process_frozen_inside_a_transaction_blocks_the_others_and_loses_nothing(
    tmp_path: Path, watcher: Watcher, clients: Clients
) -> None:
    client, process = holding(clients, tmp_path, "freeze=3")
    client.tell()
    client.wait_stopped()
    with pytest.raises(StoreUnavailable, match=rf"process {process:x} \(pid {client.pid}\)"):
        watcher.store.reserve(1)
    # Reads go on, and see nothing of the transaction.
    assert watcher.statuses() == []
    assert oracle.check(watcher.store) == []
    client.thaw()
    assert client.hear() == "committed"
    assert client.ends_within(LIMIT)
    assert watcher.statuses() == [Status.DONE]
    assert len(watcher.store.reads.tasks(watcher.run).rows) == 2
    watcher.store.reserve(1)
    assert oracle.check(watcher.store) == []


def test_a_process_killed_while_frozen_inside_a_transaction_lets_the_others_go_on(
    tmp_path: Path, watcher: Watcher, clients: Clients
) -> None:
    client, process = holding(clients, tmp_path, "freeze=3")
    client.tell()
    client.wait_stopped()
    with pytest.raises(StoreUnavailable):
        watcher.store.reserve(1)
    client.kill()
    # The lock is free, so no window is needed.
    assert watcher.buries(process)
    claim = watcher.claim()
    assert list(claim.tasks) == [watcher.task]
    watcher.store.commit(Stamp(watcher.process, 2), [Part(claim.token, claim.tasks)])
    assert watcher.statuses() == [Status.DONE]
    assert oracle.check(watcher.store) == []
