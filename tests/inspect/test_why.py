"""Why is this task not running? One test for each cause."""

import pytest

from ramify.errors import UnknownTask
from ramify.inspect.why import Cause, why
from ramify.model.codec.wire import write
from ramify.model.commit import Later
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.gate import GATE, GateSpec
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED, SECOND
from ramify.model.process import NewProcess, new_process_id
from ramify.model.run import Follows
from ramify.model.schema import schema_of
from ramify.testing.conformance import House


def test_it_ended(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks, name="walk")
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    house.settle(run)
    found = why(house.store, tasks.first)
    assert found.cause is Cause.ENDED
    assert "ended as failed (run walk is failed)" in found.text
    assert "retry" in (found.advice or "")


def test_a_live_process_holds_it(house: House) -> None:
    tasks = house.tasks(5)
    house.run(tasks)
    worker = house.worker()
    worker.take()
    found = why(house.store, tasks.first)
    assert found.cause is Cause.HELD
    assert f"process {worker.process:x}" in found.text
    assert "together with 4 others" in found.text


def test_its_process_is_dead_and_not_yet_reaped(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    worker = house.worker()
    worker.take()
    worker.store.close()
    # The reference store knows a death only by missing beats, after which it is reaped.
    known = house.store.describe().name != "memory"
    assert why(house.store, tasks.first).cause is (Cause.HELD_BY_THE_DEAD if known else Cause.HELD)


def test_nobody_works(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    found = why(house.store, tasks.first)
    assert (found.cause, found.advice) == (Cause.NOBODY_WORKS, "start one")


def test_a_command_that_came_in_for_a_moment_is_nobody_at_work(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    house.store.enter(NewProcess(new_process_id(), kinds=()))
    assert why(house.store, tasks.first).cause is Cause.NOBODY_WORKS


def test_no_live_process_knows_its_kind(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    house.store.enter(NewProcess(new_process_id(), kinds=("copy",)))
    found = why(house.store, tasks.first)
    assert found.cause is Cause.KIND_UNKNOWN
    assert "'walk'" in found.text


def test_no_live_process_serves_its_queue(house: House) -> None:
    tasks = house.tasks(queue="mail")
    house.run(tasks)
    house.store.enter(NewProcess(new_process_id(), kinds=("walk",), queues=("default",)))
    found = why(house.store, tasks.first)
    assert found.cause is Cause.QUEUE_UNSERVED
    assert "'mail'" in found.text


def test_it_is_ready_and_somebody_could_take_it(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    house.store.enter(NewProcess(new_process_id(), kinds=("walk",)))
    assert why(house.store, tasks.first).cause is Cause.READY


def test_a_process_that_did_not_say_what_it_knows_leaves_a_doubt(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    house.worker()
    found = why(house.store, tasks.first)
    assert found.cause is Cause.READY
    assert "did not say which kinds" in found.text


def test_its_run_is_paused(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks, name="walk")
    house.store.pause(run)
    found = why(house.store, tasks.first)
    assert (found.cause, found.advice) == (Cause.PAUSED, "ramify resume walk")


def test_its_round_is_not_open(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    children = house.tasks()
    worker.done(claim, claim.tasks[:1], children=[children])
    found = why(house.store, children.first)
    assert found.cause is Cause.ROUND
    assert "round 1; its run is at round 0, held there by 2 tasks" in found.text


def test_its_run_follows_another(house: House) -> None:
    leader = house.run(house.tasks(), name="leader")
    tasks = house.tasks()
    house.run(tasks, follows=Follows(leader))
    found = why(house.store, tasks.first)
    assert found.cause is Cause.FOLLOWS
    assert "run leader has passed round 1; that is at round 0" in found.text


def test_it_is_due_later(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    due = house.clock.now() + 90 * SECOND
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, due)])
    found = why(house.store, claim.tasks[0])
    assert (found.cause, found.until) == (Cause.DUE, due)
    assert "due in 90.0 s, for another try after 1 failed" in found.text


@pytest.mark.parametrize(
    ("value", "says"),
    [(b'{"reason":"no file"}', "looks again: no file"), (b'{"seconds":90.0}', "looks again for 90 s"), (None, "again")],
)
def test_it_looks_again_later(house: House, value: bytes | None, says: str) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    due = house.clock.now() + 90 * SECOND
    worker.end(claim, status=Status.DEFERRED, values=[value], later=[Later(claim.tasks, due)])
    found = why(house.store, claim.tasks[0])
    assert (found.cause, found.until) == (Cause.DUE, due)
    assert found.text.endswith(says)


def test_it_is_parked(house: House) -> None:
    tasks = house.tasks(due=PARKED)
    house.run(tasks)
    assert why(house.store, tasks.first).cause is Cause.PARKED


def test_it_is_suspect_and_waits_for_an_idle_process(house: House) -> None:
    tasks = house.tasks()
    house.run(tasks)
    for _ in range(2):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take().tasks, 5), evidence=True))
    house.worker()
    found = why(house.store, tasks.first)
    assert found.cause is Cause.SUSPECT
    assert "died 2 times" in found.text


def test_it_waits_for_a_join(house: House) -> None:
    waiting = house.tasks(1, kind="sum", waits=True)
    members = house.tasks(3, join=waiting.first)
    house.run(members, waiting, joins=[NewJoins.one(waiting.first, 3)])
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:1])
    worker.end(claim, claim.tasks[1:2], status=Status.FAILED)
    found = why(house.store, waiting.first)
    assert found.cause is Cause.JOIN
    assert "3 tasks to end, and 2 of them have (1 not as done)" in found.text


def test_it_is_not_published(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    staged = house.tasks(3)
    worker.stage(worker.take(), staged)
    with pytest.raises(UnknownTask, match="not published"):
        why(house.store, staged.first)


def test_its_run_has_as_many_tasks_running_as_it_may(house: House) -> None:
    tasks = house.tasks(3)
    house.run(tasks, max_running=2)
    house.worker().claim()
    found = why(house.store, tasks.last)
    assert found.cause is Cause.NO_ROOM
    assert "has 2 tasks claimed, as many as it may have" in found.text


def test_a_gate_waits_for_an_answer_and_says_which_and_until_when(house: House) -> None:
    spec = GateSpec("approval", schema_of(bool | None), timeout=60.0)
    due = house.store.now() + 60 * SECOND
    gate = house.tasks([write([spec])], kind=GATE, keys=[b"approval"], due=due)
    patient = house.tasks([write([spec])], kind=GATE, keys=[b"lot[2].approval"], due=PARKED)
    house.run(gate, patient, name="order")
    found = why(house.store, gate.first)
    assert (found.cause, found.until, found.advice) == (Cause.ANSWER, due, "ramify answer order approval JSON")
    assert found.text.startswith("it is a gate, and waits for an answer until ")
    assert found.text.endswith(": boolean or null")
    other = why(house.store, patient.first)
    assert (other.until, other.text) == (None, "it is a gate, and waits for an answer: boolean or null")
    assert other.advice == "ramify answer order 'lot[2].approval' JSON"
    house.clock.advance(60)
    assert why(house.store, gate.first).cause is Cause.NOBODY_WORKS
