"""Slots of a join that are taken over.

A member that is `withheld` ends without arriving: a child of the same part takes its slot over.
"""

from __future__ import annotations

from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.testing.conformance.house import House, members_and_broken
from ramify.testing.conformance.joins import fan
from ramify.testing.conformance.registry import case


@case("joins")
def a_withheld_member_leaves_its_slot_to_a_child(house: House) -> None:
    run, worker, join = fan(house, 2)
    claim = worker.take()
    heir = house.tasks(join=join, slot=1, parents=claim.tasks[1])
    worker.done(claim, withheld=frozenset(claim.tasks[1:]), children=[heir])
    seen = house.join(run, join)
    assert (seen.needs, seen.arrived) == (2, 1)
    assert house.ended(claim.tasks[1]) is Status.DONE
    assert house.offered() == [heir.first]
    worker.end(worker.take(), status=Status.FAILED)
    more = worker.take().details[join]
    assert members_and_broken(more) == (2, 1)
    assert dict(house.store.reads.members(join).rows)[1] == heir.first


@case("joins")
def a_withheld_member_still_arrives_where_others_wait_for_it(house: House) -> None:
    """It leaves its own group's slot to its child; its end is an end all the same."""
    run, worker, join = fan(house, 1)
    claim = worker.take()
    other = house.tasks(kind="sum", waits=True)
    house.add(
        run, other, joins=[NewJoins.one(other.first, 1)], waiters=[NewWaiters.one(claim.tasks[0], other.first, 0)]
    )
    heir = house.tasks(join=join, slot=0)
    worker.done(claim, withheld=frozenset(claim.tasks), children=[heir])
    assert (house.join(run, join).fired, house.join(run, other.first).fired) == (False, True)
    assert house.offered() == sorted([heir.first, other.first])


@case("joins")
def a_slot_is_handed_down_from_child_to_child(house: House) -> None:
    run, worker, join = fan(house, 1)
    for _ in range(3):
        claim = worker.take()
        heir = house.tasks(join=join, slot=0, parents=claim.tasks[0])
        worker.done(claim, withheld=frozenset(claim.tasks), children=[heir])
        assert house.join(run, join).arrived == 0
    worker.done(worker.take())
    assert house.offered() == [join]


@case("joins")
def published_staged_tasks_are_members_too(house: House) -> None:
    """Their slots are known while they are streamed; the join is made with the publish."""
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    waiting = house.tasks(kind="sum", waits=True)
    blocks = [house.tasks(3, join=waiting.first, slot=slot) for slot in (0, 3)]
    for block in blocks:
        worker.stage(claim, block)
    join = NewJoins.one(waiting.first, 6)
    worker.done(claim, children=[waiting], joins=[join], publish=[block.first for block in blocks])
    one, two = worker.claim()
    worker.done(one)
    assert house.join(run, waiting.first).arrived == 3
    worker.done(two)
    assert house.offered() == [waiting.first]


@case("joins")
def the_members_of_a_join_are_read_by_slot(house: House) -> None:
    _, _, join = fan(house, 25)
    page = house.store.reads.members(join, limit=10)
    slots = []
    while True:
        slots += [slot for slot, _ in page.rows]
        if not page.more:
            break
        page = house.store.reads.members(join, after=page.after, limit=10)
    assert slots == list(range(25))
