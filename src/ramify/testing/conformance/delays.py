"""Delays: a task that waits for a join may have to wait longer, from the moment at which that fires.

What its rule skips is not worth waiting for, and is offered at once. A task that begins a new life waits again, and so
does one whose join is set back and fires again. One that somebody settles meanwhile has ended.
"""

from __future__ import annotations

from ramify.errors import BadPayload
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED, SECOND
from ramify.testing.conformance.house import House, Worker, refused
from ramify.testing.conformance.registry import case

_DELAY = 10 * SECOND


@case("joins")
def a_delay_counts_from_when_its_join_fires(house: House) -> None:
    _, worker, join = _delayed(house)
    house.clock.advance(60)
    worker.done(worker.take())
    assert house.row_of(join).due == house.clock.now() + _DELAY
    house.clock.advance(9.999999)
    assert house.offered() == []
    house.clock.advance(0.000001)
    assert house.offered() == [join]


@case("joins")
def what_is_to_be_skipped_does_not_wait_for_its_delay(house: House) -> None:
    _, worker, join = _delayed(house)
    worker.end(worker.take(), status=Status.FAILED)
    assert house.offered() == [join]


@case("joins")
def tasks_of_one_row_are_delayed_one_by_one(house: House) -> None:
    members = house.tasks(3)
    waiting = house.tasks(3, kind="sum", waits=True, due=_DELAY)
    house.start_graph([members, waiting], [(members.first + i, waiting.first + i) for i in range(3)])
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    worker.done(claim, claim.tasks[:1])
    house.clock.advance(1)
    worker.commit(Part(claim.token, claim.tasks[1:], [Status.DONE, Status.FAILED]))
    assert house.offered() == [waiting.last]
    house.clock.advance(9)
    assert house.offered() == [waiting.first, waiting.last]
    house.clock.advance(1)
    assert house.offered() == list(waiting.ids)


@case("joins")
def a_parked_task_of_a_join_waits_for_somebody_to_settle_it(house: House) -> None:
    run, worker, join = _delayed(house, PARKED)
    worker.done(worker.take())
    house.clock.advance(10 * 365 * 86_400)
    assert house.row_of(join).due == PARKED
    assert house.offered() == []
    house.store.settle(run, join, Status.DONE, b"true")
    assert house.ended(join) is Status.DONE


@case("joins")
def a_reopened_task_waits_for_its_delay_again(house: House) -> None:
    run, worker, join = _delayed(house)
    worker.done(worker.take())
    house.clock.advance(10)
    worker.end(worker.take(), status=Status.FAILED)
    worker.reopen(run, [join])
    house.settle(run)
    assert house.offered() == []
    house.clock.advance(10)
    assert house.offered() == [join]


@case("joins")
def a_join_that_was_set_back_delays_its_task_again(house: House) -> None:
    run, worker, join = _delayed(house)
    member = worker.take()
    worker.done(member)
    house.clock.advance(10)
    worker.done(worker.take())
    worker.reopen(run, member.tasks)
    house.settle(run)
    house.clock.advance(60)
    assert house.offered() == list(member.tasks)
    worker.done(worker.take())
    assert house.offered() == []
    house.clock.advance(10)
    assert house.offered() == [join]


@case("joins")
def a_delay_that_is_none_is_refused(house: House) -> None:
    with house.nothing_changes(), refused(BadPayload):
        _delayed(house, -1)


def _delayed(house: House, delay: int = _DELAY) -> tuple[int, Worker, int]:
    """A run in which a task waits for another one, and then for a while."""
    waiting = house.tasks(kind="sum", waits=True, due=delay)
    member = house.tasks(join=waiting.first)
    run = house.any_run(member, waiting, joins=[NewJoins.one(waiting.first, 1)])
    return run, house.worker(), waiting.first
