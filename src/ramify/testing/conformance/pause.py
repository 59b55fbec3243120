"""`pause` and `resume`: no further claims of a run are granted until it is resumed.

What is held goes on and is committed; everything else waits in its place. Ended and draining runs stay as they are.
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.run import Order, RunState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, refused, want
from ramify.testing.conformance.registry import case


@case("pause")
def no_claim_is_granted_until_resume(house: House) -> None:
    for order in Order:
        tasks, other = house.tasks(3), house.tasks(kind="copy")
        run = house.run(tasks, order=order)
        beside = house.run(other)
        assert house.store.pause(run) is RunState.PAUSED
        assert house.store.reads.run(run).state is RunState.PAUSED
        assert house.offered() == [other.first]
        assert house.store.resume(run) is RunState.OPEN
        assert house.offered() == [*tasks.ids, other.first]
        house.finish(run)
        house.finish(beside)


@case("pause")
def what_is_held_goes_on_and_its_children_wait(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    house.store.pause(run)
    child = house.tasks(parents=claim.tasks[0])
    answer = worker.commit(Part(claim.token, claim.tasks, children=[child]), then=want())
    assert not answer.refused
    assert answer.claimed.claims == ()
    assert house.offered() == []
    house.store.resume(run)
    assert house.offered() == sorted([claim.tasks[0] + 1, child.first])


@case("pause")
def what_is_put_back_waits(house: House) -> None:
    claim = house.put_back_while_paused(house.run(house.tasks(2)))
    assert house.offered() == list(claim.tasks)


@case("pause")
def what_becomes_due_waits(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.pause(run)
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, house.clock.now() + SECOND)])
    house.clock.advance(2)
    assert house.offered() == []
    house.store.resume(run)
    assert house.offered() == list(claim.tasks)


@case("pause")
def the_task_of_a_join_that_fires_waits(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    run = house.any_run(house.tasks(join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 1)])
    worker = house.worker()
    claim = worker.take()
    house.store.pause(run)
    worker.done(claim)
    assert house.join(run, waiting.first).fired
    assert house.offered() == []
    house.store.resume(run)
    assert house.offered() == [waiting.first]


@case("pause")
def resume_opens_no_round_before_its_time(house: House) -> None:
    run = house.run(house.tasks())
    later = house.tasks()
    house.add(run, later)
    worker = house.worker()
    claim = worker.take()
    house.store.pause(run)
    house.store.resume(run)
    assert house.offered() == []
    worker.done(claim)
    house.settle(run)
    assert house.offered() == [later.first]


@case("pause")
def paused_between_rounds_a_run_goes_on_where_it_was(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    child = house.tasks(parents=claim.tasks[0])
    worker.done(claim, children=[child])
    house.store.pause(run)
    assert house.settle(run).round == 0
    house.store.resume(run)
    assert house.settle(run).round == 1
    assert house.offered() == [child.first]


@case("pause")
def pausing_or_resuming_twice_is_once(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks)
    assert house.store.resume(run) is RunState.OPEN
    assert house.store.pause(run) is RunState.PAUSED
    assert house.store.pause(run) is RunState.PAUSED
    assert house.store.resume(run) is RunState.OPEN
    assert house.offered() == [tasks.first]


@case("pause")
def ended_runs_stay_as_they_are(house: House) -> None:
    run = house.run(house.tasks())
    house.finish(run)
    with house.nothing_changes():
        assert house.store.pause(run) is RunState.DONE
        assert house.store.resume(run) is RunState.DONE


@case("pause")
def draining_runs_stay_as_they_are(house: House) -> None:
    run = house.run(house.tasks(2))
    house.worker().take(1)
    house.store.cancel(run)
    with house.nothing_changes():
        assert house.store.pause(run) is RunState.DRAINING
        assert house.store.resume(run) is RunState.DRAINING
    assert house.offered() == []


@case("pause")
def a_run_that_does_not_exist_can_be_neither(house: House) -> None:
    with refused(UnknownRun):
        house.store.pause(house.store.reserve(1))
    with refused(UnknownRun):
        house.store.resume(house.store.reserve(1))
