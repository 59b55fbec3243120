"""Behind a task: in the order of commits, each waits for that task, and for the end of the one before, however that
ended.

The join of each has three slots, two of them that task's, so that its rule tells how that task alone ended. Who ended
stays the last one. A task that is reopened takes along those that it held up, and none that ran.
"""

from __future__ import annotations

from typing import Any

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import AHEAD, BEFORE, NewJoins, NewWaiters, Rule
from ramify.model.key import Hold
from ramify.model.run import RunState
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, Worker
from ramify.testing.conformance.registry import case

DAY = 86_400
EVERYTHING = range(2**62)


def _operation(house: House, **columns: Any) -> NewTasks:
    return house.tasks(kind="copy", waits=True, **columns)


def _links(ahead: int, tasks: NewTasks) -> tuple[list[NewJoins], list[NewWaiters]]:
    joins = [NewJoins(tasks.ids, [3] * len(tasks.ids), Rule.BEHIND)]
    two = [NewWaiters([ahead] * len(tasks.ids), tasks.ids, [slot] * len(tasks.ids)) for slot in AHEAD]
    return joins, [*two, NewWaiters([ahead] * len(tasks.ids), tasks.ids, [BEFORE] * len(tasks.ids), behind=True)]


def _behind(house: House, run: int, ahead: int, tasks: NewTasks | None = None) -> int:
    """Add an operation behind a task; its id."""
    tasks = tasks or _operation(house)
    joins, waiters = _links(ahead, tasks)
    house.add(run, tasks, joins=joins, waiters=waiters)
    return tasks.first


def _runs(worker: Worker, task: int, status: Status = Status.DONE) -> bool:
    """Take the one task that is offered, and end it like this if its rule lets it run; whether it does."""
    claim = worker.take()
    assert list(claim.tasks) == [task]
    more = claim.details[task]
    assert more.members is not None
    assert more.rule is Rule.BEHIND
    runs = more.rule.allows(more.members)
    worker.end(claim, status=status if runs else Status.SKIPPED)
    return runs


@case("behind")
def each_waits_for_the_task_and_then_for_the_one_before(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    operations = [_behind(house, run, ahead.first) for _ in range(4)]
    claim = worker.take()
    assert list(claim.tasks) == [ahead.first]
    worker.done(claim)
    for task, status in zip(operations, (Status.FAILED, Status.DONE, Status.CANCELLED, Status.DONE), strict=True):
        assert _runs(worker, task, status), "one at a time, in order"


@case("behind")
def none_runs_if_the_task_did_not_end_well(house: House) -> None:
    run = house.queue(*(aheads := [house.tasks() for _ in range(4)]))
    worker = house.worker()
    operations = [[_behind(house, run, ahead.first) for _ in range(2)] for ahead in aheads]
    ends = (Status.FAILED, Status.CANCELLED, Status.SKIPPED, Status.QUARANTINED)
    by_task = {claim.tasks[0]: claim for claim in worker.claim()}
    for ahead, (one, two), status in zip(aheads, operations, ends, strict=True):
        worker.end(by_task[ahead.first], status=status)
        assert [_runs(worker, one), _runs(worker, two)] == [False, False]


@case("behind")
def one_that_ended_before_the_task_did_decides_nothing(house: House) -> None:
    """Ended by hand as done, or as cancelled."""
    run = house.queue(good := house.tasks(), bad := house.tasks())
    worker = house.worker()
    goods, bads = ([_behind(house, run, ahead.first) for _ in range(2)] for ahead in (good, bad))
    for (first, _), status in ((goods, Status.CANCELLED), (bads, Status.DONE)):
        house.store.settle(run, first, status, None)
    by_task = {claim.tasks[0]: claim for claim in worker.claim()}
    worker.done(by_task[good.first])
    assert _runs(worker, goods[1])
    worker.end(by_task[bad.first], status=Status.FAILED)
    assert not _runs(worker, bads[1])


@case("behind")
def one_that_is_ended_while_it_waits_leaves_the_line(house: House) -> None:
    """The next one, and one that is added later, wait for the one before it."""
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    first, second, third, fourth, last = (_behind(house, run, ahead.first) for _ in range(5))
    for task in (third, second, last):
        house.store.settle(run, task, Status.CANCELLED, None)
    late = _behind(house, run, ahead.first)
    worker.done(worker.take())
    for task in (first, fourth, late):
        assert _runs(worker, task)
    assert house.offered() == []


@case("behind")
def the_first_that_is_ended_while_it_waits_lets_nobody_run_before_the_task(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    first, second = _behind(house, run, ahead.first), _behind(house, run, ahead.first)
    house.store.settle(run, first, Status.DONE, None)
    third = _behind(house, run, ahead.first)
    worker = house.worker()
    claim = worker.take()
    assert list(claim.tasks) == [ahead.first]
    worker.done(claim)
    assert _runs(worker, second)
    assert _runs(worker, third)


@case("behind")
def those_of_a_run_that_is_cancelled_leave_the_line_too(house: House) -> None:
    run, other = house.queue(ahead := house.tasks()), house.queue(house.tasks(kind="sum"))
    worker = house.worker()
    first = _behind(house, run, ahead.first)
    for _ in range(2):
        _behind(house, other, ahead.first)
    after = _behind(house, run, ahead.first)
    _behind(house, other, ahead.first)
    house.store.cancel(other)
    assert house.settle(other).state is RunState.CANCELLED
    late = _behind(house, run, ahead.first)
    worker.done(worker.take())
    for task in (first, after, late):
        assert _runs(worker, task)


@case("behind")
def a_cancel_of_the_run_of_the_task_holds_up_those_of_other_runs(house: House) -> None:
    run, other = house.queue(ahead := house.tasks()), house.queue()
    _behind(house, run, ahead.first)
    first = _behind(house, other, ahead.first)
    _behind(house, run, ahead.first)
    last = _behind(house, other, ahead.first)
    house.store.cancel(run)
    assert house.settle(run).state is RunState.CANCELLED
    worker = house.worker()
    assert [_runs(worker, first), _runs(worker, last)] == [False, False]


@case("behind")
def one_that_left_the_line_lives_again_out_of_it(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    first, second, third = (_behind(house, run, ahead.first) for _ in range(3))
    house.store.settle(run, second, Status.CANCELLED, None)
    assert worker.reopen(run, [second]).tasks == (second,)
    worker.done(worker.take())
    assert _runs(worker, first)
    assert house.offered() == [second, third]


@case("behind")
def who_comes_when_the_task_has_ended_comes_after_all_who_came_before(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    first, second = _behind(house, run, ahead.first), _behind(house, run, ahead.first)
    assert _runs(worker, first)
    third = _behind(house, run, ahead.first)
    assert _runs(worker, second)
    assert _runs(worker, third)
    assert _runs(worker, _behind(house, run, ahead.first))


@case("behind")
def the_order_is_that_of_commits_and_not_of_ids(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    younger, older = _operation(house), _operation(house)
    other = house.client()
    joins, waiters = _links(ahead.first, older)
    house.add(run, older, joins=joins, waiters=waiters)
    assert older.first > younger.first
    house.store, here = other, house.store
    _behind(house, run, ahead.first, younger)
    house.store = here
    worker = house.worker()
    worker.done(worker.take())
    assert _runs(worker, older.first)
    assert _runs(worker, younger.first)


@case("behind")
def those_of_one_addition_come_in_its_order(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    before = _behind(house, run, ahead.first)
    tasks = _operation(house, bodies=3)
    joins, waiters = _links(ahead.first, tasks)
    house.add(run, tasks, joins=joins, waiters=waiters)
    worker = house.worker()
    worker.done(worker.take())
    assert [_runs(worker, task) for task in (before, *tasks.ids)] == [True] * 4


@case("behind")
def an_addition_that_is_sent_again_is_there_once(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    tasks = _operation(house)
    joins, waiters = _links(ahead.first, tasks)
    house.add(run, tasks, joins=joins, waiters=waiters)
    after = _behind(house, run, ahead.first)
    with house.nothing_changes():
        assert house.add(run, tasks, joins=joins, waiters=waiters).already
    last = _behind(house, run, ahead.first)
    worker = house.worker()
    worker.done(worker.take())
    assert [_runs(worker, task) for task in (tasks.first, after, last)] == [True] * 3


@case("behind")
def one_that_lost_its_key_is_nobody_to_wait_for(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    first = _behind(house, run, ahead.first, _operation(house, keys=[b"k"], hold=Hold.UNIQUE))
    lost = _operation(house, keys=[b"k"], hold=Hold.UNIQUE)
    joins, waiters = _links(ahead.first, lost)
    assert house.add(run, lost, joins=joins, waiters=waiters).ids == ((first,),)
    last = _behind(house, run, ahead.first)
    worker = house.worker()
    worker.done(worker.take())
    assert _runs(worker, first)
    assert _runs(worker, last)


@case("behind")
def children_of_a_commit_may_come_behind_a_task_too(house: House) -> None:
    run = house.queue(ahead := house.tasks(), house.tasks(kind="sum"))
    first = _behind(house, run, ahead.first)
    worker = house.worker()
    children = _operation(house, bodies=2)
    joins, waiters = _links(ahead.first, children)
    worker.done(worker.take(kinds=["sum"]), children=[children], joins=joins, waiters=waiters)
    last = _behind(house, run, ahead.first)
    worker.done(worker.take())
    assert [_runs(worker, task) for task in (first, *children.ids, last)] == [True] * 4


@case("behind")
def a_task_that_is_reopened_takes_along_those_that_it_held_up(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    skipped, waiting, settled = (_behind(house, run, ahead.first) for _ in range(3))
    house.store.settle(run, settled, Status.DONE, None)
    worker.end(worker.take(), status=Status.FAILED)
    assert not _runs(worker, skipped)
    # This one is offered, and would be skipped by whoever claims it.
    assert house.offered() == [waiting]
    assert worker.reopen(run, [ahead.first]).tasks == (ahead.first, skipped)
    assert house.offered() == [ahead.first]
    worker.done(worker.take())
    assert _runs(worker, skipped)
    assert _runs(worker, waiting)
    assert house.ended(settled) is Status.DONE


@case("behind")
def one_that_ran_keeps_its_outcome_when_the_task_is_reopened(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    operations = [_behind(house, run, ahead.first) for _ in range(4)]
    worker.done(worker.take())
    ends = (Status.DONE, Status.FAILED, Status.SKIPPED)
    for task, status in zip(operations, ends, strict=False):
        assert _runs(worker, task, status)
    assert house.offered() == [operations[-1]]
    assert worker.reopen(run, [ahead.first]).tasks == (ahead.first,)
    assert house.offered() == sorted([ahead.first, operations[-1]]), "it was let go before, and stays so"
    assert [house.ended(task) for task in operations[:-1]] == list(ends)


@case("behind")
def the_one_before_is_reopened_by_itself(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    first, second, third = (_behind(house, run, ahead.first) for _ in range(3))
    worker.done(worker.take())
    assert _runs(worker, first)
    assert _runs(worker, second)
    claim = worker.take()
    assert worker.reopen(run, [first]).tasks == (first,)
    assert house.offered() == [first]
    assert house.ended(second) is Status.DONE
    worker.done(claim)
    assert house.ended(third) is Status.DONE
    assert worker.reopen(run, [second, third]).tasks == (second, third)
    assert house.offered() == [first, second], "those that are reopened together keep their order"


@case("behind")
def one_that_was_held_up_is_reopened_by_itself_too(house: House) -> None:
    run = house.queue(ahead := house.tasks())
    worker = house.worker()
    first, second = _behind(house, run, ahead.first), _behind(house, run, ahead.first)
    worker.end(worker.take(), status=Status.FAILED)
    assert [_runs(worker, first), _runs(worker, second)] == [False, False]
    assert worker.reopen(run, [first]).tasks == (first,)
    assert not _runs(worker, first), "the task did not end well since"
    assert house.events(second) == [Status.SKIPPED]


@case("behind")
def the_task_and_those_behind_it_are_forgotten_each_by_itself(house: House) -> None:
    run, other = house.queue(ahead := house.tasks()), house.queue()
    worker = house.worker()
    first, elsewhere = _behind(house, run, ahead.first), _behind(house, other, ahead.first)
    worker.done(worker.take(kinds=["walk"]))
    assert _runs(worker, first)
    claims = worker.claim(kinds=["copy"])
    assert [list(claim.tasks) for claim in claims] == [[elsewhere]]
    house.clock.advance(2 * DAY)
    # The one that works is the last, and nobody waits for the others any more.
    assert house.store.forget(run, range(first, first + 1)).tasks == 1
    assert house.store.forget(run, EVERYTHING).tasks == 1
    assert house.store.reads.task(ahead.first) is None
    worker.done(claims[0])
    assert house.ended(elsewhere) is Status.DONE


@case("behind")
def where_the_last_one_was_forgotten_only_the_task_is_waited_for(house: House) -> None:
    run, others = house.queue(ahead := house.tasks()), house.queue()
    gone = _behind(house, others, ahead.first)
    house.store.cancel(others)
    assert house.settle(others).state is RunState.CANCELLED
    assert house.ended(gone) is Status.CANCELLED
    while house.store.forget(others).more:
        pass
    last = _behind(house, run, ahead.first)
    worker = house.worker()
    worker.done(worker.take())
    assert _runs(worker, last)


@case("behind")
def a_run_with_a_task_ahead_of_another_run_can_be_forgotten(house: House) -> None:
    """A task takes no result of the one that it is behind."""
    run, other = house.run(ahead := house.tasks()), house.queue()
    waiting = _behind(house, other, ahead.first)
    worker = house.worker()
    worker.done(worker.take())
    house.settle(run)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run).tasks == 1
    assert _runs(worker, waiting)


@case("behind")
def a_unique_key_tells_its_unfinished_task(house: House) -> None:
    first = house.tasks(keys=[b"k"], hold=Hold.UNIQUE, keep=1_000_000)
    run, reads = house.queue(first, house.tasks(keys=[b"label"])), house.store.reads
    assert reads.holder("walk", b"k") == first.first
    assert [reads.holder("copy", b"k"), reads.holder("walk", b"label"), reads.holder("walk", b"other")] == [None] * 3
    worker = house.worker()
    claim = next(claim for claim in worker.claim() if first.first in claim.tasks)
    worker.commit(Part(claim.token, [first.first], Status.DONE))
    assert reads.holder("walk", b"k") is None, "its key is kept, and it has ended"
    again = house.tasks(keys=[b"k"], hold=Hold.UNIQUE, again=True)
    house.add(run, again)
    assert reads.holder("walk", b"k") == again.first
