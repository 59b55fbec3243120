"""Slots of a join that are added late, or taken over.

Only a member that has not arrived may add slots, in the part of its own end. A member that is `withheld` ends without
arriving: a child of the same part takes its slot over.
"""

from __future__ import annotations

from ramify.errors import BadPayload
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.testing.conformance.house import House, members_and_broken, refused
from ramify.testing.conformance.joins import fan
from ramify.testing.conformance.registry import case


@case("joins")
def a_member_may_add_members_with_its_own_end(house: House) -> None:
    """Otherwise the join would fire before the new members are known."""
    run, worker, join = fan(house, 1)
    claim = worker.take()
    late = house.tasks(2, join=join, slot=None, parents=claim.tasks[0])
    worker.done(claim, children=[late])
    seen = house.join(run, join)
    assert (seen.needs, seen.arrived, seen.fired) == (3, 1, False)
    assert house.offered() == list(late.ids)
    second = worker.take()
    later = house.tasks(join=join, slot=None)
    worker.done(second, second.tasks[:1], children=[later])
    worker.done(second, second.tasks[1:])
    assert not house.join(run, join).fired
    worker.done(worker.take())
    more = worker.take().details[join]
    assert members_and_broken(more) == (4, 0)
    slots = [slot for slot, _ in house.store.reads.members(join).rows]
    assert slots == sorted(set(slots))
    assert [task for _, task in house.store.reads.members(join).rows] == [*claim.tasks, *late.ids, *later.ids]


@case("joins")
def who_is_no_member_adds_no_members(house: House) -> None:
    run, worker, join = fan(house, 1)
    house.add(run, house.tasks(kind="copy"))
    claim = worker.take(kinds=["copy"])
    late = house.tasks(join=join, slot=None)
    with house.nothing_changes(), refused(BadPayload):
        worker.commit(Part(claim.token, claim.tasks, children=[late]))
    with house.nothing_changes(), refused(BadPayload):
        house.add(run, late)
    worker.done(claim)


@case("joins")
def late_members_beyond_a_part_are_waited_for(house: House) -> None:
    run, worker, join = fan(house, 1)
    claim = worker.take()
    late = house.tasks(9_000, join=join, slot=None)
    worker.done(claim, children=[late])
    held = worker.take(1)
    while claims := worker.claim(5_000):
        for claim in claims:
            worker.done(claim)
    assert (house.join(run, join).needs, house.join(run, join).arrived) == (9_001, 9_000)
    worker.done(held)
    assert members_and_broken(worker.take().details[join]) == (9_001, 0)


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
