"""An I/O error in COMMIT: nobody knows whether it happened, and sending the same number again finds out.

The sync of the log fails after its content was written. If the process goes on, the transaction is not there; if it
dies, the next one finds it in the log; if the disk really lost it, it is gone. Only the stamp tells, and whichever it
is, the verb is applied once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from ramify.errors import StaleStamp, StoreUnavailable
from ramify.model.addition import Addition
from ramify.model.claim import Claim, Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.file.link import Link
from ramify.testing import oracle
from tests.crash.clients import STORE
from tests.crash.disk import GO, Answer, Change, Disk, Fault, Step, fail, let
from tests.crash.power import Power
from tests.store.sqlite.real import one_table

T = TypeVar("T")

ANY = Want(frozenset({"work", "more"}), 10)


@dataclass
class Scene:
    """A store with three tasks, two of them claimed, on a disk that can fail."""

    folder: Path
    disk: Disk
    store: SqliteStore
    process: int
    run: int
    claim: Claim
    fresh: int

    def verb(self, name: str) -> Callable[[Store], object]:
        """One numbered verb with its arguments, to be sent as often as need be."""
        stamp = Stamp(self.process, 2)
        children = NewTasks(self.fresh, "more", [b"1", b"2"], self.claim.tasks[0])
        part = Part(self.claim.token, self.claim.tasks, children=[children])
        verbs: dict[str, Callable[[Store], object]] = {
            "commit": lambda store: store.commit(stamp, [part]),
            "commit and claim": lambda store: store.commit(stamp, [part], ANY),
            "claim": lambda store: store.claim(stamp, ANY),
            "stage": lambda store: store.stage(stamp, self.claim.token, [children]),
            "release": lambda store: store.release(stamp, [self.claim.token]),
        }
        return verbs[name]

    def log_size(self) -> int:
        """How long the log is now."""
        return os.stat(self.folder / f"{STORE}-wal").st_size

    def die(self) -> None:
        """The process dies: nothing more reaches the disk from it."""
        self.disk.dead = True
        self.store.close()

    def reopen(self) -> None:
        """Open the files again as they are."""
        self.disk.dead, self.disk.fault = False, let
        self.store = SqliteStore(self.folder / STORE)

    def traces(self) -> tuple[int, int, int]:
        """What a verb may leave: commits, tasks in the log, rows that are claimed or staged."""
        reads = self.store.reads
        held = sum(row.owner is not None for row in reads.segments().rows)
        return len(reads.tail(0).commits), len(reads.tasks(self.run).rows), held


VERBS = ("commit", "commit and claim", "claim", "stage", "release")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Disk(tmp_path) as disk:
        store = SqliteStore(tmp_path / STORE)
        process = new_process_id()
        store.enter(NewProcess(process))
        first = store.reserve(10)
        run = store.start(NewRun(first), [NewTasks(first + 1, "work", [b"1", b"2", b"3"])]).run.id
        (claim,) = store.claim(Stamp(process, 1), Want(frozenset({"work"}), 2)).claims
        made = Scene(tmp_path, disk, store, process, run, claim, first + 4)
        yield made
        made.store.close()


def timeless(answer: object) -> object:
    """An answer without the store's time, which is that of each answer."""
    match answer:
        case Committed():
            return replace(answer, claimed=timeless(answer.claimed), now=0)
        case Claimed():
            return replace(answer, now=0)
        case _:
            return answer


def lose_the_sync(scene: Scene) -> None:
    """From now on the log is written, but its sync fails."""

    def fault(step: Step) -> Answer:
        return fail(step) if step.change is Change.SYNC else GO

    scene.disk.fault = fault


def check_applied_once(scene: Scene, name: str, answer: object, before: tuple[int, int, int]) -> None:
    """Sent once more it answers the same and changes nothing; an older number is refused."""
    after = scene.traces()
    assert after != before
    assert timeless(scene.verb(name)(scene.store)) == timeless(answer)
    assert scene.traces() == after
    with pytest.raises(StaleStamp):
        scene.store.claim(Stamp(scene.process, 1), ANY)
    assert oracle.check(scene.store) == []
    if name.startswith("commit"):
        ends = scene.store.reads.events(scene.claim.tasks[0], scene.claim.tasks[-1])
        assert [event.status for event in ends] == [Status.DONE] * len(scene.claim.tasks)
        assert [row.body for row in scene.store.reads.tasks(scene.run, kind="more").rows] == [b"1", b"2"]


@pytest.mark.parametrize("name", VERBS)
def test_a_failed_sync_in_commit_is_resolved_by_sending_again(name: str, scene: Scene) -> None:
    before = scene.traces()
    lose_the_sync(scene)
    with pytest.raises(StoreUnavailable, match="send the same verb again"):
        scene.verb(name)(scene.store)
    scene.disk.fault = let
    answer = scene.verb(name)(scene.store)
    check_applied_once(scene, name, answer, before)


@pytest.mark.parametrize("name", VERBS)
def test_a_commit_that_failed_and_is_there_after_all_is_answered_not_repeated(name: str, scene: Scene) -> None:
    before = scene.traces()
    lose_the_sync(scene)
    with pytest.raises(StoreUnavailable):
        scene.verb(name)(scene.store)
    scene.die()
    scene.reopen()
    # This is the trap: the verb raised, and what it did is there.
    assert scene.traces() != before
    answer = scene.verb(name)(scene.store)
    check_applied_once(scene, name, answer, before)


@pytest.mark.parametrize("name", VERBS)
def test_a_commit_that_failed_and_is_really_lost_is_made_anew(name: str, scene: Scene) -> None:
    before, size = scene.traces(), scene.log_size()
    lose_the_sync(scene)
    with pytest.raises(StoreUnavailable):
        scene.verb(name)(scene.store)
    scene.die()
    os.truncate(scene.folder / f"{STORE}-wal", size)
    scene.reopen()
    assert scene.traces() == before
    answer = scene.verb(name)(scene.store)
    check_applied_once(scene, name, answer, before)


def test_a_commit_that_failed_may_be_resolved_while_others_write(scene: Scene) -> None:
    before = scene.traces()
    other = SqliteStore(scene.folder / STORE)
    lose_the_sync(scene)
    with pytest.raises(StoreUnavailable):
        scene.verb("commit")(scene.store)
    scene.disk.fault = let
    first = other.reserve(1)
    other.append([Addition(scene.run, [NewTasks(first, "work", [b"4"])])])
    answer = scene.verb("commit")(scene.store)
    check_applied_once(scene, "commit", answer, before)
    other.close()


def failing_syncs(failures: int, power: Power, *, forgetful: bool = False) -> Fault:
    """A disk whose next syncs fail, honestly or forgetting what they were to write."""
    left_to_fail = failures

    def fault(step: Step) -> Answer:
        nonlocal left_to_fail
        if step.change is Change.SYNC and left_to_fail:
            left_to_fail -= 1
            if forgetful:
                power.forget(step)
            return fail(step)
        return power(step)

    return fault


def send(verb: Callable[[Store], T], store: Store) -> T:
    """Send a verb until it is answered."""
    while True:
        with suppress(StoreUnavailable):
            return verb(store)


def cuts(power: Power, tmp_path: Path, seed: random.Random) -> Iterator[Path]:
    """Ten folders, each as a power cut may leave it."""
    for number in range(10):
        left = tmp_path / f"left-{number}"
        left.mkdir()
        power.cut(left, seed)
        yield left


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_was_in_doubt_and_is_answered_survives_a_power_cut(
    name: str, failures: int, scene: Scene, tmp_path: Path, seed: random.Random
) -> None:
    power = Power.of(scene.disk.steps)
    scene.disk.fault = failing_syncs(failures, power)
    answer = send(scene.verb(name), scene.store)
    scene.die()
    for scene.folder in cuts(power, tmp_path, seed):
        scene.reopen()
        after = scene.traces()
        assert timeless(scene.verb(name)(scene.store)) == timeless(answer)
        assert scene.traces() == after, "what had been answered was lost"
        scene.store.close()


#: Honest: a failed sync stays undone. Forgetful: the system takes the pages for written although they are not.
HONEST = [pytest.param(n, False, id=f"{n} honest") for n in range(1, 6)]
FORGETFUL = [pytest.param(n, True, id=f"{n} forgetful") for n in range(1, 6)]


@pytest.mark.parametrize(("failures", "forgetful"), HONEST + FORGETFUL)
def test_a_write_that_was_in_doubt_and_succeeded_survives_a_power_cut(
    failures: int, forgetful: bool, tmp_path: Path, seed: random.Random
) -> None:
    # With a single connection: when that is dropped, the log is recovered, and what failed to be synced may be found
    # in it.
    power = Power()
    with disk_in(tmp_path, power) as (played, disk):
        link = Link(played / STORE, on_first_open=one_table)
        disk.fault = failing_syncs(failures, power, forgetful=forgetful)
        while not written(link):
            pass
        disk.dead = True
        link.close()
    for left in cuts(power, tmp_path, seed):
        link = Link(left / STORE, on_first_open=one_table)
        with link.read() as db:
            assert db.execute("SELECT x FROM t").fetchall() == [(7,)]
        link.close()


@contextmanager
def disk_in(tmp_path: Path, power: Power) -> Iterator[tuple[Path, Disk]]:
    """A folder to play in, on a disk that the test can fail."""
    played = tmp_path / "played"
    played.mkdir()
    with Disk(played, power) as disk:
        yield played, disk


def written(link: Link) -> bool:
    """Whether the row is there, once somebody said so."""
    with suppress(StoreUnavailable), link.write() as db:
        if not db.execute("SELECT 1 FROM t WHERE x = 7").fetchall():
            db.execute("INSERT INTO t (x) VALUES (7)")
        return True
    return False


@pytest.mark.parametrize(("failures", "forgetful"), HONEST + FORGETFUL)
def test_an_append_that_was_in_doubt_and_is_answered_survives_a_power_cut(
    failures: int, forgetful: bool, tmp_path: Path, seed: random.Random
) -> None:
    # A process that only appends has a single connection: when that is dropped, the log is recovered, and what
    # failed to be synced may be found in it.
    power = Power()
    with disk_in(tmp_path, power) as (played, disk):
        store = SqliteStore(played / STORE)
        first = store.reserve(3)
        store.start(NewRun(first, "r", endless=True))
        disk.fault = failing_syncs(failures, power, forgetful=forgetful)
        send(lambda store: store.append([Addition(first, [NewTasks(first + 1, "work", [b"1"])])]), store)
        disk.dead = True
        store.close()
    for left in cuts(power, tmp_path, seed):
        store = SqliteStore(left / STORE)
        assert [row.body for row in store.reads.tasks(first).rows] == [b"1"]
        assert oracle.check(store) == []
        store.close()
