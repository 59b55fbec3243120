"""Burials that went wrong elsewhere: the finished overwritten, the living rescued, the dead forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

from ramify.kernel.core.queues import Queues
from ramify.kernel.settings import Settings
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, RunState
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from ramify.testing.clock import FakeClock
from tests.crash.clients import LIMIT, STORE, wait_until
from tests.crash.engine.program import held, leaf, waiting
from tests.crash.engine.scene import Scene
from tests.crash.engine.told import ToldEngine
from tests.crash.witness import Said
from tests.crash.worker import RUN_NAME

DEAD_AFTER = 0.7
SHORT = (f"dead_after={DEAD_AFTER}", "beat_every=0.05", "threads=1")


def settings(*runs: int, queues: frozenset[str] | None = None) -> Settings:
    """A patient kernel, or one that works until these runs have ended."""
    return Settings(
        runs=frozenset(runs) or None,
        until_ended=bool(runs),
        queues=None if queues is None else Queues.of(queues),
        threads=1,
        beat_every=0.05,
        dead_after=DEAD_AFTER,
    )


def test_r1_a_task_that_was_completed_is_not_offered_again_by_a_late_reaper(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start(held.of("after-commit"))
    frozen = scene.play("freeze", 0, *SHORT)
    frozen.tell(f"{run.id} after-commit")
    frozen.wait_stopped()
    # Its process fell silent right after the commit, and is buried with that task done.
    engine._runtime.kernel(settings(run.id)).run()
    starts = [task for line in scene.said(Said.START) for task in line.tasks]
    assert len(starts) == len(set(starts)) == 11
    frozen.thaw()
    assert frozen.hear() == "over"
    assert oracle.check(engine._runtime.store) == []


def test_r3_nothing_stays_running_after_its_process_died(scene: Scene) -> None:
    program = scene.play("waiting", 1_000, "threads=4", started=4)
    program.kill()
    claimed = [row for row in scene.store.reads.segments().rows if row.state is SegmentState.CLAIMED]
    assert claimed
    scene.go()
    assert scene.play("waiting", 1_000, "threads=4").ends_within(LIMIT)
    assert not scene.store.reads.segments().rows
    scene.check_done(1_000)


def test_r6_a_dead_process_whose_lock_file_was_removed_first_is_recovered_all_the_same(scene: Scene) -> None:
    program = scene.play("waiting", 4, "threads=1", started=1)
    program.kill()
    shutil.rmtree(scene.folder / f"{STORE}-live")
    scene.go()
    assert scene.play("waiting", 4, "threads=1").ends_within(LIMIT)
    scene.check_done(4)


def test_r7_a_process_whose_every_thread_is_busy_still_buries_the_dead(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), 0)], name=RUN_NAME)
    busy = engine._runtime.kernel(settings(run.id))
    busy.start()
    wait_until(lambda: scene.said(Said.START), "the only thread to be busy")
    other = engine.start([waiting.of(str(scene.folder / "elsewhere"), 0)], name="other")
    doomed = scene.play("run", other.id, *SHORT, started=1)
    assert not _is_buried(engine, doomed.pid)
    doomed.kill()
    wait_until(lambda: _is_buried(engine, doomed.pid), "the burial")
    assert not run.ended
    scene.go()
    assert busy.join(LIMIT)
    assert run.state is RunState.DONE


def _is_buried(engine: ToldEngine, pid: int) -> bool:
    return all(process.reaped for process in engine._runtime.store.reads.processes() if process.pid == pid)


def test_r8_a_burial_only_offers_again_and_runs_nothing(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), number) for number in range(4)], name=RUN_NAME)
    program = scene.play("run", run.id, *SHORT, started=1)
    program.kill()
    started = len(scene.said(Said.START))
    # It serves another queue, so that it can only bury.
    undertaker = engine._runtime.kernel(settings(queues=frozenset({"another"})))
    undertaker.start()
    wait_until(lambda: _is_buried(engine, program.pid), "the burial")
    rows = engine._runtime.store.reads.segments().rows
    assert {(row.state, row.owner) for row in rows} == {(SegmentState.READY, None)}
    undertaker.stop()
    assert undertaker.join(LIMIT)
    assert len(scene.said(Said.START)) == started
    scene.go()
    engine._runtime.kernel(settings(run.id)).run()
    scene.check_done(4)


def test_r12_what_was_claimed_in_the_same_moment_as_the_dead_ones_claim_stays_with_its_owner(tmp_path: Path) -> None:
    clock = FakeClock()
    mine, theirs = (SqliteStore(tmp_path / STORE, clock=clock) for _ in range(2))
    first = mine.reserve(3)
    mine.start(NewRun(first), [NewTasks(first + 1, "leaf", [b"[1]", b"[2]"])])
    me, other = new_process_id(), new_process_id()
    claims = {}
    for store, process in ((theirs, other), (mine, me)):
        store.enter(NewProcess(process))
        store.beat(process)
        (claims[process],) = store.claim(Stamp(process, 1), Want(frozenset({"leaf"}), 1)).claims
    theirs.close()
    assert mine.reap(me, 60.0).processes == (other,)
    assert {row.owner for row in mine.reads.segments().rows} == {me, None}
    assert not mine.commit(Stamp(me, 2), [Part(claims[me].token, claims[me].tasks)]).refused
    assert oracle.check(mine) == []
    mine.close()


def test_r14_a_long_task_of_a_process_that_beats_is_never_rescued(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), 0)], name=RUN_NAME)
    program = scene.play("run", run.id, *SHORT, started=1)
    watcher = engine._runtime.kernel(settings(queues=frozenset({"another"})))
    watcher.start()
    beats = _beats(engine, program.pid)
    # Several times as long as it takes to declare a silent process dead.
    wait_until(lambda: _beats(engine, program.pid) - beats > 4 * DEAD_AFTER * 1_000_000, "a long time")
    assert not _is_buried(engine, program.pid)
    scene.go()
    assert program.ends_within(LIMIT)
    watcher.stop()
    assert watcher.join(LIMIT)
    assert len(scene.said(Said.START)) == 1
    scene.check_done(1)


def _beats(engine: ToldEngine, pid: int) -> int:
    store = engine._runtime.store
    (age,) = (process.beat_age for process in store.reads.processes() if process.pid == pid)
    assert age is not None
    return store.now() - round(age * 1_000_000)


def test_r17_a_store_with_keys_and_rows_opens_after_any_kill(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([leaf.of(number).unique(f"key {number}") for number in range(300)], name=RUN_NAME)
    for _ in range(3):
        program = scene.play("run", run.id, "threads=2", "claim_at_most=5", "durability=process", started=3)
        program.kill()
        SqliteStore(scene.folder / STORE).close()
    engine._runtime.kernel(settings(run.id)).run()
    scene.check_done(300)
    assert oracle.check(engine._runtime.store) == []
