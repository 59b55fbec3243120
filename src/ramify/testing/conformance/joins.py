"""Joins: a task that waits for others is offered when each of its slots has had its arrival, in that transaction.

However its members end they arrive; those that did not end as done are counted as broken. A full join always publishes
its task, and a join that needs nobody does so at once.
"""

from __future__ import annotations

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import PART_SLOTS, Ends, NewJoins, NewWaiters
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.testing.conformance.house import House, Worker, members_and_broken, only, want
from ramify.testing.conformance.registry import case


@case("joins")
def the_task_of_a_join_is_offered_when_the_last_member_has_ended(house: House) -> None:
    run, worker, join = fan(house, 3)
    assert house.row_of(join).state is SegmentState.WAITING
    claim = worker.take()
    assert claim.kind == "walk"
    worker.done(claim, claim.tasks[1:2])
    worker.done(claim, claim.tasks[:1])
    assert house.join(run, join).arrived == 2
    assert house.offered() == []
    worker.done(claim, claim.tasks[2:])
    seen = house.join(run, join)
    assert (seen.needs, seen.arrived, seen.broken, seen.fired) == (3, 3, 0, True)
    assert house.offered() == [join]


@case("joins")
def its_claim_says_how_many_members_there_were_and_how_many_broke(house: House) -> None:
    _, worker, join = fan(house, 5)
    claim = worker.take()
    ends = [Status.DONE, Status.FAILED, Status.CANCELLED, Status.SKIPPED, Status.QUARANTINED]
    worker.commit(Part(claim.token, claim.tasks, ends))
    more = worker.take().details[join]
    assert members_and_broken(more) == (5, 4)
    assert more.members == Ends(done=1, failed=2, skipped=1, cancelled=1)


@case("joins")
def a_join_that_needs_nobody_fires_at_once(house: House) -> None:
    """Started, appended or committed."""
    first = house.tasks(kind="sum", waits=True)
    run = house.any_run(first, house.tasks(), joins=[NewJoins.one(first.first, 0)])
    second = house.tasks(kind="sum", waits=True)
    house.add(run, second, joins=[NewJoins.one(second.first, 0)])
    worker = house.worker()
    third = house.tasks(kind="sum", waits=True)
    worker.done(worker.take(1, ["walk"]), children=[third], joins=[NewJoins.one(third.first, 0)])
    assert house.offered() == [first.first, second.first, third.first]
    assert all(house.join(run, join.first).fired for join in (first, second, third))


@case("joins")
def a_join_fires_in_the_commit_that_fills_it(house: House) -> None:
    _, worker, join = fan(house, 2)
    claim = worker.take()
    next = only(worker.commit(Part(claim.token, claim.tasks), then=want()).claimed.claims)
    assert list(next.tasks) == [join]


@case("joins")
def what_is_not_an_end_is_not_an_arrival(house: House) -> None:
    run, worker, join = fan(house, 1)
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING)
    worker.end(claim, status=Status.DEFERRED)
    worker.release(claim)
    assert house.join(run, join).arrived == 0


@case("joins")
def a_refused_part_does_not_arrive(house: House) -> None:
    run, worker, join = fan(house, 1)
    claim = worker.take()
    worker.release(claim)
    worker.commit(Part(claim.token, claim.tasks))
    assert house.join(run, join).arrived == 0


@case("joins")
def a_commit_sent_again_arrives_once(house: House) -> None:
    run, worker, join = fan(house, 2)
    claim = worker.take(1)
    part = Part(claim.token, claim.tasks)
    worker.commit(part)
    worker.store.commit(worker.last, [part])
    assert house.join(run, join).arrived == 1


@case("joins")
def members_may_be_committed_with_the_join_as_children(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    root = worker.take()
    waiting = house.tasks(kind="sum", waits=True, parents=root.tasks[0])
    members = house.tasks(3, join=waiting.first, parents=root.tasks[0])
    worker.done(root, children=[members, waiting], joins=[NewJoins.one(waiting.first, 3)])
    house.settle(run)
    assert house.offered() == list(members.ids)
    assert house.finish(run).state is RunState.DONE
    assert house.events(waiting.first) == [Status.DONE]


@case("joins")
def several_groups_share_a_join_by_their_slots(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    one = house.tasks(2, join=waiting.first, slot=0)
    two = house.tasks(3, kind="copy", join=waiting.first, slot=2)
    run = house.any_run(one, two, waiting, joins=[NewJoins.one(waiting.first, 5)])
    worker = house.worker()
    worker.done(worker.take(kinds=["copy"]))
    assert house.join(run, waiting.first).arrived == 3
    worker.done(worker.take(kinds=["walk"]))
    assert house.offered() == [waiting.first]
    page = house.store.reads.members(waiting.first)
    assert list(page.rows) == list(enumerate([*one.ids, *two.ids]))


@case("joins")
def a_join_of_several_parts_fires_with_its_last_member(house: House) -> None:
    """Arrivals are kept in parts of 8,192 slots; no part alone fires it."""
    count = 2 * PART_SLOTS + 100
    run, worker, join = fan(house, count)
    held = worker.take(1)
    while claims := worker.claim(5_000):
        for claim in claims:
            worker.done(claim)
    assert house.join(run, join).arrived == count - 1
    assert not house.join(run, join).fired
    worker.end(held, status=Status.FAILED)
    more = worker.take().details[join]
    assert members_and_broken(more) == (count, 1)


@case("joins")
def the_members_of_a_dead_worker_arrive_once(house: House) -> None:
    run, worker, join = fan(house, 4)
    claim = worker.take()
    worker.done(claim, claim.tasks[:2])
    house.bury(worker)
    assert house.join(run, join).arrived == 2
    assert house.finish(run).state is RunState.DONE
    assert house.join(run, join).arrived == 4


@case("joins")
def a_member_that_lives_again_arrives_once(house: House) -> None:
    """A bit per slot, not a counter: the second end of the same member must not stand in for another's."""
    run, worker, join = fan(house, 2)
    claim = worker.take()
    worker.done(claim, claim.tasks[:1])
    worker.reopen(run, claim.tasks[:1])
    again = worker.take()
    worker.done(again)
    assert house.join(run, join).arrived == 1
    assert house.offered() == []
    worker.done(claim, claim.tasks[1:])
    assert house.offered() == [join]


@case("joins")
def a_join_that_fires_late_does_not_grow_a_sealed_round(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    member = house.tasks(join=waiting.first)
    run = house.run(house.tasks(kind="copy"), waiting, joins=[NewJoins.one(waiting.first, 1)])
    house.add(run, member)
    worker = house.worker()
    worker.done(worker.take())
    assert house.settle(run).round == 1
    worker.done(worker.take(kinds=["walk"]))
    assert house.row_of(waiting.first).round >= 1
    assert house.finish(run).state is RunState.DONE


@case("joins")
def the_end_of_a_task_that_is_waited_for_is_an_arrival(house: House) -> None:
    awaited = house.tasks(2)
    run = house.any_run(awaited)
    waiting = house.tasks(kind="sum", waits=True)
    house.add(
        run,
        waiting,
        joins=[NewJoins.one(waiting.first, 2)],
        waiters=[NewWaiters.one(task, waiting.first, slot) for slot, task in enumerate(awaited.ids)],
    )
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    assert house.offered() == []
    worker.done(claim, claim.tasks[1:])
    more = worker.take().details[waiting.first]
    assert members_and_broken(more) == (2, 1)


@case("joins")
def a_join_fires_for_the_latest_round_of_those_that_arrive_together(house: House) -> None:
    _arrive_in_two_rounds(house, of=1)


@case("joins")
def a_join_fires_for_the_latest_round_of_parts_of_rows_that_arrive_together(house: House) -> None:
    _arrive_in_two_rounds(house, of=2)


def _arrive_in_two_rounds(house: House, of: int) -> None:
    """Two tasks of different rounds end in one commit, each the first in a row of so many."""
    early, late = house.tasks(of), house.tasks(of, kind="copy")
    waiting, second = house.tasks(kind="sum", waits=True), house.tasks(kind="sum", waits=True)
    run = house.any_run(house.tasks(kind="copy"))
    worker = house.worker()
    worker.done(worker.take(), children=[late])
    house.add(
        run,
        early,
        waiting,
        second,
        joins=[NewJoins((waiting.first, second.first), (2, 1))],
        waiters=[
            NewWaiters((early.first, late.first), (waiting.first, waiting.first), (0, 1)),
            NewWaiters((early.first, late.first), (second.first, second.first), (0, 0)),
        ],
    )
    below = house.row_of(late.first).round + 1
    assert below > house.row_of(early.first).round + 1
    parts = [Part(claim.token, claim.tasks[:1], Status.DONE) for claim in worker.claim(kinds=["walk", "copy"])]
    worker.commit(*parts)
    assert house.row_of(waiting.first).round == house.row_of(second.first).round == below


@case("joins")
def who_begins_to_wait_for_a_task_in_the_commit_that_ends_it_fires_for_its_own_round(house: House) -> None:
    early, late = house.tasks(), house.tasks(kind="copy")
    run = house.any_run(house.tasks(kind="copy"))
    worker = house.worker()
    worker.done(worker.take(), children=[late])
    house.add(run, early)
    above = house.row_of(early.first).round + 1
    waiting = house.tasks(kind="sum", waits=True)
    one, two = sorted(worker.claim(kinds=["walk", "copy"]), key=lambda claim: claim.kind)
    worker.commit(
        Part(one.token, one.tasks, Status.DONE),
        Part(
            two.token,
            two.tasks,
            Status.DONE,
            children=[waiting],
            joins=[NewJoins.one(waiting.first, 1)],
            waiters=[NewWaiters.one(late.first, waiting.first, 0)],
        ),
    )
    assert (one.kind, house.row_of(waiting.first).round) == ("copy", above)


@case("joins")
def a_task_that_has_already_ended_arrives_at_once(house: House) -> None:
    run = house.queue(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.commit(Part(claim.token, claim.tasks, [Status.DONE, Status.FAILED]))
    waiting = house.tasks(kind="sum", waits=True)
    waiters = [NewWaiters.one(task, waiting.first, slot) for slot, task in enumerate(claim.tasks)]
    house.add(run, waiting, joins=[NewJoins.one(waiting.first, 2)], waiters=waiters)
    more = worker.take().details[waiting.first]
    assert members_and_broken(more) == (2, 1)


@case("joins")
def a_part_may_wait_for_the_tasks_of_another_run(house: House) -> None:
    other = house.any_run(awaited := house.tasks(kind="copy"))
    house.any_run(house.tasks())
    worker = house.worker()
    waiting = house.tasks(kind="sum", waits=True)
    worker.done(
        worker.take(1, ["walk"]),
        children=[waiting],
        joins=[NewJoins.one(waiting.first, 1)],
        waiters=[NewWaiters.one(awaited.first, waiting.first, 0)],
    )
    assert house.offered(want(kinds=["sum"])) == []
    house.finish(other)
    assert house.offered() == [waiting.first]


@case("joins")
def a_part_may_wait_for_its_own_tasks(house: House) -> None:
    """They have ended by the time the waiter is written."""
    house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    waiting = house.tasks(kind="sum", waits=True)
    worker.done(
        claim,
        claim.tasks[:1],
        children=[waiting],
        joins=[NewJoins.one(waiting.first, 2)],
        waiters=[NewWaiters.one(task, waiting.first, slot) for slot, task in enumerate(claim.tasks)],
    )
    assert house.offered() == []
    worker.done(claim, claim.tasks[1:])
    assert house.offered() == [waiting.first]


@case("joins")
def tasks_that_wait_side_by_side_are_offered_one_by_one(house: House) -> None:
    waiting = house.tasks(6, kind="sum", waits=True)
    members = [house.tasks(join=task) for task in waiting.ids]
    run = house.any_run(waiting, *members, joins=[NewJoins.one(task, 1) for task in waiting.ids])
    worker = house.worker()
    claims = {claim.tasks[0]: claim for claim in worker.claim(kinds=["walk"])}
    offered = []
    for i in (3, 0, 5, 2, 4, 1):
        worker.done(claims[members[i].first])
        offered.append(waiting.first + i)
        assert house.offered() == sorted(offered)
    assert house.finish(run).state is RunState.DONE


@case("joins")
def one_task_may_be_waited_for_by_many(house: House) -> None:
    run = house.any_run(awaited := house.tasks())
    joins = []
    for _ in range(3):
        waiting = house.tasks(kind="sum", waits=True)
        join = NewJoins.one(waiting.first, 1)
        house.add(run, waiting, joins=[join], waiters=[NewWaiters.one(awaited.first, waiting.first, 0)])
        joins.append(waiting.first)
    worker = house.worker()
    worker.done(worker.take())
    assert house.offered() == joins


@case("joins")
def what_a_failure_kept_from_running_arrives_as_cancelled(house: House) -> None:
    """Down a chain; what had nothing to do, or was skipped by itself or by somebody, arrives as skipped."""
    first, second, last = house.tasks(4), house.tasks(4, kind="sum", waits=True), house.tasks(4, kind="end", waits=True)
    edges = [(of.first + i, to.first + i) for of, to in ((first, second), (second, last)) for i in range(4)]
    run = house.start_graph([first, second, last], edges)
    house.store.settle(run, second.first + 3, Status.SKIPPED, None)
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    worker.commit(Part(claim.token, claim.tasks, [Status.FAILED, Status.SKIPPED, Status.DONE, Status.FAILED]))
    worker.end(worker.take(kinds=["sum"]), status=Status.SKIPPED)
    claims = worker.claim(kinds=["end"])
    members = {task: more.members for claim in claims for task, more in claim.details.items()}
    assert members == dict(zip(last.ids, (Ends(cancelled=1), *[Ends(skipped=1)] * 3), strict=True))


def fan(house: House, count: int) -> tuple[int, Worker, int]:
    """A run without a barrier, of `count` members and the task that waits for all of them; and a worker."""
    waiting = house.tasks(kind="sum", waits=True)
    members = house.tasks(count, join=waiting.first)
    run = house.any_run(members, waiting, joins=[NewJoins.one(waiting.first, count)])
    return run, house.worker(), waiting.first


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
