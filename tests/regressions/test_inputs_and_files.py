"""Inputs and files that went wrong elsewhere: empty names, a bad task in a batch, tasks of the future, broken files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramify import BadPayload, Run
from ramify.errors import RamifyError, StoreError
from ramify.kernel.settings import Settings
from ramify.model.addition import Addition
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.model.task import NewTasks
from ramify.store.memory import MemoryStore
from ramify.store.sqlite.file import wal
from ramify.testing import oracle
from ramify.testing.clock import FakeClock
from tests.crash.clients import STORE, wait_until
from tests.crash.engine.program import leaf
from tests.crash.engine.told import ToldEngine
from tests.crash.witness import Said


def work(engine: ToldEngine, run: Run[int]) -> None:
    """Work on a run until it has ended."""
    engine._runtime.kernel(Settings(runs=frozenset({run.id}), until_ended=True, threads=2, beat_every=0.05)).run()


def test_r9_an_empty_name_is_no_name(engine: ToldEngine) -> None:
    with pytest.raises(RamifyError):
        engine.start(leaf.of(1), name="")
    with pytest.raises(BadPayload):
        leaf.of(1).key("")
    with pytest.raises(BadPayload):
        leaf.of(1).once("")
    with pytest.raises(BadPayload):
        leaf.of(1).queue("")
    assert not engine._runtime.store.reads.runs().rows


def test_r10_one_bad_task_does_not_strand_those_it_was_claimed_with(engine: ToldEngine) -> None:
    run = engine.start([leaf.of(number) for number in range(49)])
    first = engine._runtime.store.reserve(1)
    engine._runtime.store.append([Addition(run.id, [NewTasks(first, "leaf", [b'{"not": "arguments"}'])])])
    work(engine, run)
    assert run.state is RunState.FAILED
    assert (run.counts.done, run.counts.failures) == (49, 1)
    assert engine._runtime.store.reads.history(first).ended is Status.FAILED


def test_r13_tasks_of_the_future_are_not_held_by_anybody_until_they_are_due(engine: ToldEngine) -> None:
    clock = FakeClock()
    engine._runtime.use(MemoryStore(clock=clock))
    tasks, wait = 10_000, 5 * 60.0
    run = engine.start([leaf.of(number).delay(wait) for number in range(tasks)], order="any")
    kernel = engine._runtime.kernel(Settings(runs=frozenset({run.id}), until_ended=True, threads=2, beat_every=0.05))
    kernel.start()
    wait_until(lambda: engine._runtime.store.reads.processes(), "the worker to be in")
    clock.advance(wait - 1)
    engine._runtime.store.wake()
    engine._runtime.store.wait(0.2, engine._runtime.store.wait(0, 0))
    assert not [line for line in engine.witness.lines() if line.said in (Said.CLAIM, Said.START)]
    clock.advance(2)
    engine._runtime.store.wake()
    assert kernel.join(60)
    starts = [line.tasks for line in engine.witness.lines() if line.said is Said.START]
    assert len(starts) == len(set(starts)) == tasks


def test_r16_the_log_of_the_store_does_not_grow_with_the_work(
    engine: ToldEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that it should have been begun anew several times; with the usual setting that takes far more work.
    monkeypatch.setattr(wal, "FEWEST_PAGES", 100)
    monkeypatch.setattr(wal, "MOST_PAGES", 100)
    sizes = []
    for _ in range(4):
        run = engine.start([leaf.of(number) for number in range(4_000)])
        work(engine, run)
        sizes.append((tmp_path / f"{STORE}-wal").stat().st_size)
    assert sizes[-1] <= 1.5 * max(sizes[:2])
    assert sizes[-1] < 64 * 2**20
    assert oracle.check(engine._runtime.store) == []


@pytest.mark.parametrize("damage", [b"SQLite format 3\0" + b"\xff" * 4096, b"not a database at all" * 300])
def test_r18_a_damaged_store_is_an_error_and_never_an_empty_one(
    damage: bytes, engine: ToldEngine, tmp_path: Path
) -> None:
    engine.run(leaf.of(1), name="kept", threads=1)
    engine.close()
    for name in (f"{STORE}-wal", f"{STORE}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / STORE).write_bytes(damage)
    with pytest.raises(StoreError):
        engine.run(leaf.of(1), name="kept", threads=1)
    assert (tmp_path / STORE).read_bytes() == damage
