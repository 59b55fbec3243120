"""`append`: publish tasks from outside. Idempotent by the first id: appended again, it answers `already`.

In an open run with rounds they go to the round after the present one; an ended run refuses them. A key that is taken
drops its task and answers with the one that holds it. (`singles.py` holds what is promised of single tasks.)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ramify.errors import BadPayload, RunEnded, UnknownRun
from ramify.model.addition import Addition
from ramify.model.event import Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.run import Order, RunState
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, refused, tasks_of
from ramify.testing.conformance.registry import case


@case("append")
def appended_tasks_are_in_the_log_and_under_one_row_each_group(house: House) -> None:
    run = house.queue()
    walks, copies = house.tasks(3), house.tasks(2, kind="copy")
    answer = house.add(run, walks, copies)
    assert answer.ids == (tuple(walks.ids), tuple(copies.ids))
    assert not answer.taken
    assert not answer.already
    assert [(row.kind, list(row.tasks)) for row in house.live(run)] == [
        ("walk", list(walks.ids)),
        ("copy", list(copies.ids)),
    ]
    assert house.count(run, Tally.ADDED) == 3
    assert house.count(run, Tally.ADDED, "copy") == 2


@case("append")
def what_was_appended_is_claimed_as_it_was(house: House) -> None:
    run = house.queue()
    bodies = [b"", b"\0\xff", b"x" * 1_048_576]
    tasks = house.tasks(
        bodies,
        parents=[None, 5, 7],
        queue="slow",
        lane="a.org",
        keys=[None, b"k\0\xff", b""],
        details=[b"m", b"", None],
    )
    house.add(run, tasks)
    claim = house.worker().take()
    assert (claim.run, claim.kind, claim.queue, claim.lane) == (run, "walk", "slow", "a.org")
    assert list(claim.tasks) == list(tasks.ids)
    assert list(claim.bodies) == bodies
    assert list(claim.parents) == [None, 5, 7]
    assert {task: (more.key, more.extra) for task, more in claim.details.items()} == {
        tasks.first: (None, b"m"),
        tasks.first + 1: (b"k\0\xff", b""),
        tasks.first + 2: (b"", None),
    }


@case("append")
def appended_again_it_answers_already_and_nothing_changes(house: House) -> None:
    run = house.queue()
    groups = house.tasks(3), house.tasks(2, kind="copy")
    first = house.add(run, *groups)
    with house.nothing_changes():
        (again,) = house.client().append([Addition(run, groups)])
    assert again.already
    assert again.ids == first.ids


@case("append")
def appended_again_after_its_tasks_ended_it_still_answers_already(house: House) -> None:
    run = house.queue()
    tasks = house.tasks(3)
    house.add(run, tasks)
    house.finish(run)
    with house.nothing_changes():
        assert house.add(run, tasks).already


@case("append")
def appended_again_after_its_run_ended_it_still_answers_already(house: House) -> None:
    """The reply was lost, and by the time it is sent again everything is over."""
    run = house.any_run(house.tasks())
    tasks = house.tasks()
    house.add(run, tasks)
    assert house.finish(run).state is RunState.DONE
    with house.nothing_changes():
        assert house.add(run, tasks).already


@case("append")
def appended_again_when_its_first_task_was_dropped_adds_nothing(house: House) -> None:
    run = house.any_run(house.tasks(keys=[b"a"], hold=Hold.ONCE))
    groups = house.tasks(2, keys=[b"a", b"b"], hold=Hold.ONCE)
    first = house.add(run, groups)
    with house.nothing_changes():
        assert house.add(run, groups).ids == first.ids


@case("append")
def appended_again_when_its_first_group_was_dropped_adds_nothing(house: House) -> None:
    run = house.queue(house.tasks(keys=[b"a"], hold=Hold.ONCE))
    groups = house.tasks(keys=[b"a"], hold=Hold.ONCE), house.tasks(2, kind="copy")
    first = house.add(run, *groups)
    with house.nothing_changes():
        assert house.add(run, *groups).ids == first.ids


@case("append")
def appended_again_when_the_first_member_of_a_join_was_dropped_adds_nothing(house: House) -> None:
    run = house.queue(house.tasks(keys=[b"a"], hold=Hold.ONCE))
    waiting = house.tasks(kind="sum", waits=True)
    members = house.tasks(2, keys=[b"a", b"b"], hold=Hold.ONCE, join=waiting.first)
    joins = [NewJoins.one(waiting.first, 2)]
    first = house.add(run, members, waiting, joins=joins)
    with house.nothing_changes():
        assert house.add(run, members, waiting, joins=joins).ids == first.ids


@case("append")
def threads_that_share_a_client_take_turns(house: House) -> None:
    run = house.queue()
    groups = [house.tasks(3) for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda group: house.add(run, group), groups))
    assert house.offered() == [task for group in groups for task in group.ids]
    assert house.count(run, Tally.ADDED) == 120


@case("append")
def appended_again_one_by_one_adds_nothing(house: House) -> None:
    """Single tasks share a row; each is still known by its own id."""
    run = house.queue()
    first = house.store.reserve(3)
    singles = [NewTasks(id, "walk", [b"x"]) for id in range(first, first + 3)]
    for single in singles:
        assert not house.add(run, single).already
    with house.nothing_changes():
        for single in singles:
            answer = house.add(run, single)
            assert answer.already
            assert answer.ids == ((single.first,),)


@case("append")
def in_a_run_with_rounds_tasks_go_to_the_round_after_the_present_one(house: House) -> None:
    run = house.run(house.tasks())
    tasks = house.tasks(2)
    house.add(run, tasks)
    assert house.row_of(tasks.first).round == 1
    worker = house.worker()
    root = worker.take()
    assert root.round == 0
    assert worker.claim() == ()
    worker.done(root)
    house.settle(run)
    later = worker.take()
    assert (later.round, list(later.tasks)) == (1, list(tasks.ids))


@case("append")
def an_open_round_never_grows(house: House) -> None:
    run = house.run(house.tasks())
    for now in range(3):
        late = house.tasks()
        house.add(run, late)
        assert house.store.reads.run(run).round == now
        assert house.row_of(late.first).round == now + 1
        worker = house.worker()
        worker.done(worker.take())
        house.settle(run)


@case("append")
def in_a_run_without_a_barrier_tasks_are_offered_at_once(house: House) -> None:
    for order in (Order.ANY, Order.DEPTH_FIRST):
        run = house.run(house.tasks(), order=order)
        worker = house.worker()
        held = worker.take()
        late = house.tasks()
        house.add(run, late)
        assert tasks_of(worker.claim()) == [late.first]
        assert held.run == run


@case("append")
def a_paused_run_takes_tasks_and_keeps_them_until_it_is_resumed(house: House) -> None:
    run = house.queue()
    house.store.pause(run)
    tasks = house.tasks()
    house.add(run, tasks)
    assert house.offered() == []
    house.store.resume(run)
    assert house.offered() == [tasks.first]


@case("append")
def an_ended_run_refuses_tasks(house: House) -> None:
    run = house.run(house.tasks())
    assert house.finish(run).state is RunState.DONE
    with house.nothing_changes(), refused(RunEnded):
        house.add(run, house.tasks())


@case("append")
def a_run_that_is_being_cancelled_refuses_tasks(house: House) -> None:
    run = house.run(house.tasks())
    house.worker().take()
    house.store.cancel(run)
    with house.nothing_changes(), refused(RunEnded):
        house.add(run, house.tasks())


@case("append")
def a_run_that_does_not_exist_takes_nothing(house: House) -> None:
    with house.nothing_changes(), refused(UnknownRun):
        house.add(house.store.reserve(1), house.tasks())


@case("append")
def a_taken_key_drops_its_task_and_answers_with_the_holder(house: House) -> None:
    run = house.queue()
    holder = house.tasks(keys=[b"a"], hold=Hold.UNIQUE)
    house.add(run, holder)
    late = house.tasks([b"b", b"a", b"none"], keys=[b"b", b"a", None], hold=Hold.UNIQUE)
    answer = house.add(run, late)
    one, two, three = answer.ids[0]
    assert two == holder.first
    assert answer.taken == {(0, 1)}
    assert house.offered() == sorted([holder.first, one, three])
    rows = [house.store.reads.task(task) for task in (one, three)]
    assert [(row.body, row.key) for row in rows if row] == [(b"b", b"b"), (b"none", None)]
    assert {one, three} < set(late.ids)


@case("append")
def of_equal_keys_in_one_call_the_first_wins(house: House) -> None:
    run = house.queue()
    one, two = (house.tasks(2, keys=[b"a", b"a"], hold=Hold.ONCE) for _ in range(2))
    answer = house.add(run, one, two)
    assert answer.ids == ((one.first, one.first), (one.first, one.first))
    assert answer.taken == {(0, 1), (1, 0), (1, 1)}
    assert house.offered() == [one.first]


@case("append")
def a_call_in_which_every_task_is_dropped_leaves_nothing(house: House) -> None:
    run = house.any_run(house.tasks(keys=[b"a"], hold=Hold.ONCE))
    rows = house.segments()
    house.add(run, house.tasks(2, keys=[b"a", b"a"], hold=Hold.ONCE))
    assert house.segments() == rows


@case("append")
def one_bad_group_and_nothing_is_written(house: House) -> None:
    run = house.queue()
    with house.nothing_changes(), refused(BadPayload):
        house.add(run, house.tasks(keys=[b"a"], hold=Hold.UNIQUE), house.tasks(queue="\0"))
    assert not house.add(run, house.tasks(keys=[b"a"], hold=Hold.UNIQUE)).taken


@case("append")
def additions_of_several_runs_come_together(house: House) -> None:
    one, other = house.queue(), house.queue()
    mine, theirs = house.tasks(2), house.tasks(1, kind="copy")
    sent = [Addition(one, [mine]), Addition(other, [theirs])]
    assert [answer.ids for answer in house.store.append(sent)] == [(tuple(mine.ids),), (tuple(theirs.ids),)]
    assert [house.count(one, Tally.ADDED), house.count(other, Tally.ADDED, "copy")] == [2, 1]
    with house.nothing_changes():
        assert [answer.already for answer in house.client().append(sent)] == [True, True]


@case("append")
def when_one_run_takes_nothing_no_other_does(house: House) -> None:
    open_run, ended = house.queue(), house.run(house.tasks())
    house.finish(ended)
    for wrong in (Addition(ended, [house.tasks()]), Addition(open_run, [house.tasks(queue="\0")])):
        for sent in ([Addition(open_run, [house.tasks()]), wrong], [wrong, Addition(open_run, [house.tasks()])]):
            with house.nothing_changes(), refused(RunEnded, BadPayload):
                house.store.append(sent)


@case("append")
def a_join_may_wait_for_tasks_that_come_with_it_into_other_runs(house: House) -> None:
    one, other = house.queue(), house.queue()
    held = house.tasks(keys=[b"a"], hold=Hold.UNIQUE)
    house.add(other, held)
    waiting, member, lost = (
        house.tasks(waits=True),
        house.tasks(),
        house.tasks(keys=[b"a"], hold=Hold.UNIQUE, awaited=True),
    )
    first = Addition(
        one,
        [waiting],
        [NewJoins.one(waiting.first, 2)],
        [NewWaiters.one(member.first, waiting.first, 0), NewWaiters.one(lost.first, waiting.first, 1)],
    )
    _, answer = house.store.append([first, Addition(other, [member, lost])])
    assert answer.ids == ((member.first,), (held.first,))
    worker = house.worker()
    for claim in worker.claim():
        worker.done(claim)
    assert house.offered() == [waiting.first]
