"""Late work that went wrong elsewhere: executed for nobody, thrown away in silence, or added twice."""

from __future__ import annotations

from ramify.inspect.audit import audit
from ramify.kernel.core.queues import Queues
from ramify.kernel.settings import Settings
from ramify.model import decision
from ramify.model.run import RunState
from ramify.testing import oracle
from tests.crash.clients import LIMIT, STORE, Client, wait_until
from tests.crash.engine.program import held, waiting
from tests.crash.engine.scene import Scene, let_pass
from tests.crash.engine.test_store_away import writing
from tests.crash.engine.told import ToldEngine
from tests.crash.witness import Said
from tests.crash.worker import RUN_NAME

DEAD_AFTER = 0.7
SHORT = (f"dead_after={DEAD_AFTER}", "beat_every=0.05", "threads=1")


def finisher(*runs: int) -> Settings:
    """A kernel that buries the silent soon, and works until these runs have ended."""
    return Settings(runs=frozenset(runs), until_ended=True, threads=1, beat_every=0.05, dead_after=DEAD_AFTER)


def frozen_at(stop: str, scene: Scene, engine: ToldEngine) -> tuple[Client, int]:
    """A process that is frozen in a task, and the run, which another one has finished since."""
    run = engine.start(held.of(stop))
    client = scene.play("freeze", 0, *SHORT)
    client.tell(f"{run.id} {stop}")
    client.wait_stopped()
    engine._runtime.kernel(finisher(run.id)).run()
    assert run.state is RunState.DONE
    return client, run.id


def test_r4_a_handler_learns_that_its_task_belongs_to_another_process_by_now(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), 0)], name=RUN_NAME)
    client = scene.play("run", run.id, *SHORT, started=1)
    client.stop_between_writes()
    another = engine._runtime.kernel(finisher(run.id))
    another.start()
    wait_until(lambda: len(scene.said(Said.START)) == 2, "another process to take the task over")
    # The first handler waits for a file that is still not there: only `current().cancelled` can end it.
    client.thaw()
    wait_until(lambda: scene.said(Said.EFFECT), "the first handler to give up")
    (line,) = scene.said(Said.EFFECT)
    assert (line.process, line.seq) == (client.pid, True)
    scene.go()
    assert another.join(LIMIT)
    assert client.ends_within(LIMIT)
    scene.check_done(1)


def test_r5_an_outcome_that_waits_for_the_store_keeps_its_task(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), 0)], name=RUN_NAME)
    client = scene.play("run", run.id, *SHORT, "busy=0.1", started=1)
    # A watcher with a clean record, who buries whoever falls silent.
    watcher = engine._runtime.kernel(Settings(queues=Queues.of(["another"]), beat_every=0.05, dead_after=DEAD_AFTER))
    watcher.start()
    with writing(scene.folder / STORE):
        scene.go()
        wait_until(lambda: scene.said(Said.COMMIT_ERR), "the commit to fail")
        let_pass(2 * DEAD_AFTER)
    assert client.ends_within(LIMIT)
    watcher.stop()
    assert watcher.join(LIMIT)
    assert len(scene.said(Said.START)) == 1
    assert not engine._runtime.store.reads.refusals()
    scene.check_done(1)


def test_r15_a_task_that_ran_twice_has_its_children_once(scene: Scene, engine: ToldEngine) -> None:
    client, run = frozen_at("before-commit", scene, engine)
    before = audit(engine._runtime.store.reads, run)
    client.thaw()
    assert client.hear() == "over"
    assert audit(engine._runtime.store.reads, run) == before
    assert (before.tasks, before.ended) == (11, 11)
    assert oracle.check(engine._runtime.store) == []


def test_r19_a_late_outcome_is_refused_and_the_refusal_is_kept(scene: Scene, engine: ToldEngine) -> None:
    client, _ = frozen_at("before-commit", scene, engine)
    assert not engine._runtime.store.reads.refusals()
    client.thaw()
    assert client.hear() == "over"
    (refusal,) = engine._runtime.store.reads.refusals()
    (late,) = scene.said(Said.REFUSED)
    assert (refusal.process, refusal.tasks) == (late.process, 1)


def test_r2_a_cancel_is_heard_at_the_next_beat_whatever_became_of_the_wake_up(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), 0)], name=RUN_NAME)
    kernel = engine._runtime.kernel(Settings(runs=frozenset({run.id}), until_ended=True, threads=1, beat_every=0.05))
    kernel.start()
    wait_until(lambda: scene.said(Said.START), "the task to run")
    # Another client of the store cancels; the handler has nothing but the beats of its own process to hear it by.
    scene.store.cancel(run.id, said=decision.Said("not needed"))
    wait_until(lambda: scene.said(Said.EFFECT), "the handler to hear of it")
    assert kernel.join(LIMIT)
    assert run.state is RunState.CANCELLED


def test_r11_a_process_that_drains_takes_nothing_more(scene: Scene, engine: ToldEngine) -> None:
    run = engine.start([waiting.of(str(scene.folder), 0)], name=RUN_NAME, order="any")
    kernel = engine._runtime.kernel(Settings(threads=2, beat_every=0.05))
    kernel.start()
    wait_until(lambda: scene.said(Said.START), "the task to run")
    kernel.stop()
    claims = len(scene.said(Said.CLAIM))
    run.add(*(waiting.of(str(scene.folder), number) for number in range(1, 4)))
    let_pass(0.3)
    scene.go()
    assert kernel.join(LIMIT)
    assert len(scene.said(Said.CLAIM)) == claims
    assert run.counts.done == 1
