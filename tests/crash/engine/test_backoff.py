"""A back-off outlives the process that was told to wait."""

from __future__ import annotations

from ramify.model.event import Status
from tests.crash.clients import LIMIT, wait_until
from tests.crash.engine.scene import Scene
from tests.crash.witness import Said


def test_a_retry_that_is_due_later_does_not_start_at_once_after_a_kill(scene: Scene) -> None:
    program = scene.play("again", 1, started=1)
    (first,) = scene.said(Said.START)
    (task,) = first.tasks
    wait_until(lambda: scene.store.reads.events(task, task), "the failure to be committed")
    program.kill()
    assert [event.status for event in scene.store.reads.events(task, task)] == [Status.RETRYING]
    assert scene.play("again", 1).ends_within(LIMIT)
    (_, second) = scene.said(Said.START)
    assert (second.tasks, second.process != first.process) == ((task,), True)
    assert second.seq - first.seq >= 1_500_000
    scene.check_done(1)
