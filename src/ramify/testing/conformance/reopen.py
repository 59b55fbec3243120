"""`reopen`: begin a new life for ended tasks, in a later round, under the run's lock; an ended run opens again.

A run that had been cancelled or halted is that again when it ends with cancelled tasks in it.
Keys are taken again; one taken by another task since keeps its task closed (superseded). A join that has not fired
forgets a reopened member; a fired one becomes a new instance when its task is reopened with it, and is otherwise left
alone. A reopened join task that somebody holds loses its row. With `settle`, each is marked to end as that says. Two
callers cannot reopen the same life twice.
"""

from __future__ import annotations

from ramify.errors import BadPayload, Reaped, StaleStamp, UnknownRun
from ramify.model.commit import Part
from ramify.model.decision import Said
from ramify.model.event import History, Status, Tally
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.mark import Mark, Scope
from ramify.model.process import Stamp
from ramify.model.reopening import REOPEN_LIMIT
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.testing.conformance.house import House, Worker, members_and_broken, refused
from ramify.testing.conformance.registry import case


@case("reopen")
def an_ended_run_opens_again_and_ends_again(house: House) -> None:
    run, worker, (one, two) = _ended(house, Status.FAILED, Status.DONE)
    assert house.settle(run).state is RunState.FAILED
    answer = worker.reopen(run, [one])
    assert answer.tasks == (one,)
    assert answer.superseded == ()
    seen = house.store.reads.run(run)
    assert (seen.state, seen.ended) == (RunState.OPEN, None)
    house.settle(run)
    claim = worker.take()
    assert list(claim.tasks) == [one]
    worker.done(claim)
    assert house.settle(run).state is RunState.DONE
    assert house.events(one) == [Status.FAILED, Status.REOPENED, Status.DONE]
    assert house.events(two) == [Status.DONE]


@case("reopen")
def a_new_life_has_a_fresh_budget_and_remembers_the_old_ones(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING)
    worker.commit(Part(claim.token, claim.tasks, [Status.FAILED, Status.DONE]))
    worker.reopen(run, claim.tasks)
    house.settle(run)
    again = worker.take()
    assert again.history[claim.tasks[0]] == History(events=3, attempts=0, life=2, revivals=0)
    assert again.history[claim.tasks[1]] == History(events=3, attempts=0, life=2, revivals=1)
    assert list(again.bodies) == list(claim.bodies)


@case("reopen")
def reopened_tasks_go_to_a_later_round(house: House) -> None:
    """A sealed round never grows, and the round of a run never decreases."""
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    answer = worker.reopen(run, claim.tasks[:1])
    assert answer.round == house.row_of(claim.tasks[0]).round == 1
    assert house.offered() == []
    worker.done(claim, claim.tasks[1:])
    assert house.settle(run).round == 1
    assert list(worker.take().tasks) == [claim.tasks[0]]


@case("reopen")
def counters_move_with_a_life(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED, Status.FAILED, Status.DONE)
    worker.reopen(run, tasks[:1])
    assert house.count(run, Status.FAILED) == 1
    assert house.count(run, Status.DONE) == 1
    assert house.count(run, Tally.ADDED) == 3
    house.finish(run)
    assert (house.count(run, Status.FAILED), house.count(run, Status.DONE)) == (1, 2)


@case("reopen")
def the_same_life_is_not_reopened_twice(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED, Status.FAILED)
    worker.reopen(run, tasks[:1])
    other = house.worker()
    assert other.reopen(run, tasks).tasks == (tasks[1],)
    with house.nothing_changes():
        assert worker.reopen(run, tasks).tasks == ()
    assert house.events(tasks[0]) == [Status.FAILED, Status.REOPENED]


@case("reopen")
def what_has_not_ended_is_left_alone(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(1)
    with house.nothing_changes():
        assert worker.reopen(run, [claim.tasks[0], claim.tasks[0] + 1]).tasks == ()
    worker.done(claim)


@case("reopen")
def what_is_no_task_of_the_run_is_refused(house: House) -> None:
    _, worker, tasks = _ended(house, Status.FAILED)
    other = house.run(house.tasks())
    for stranger in (tasks[0], house.store.reserve(1)):
        with house.nothing_changes(), refused(BadPayload):
            worker.reopen(other, [stranger])


@case("reopen")
def one_call_takes_so_many_tasks_and_no_more(house: House) -> None:
    run = house.run(tasks := house.tasks(REOPEN_LIMIT + 1))
    house.finish(run)
    worker = house.worker()
    with house.nothing_changes(), refused(BadPayload):
        worker.reopen(run, tasks.ids)
    assert len(worker.reopen(run, tasks.ids[:REOPEN_LIMIT]).tasks) == REOPEN_LIMIT


@case("reopen")
def sent_again_with_the_same_stamp_it_answers_the_same(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED, Status.DONE)
    first = worker.reopen(run, tasks)
    with house.nothing_changes():
        again = house.client().reopen(worker.last, run, tasks)
    assert again == first
    assert again.tasks == tuple(tasks)


@case("reopen")
def an_older_stamp_reopens_nothing(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED)
    with house.nothing_changes(), refused(StaleStamp):
        worker.store.reopen(Stamp(worker.process, 1), run, tasks)


@case("reopen")
def a_reaped_process_reopens_nothing(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED)
    house.write_off(worker)
    with house.nothing_changes(), refused(Reaped):
        worker.reopen(run, tasks)


@case("reopen")
def a_run_that_does_not_exist_has_nothing_to_reopen(house: House) -> None:
    worker = house.worker()
    with refused(UnknownRun):
        worker.reopen(house.store.reserve(1), [1])


@case("reopen")
def a_swept_task_lives_again(house: House) -> None:
    tasks = house.tasks(3)
    run = house.run(tasks)
    house.store.cancel(run)
    assert house.settle(run).state is RunState.CANCELLED
    worker = house.worker()
    assert worker.reopen(run, [tasks.first + 1]).tasks == (tasks.first + 1,)
    house.settle(run)
    claim = worker.take()
    assert (list(claim.tasks), dict(claim.marks)) == ([tasks.first + 1], {})
    assert claim.history[tasks.first + 1].life == 2
    worker.done(claim)
    house.settle(run)
    assert (house.count(run, Status.CANCELLED), house.count(run, Status.DONE)) == (2, 1)


@case("reopen")
def a_cancelled_run_stays_so_until_nothing_of_it_is_cancelled(house: House) -> None:
    for into in (RunState.CANCELLED, RunState.HALTED):
        tasks = house.tasks(3)
        run = house.run(tasks)
        house.store.cancel(run, said=Said("enough"), into=into)
        worker = house.worker()
        for reopened, end in (([tasks.first], into), ([tasks.first + 1, tasks.last], RunState.DONE)):
            house.settle(run)
            worker.reopen(run, reopened)
            assert house.store.reads.run(run).state is RunState.OPEN
            seen = house.finish(run)
            assert (seen.state, seen.reason) == (end, "enough" if end is into else None)


@case("reopen")
def a_task_cancelled_by_itself_does_not_make_its_run_a_cancelled_one(house: House) -> None:
    tasks = house.tasks(2)
    run = house.run(tasks)
    house.store.cancel(run, tasks.first)
    assert house.finish(run).state is RunState.DONE
    house.worker().reopen(run, [tasks.last])
    assert house.finish(run).state is RunState.DONE


@case("reopen")
def a_mark_of_the_old_life_does_not_end_the_new_one(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    house.store.cancel(run, claim.tasks[0])
    worker.end(claim, status=Status.CANCELLED)
    worker.reopen(run, claim.tasks)
    house.settle(run)
    assert house.offered() == list(claim.tasks)


@case("reopen")
def a_settled_task_is_marked_to_end_as_told(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED)
    mark = Mark(run, Scope.TASK, None, Status.DONE, "by hand", b"42")
    worker.reopen(run, tasks, settle=mark, said=Said("by hand"))
    house.settle(run)
    assert house.offered() == []
    claim = worker.take()
    told = claim.marks[tasks[0]]
    assert (told.status, told.reason, told.value) == (Status.DONE, "by hand", b"42")


@case("reopen")
def keys_are_taken_again(house: House) -> None:
    run = house.any_run(tasks := house.tasks(keys=[b"k"], hold=Hold.UNIQUE))
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    assert worker.reopen(run, [tasks.first]).tasks == (tasks.first,)
    assert house.add(run, house.tasks(keys=[b"k"], hold=Hold.UNIQUE)).ids == ((tasks.first,),)


@case("reopen")
def a_task_whose_key_was_taken_since_stays_closed(house: House) -> None:
    run = house.any_run(tasks := house.tasks(2, keys=[b"k", b"free"], hold=Hold.UNIQUE), endless=True)
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    heir = house.tasks(keys=[b"k"], hold=Hold.UNIQUE)
    house.add(run, heir)
    answer = worker.reopen(run, tasks.ids)
    assert answer.superseded == ((tasks.first, heir.first),)
    assert answer.tasks == (tasks.last,)
    assert house.events(tasks.first) == [Status.FAILED]


@case("reopen")
def a_key_held_once_for_ever_is_still_its_own(house: House) -> None:
    run = house.any_run(tasks := house.tasks(keys=[b"k"], hold=Hold.ONCE))
    worker = house.worker()
    worker.done(worker.take())
    assert worker.reopen(run, [tasks.first]).tasks == (tasks.first,)


@case("reopen")
def a_join_that_has_not_fired_forgets_a_reopened_member(house: House) -> None:
    run, worker, members, join = _fan(house)
    claim = worker.take(kinds=["walk"])
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    assert (house.join(run, join).arrived, house.join(run, join).broken) == (1, 1)
    worker.reopen(run, [members[0]])
    assert (house.join(run, join).arrived, house.join(run, join).broken) == (0, 0)
    worker.done(claim, claim.tasks[1:])
    assert not house.join(run, join).fired
    house.settle(run)
    again = worker.take(kinds=["walk"])
    worker.done(again)
    assert house.join(run, join).fired
    house.settle(run)
    more = worker.take(kinds=["sum"]).details[join]
    assert members_and_broken(more) == (2, 0)


@case("reopen")
def a_fired_join_whose_task_is_reopened_with_a_member_waits_for_it_again(house: House) -> None:
    run, worker, members, join = _fan(house)
    house.finish(run)
    before = house.join(run, join)
    answer = worker.reopen(run, [members[0], join])
    assert set(answer.tasks) == {members[0], join}
    after = house.join(run, join)
    assert after.instance > before.instance
    assert not after.fired
    assert after.needs - after.arrived == 1
    assert house.row_of(join).state is SegmentState.WAITING
    house.settle(run)
    claim = worker.take()
    assert list(claim.tasks) == [members[0]]
    worker.done(claim)
    house.settle(run)
    assert list(worker.take().tasks) == [join]
    assert house.join(run, join).fired


@case("reopen")
def a_join_task_reopened_alone_runs_again_at_once(house: House) -> None:
    run, worker, _, join = _fan(house)
    house.finish(run)
    worker.reopen(run, [join])
    house.settle(run)
    claim = worker.take()
    assert list(claim.tasks) == [join]
    worker.done(claim)
    assert house.settle(run).state is RunState.DONE


@case("reopen")
def a_join_task_that_somebody_holds_loses_its_row(house: House) -> None:
    run, worker, members, join = _fan(house)
    worker.done(worker.take())
    house.settle(run)
    held = worker.take(kinds=["sum"])
    other = house.worker()
    other.reopen(run, [members[0], join])
    with house.nothing_changes():
        assert worker.commit(Part(held.token, held.tasks)).refused == (held.token,)
    house.settle(run)
    claim = other.take()
    assert list(claim.tasks) == [members[0]]
    other.done(claim)
    assert house.finish(run).state is RunState.DONE
    assert house.ended(join) is Status.DONE


@case("reopen")
def a_join_task_that_nobody_holds_waits_again(house: House) -> None:
    run, worker, members, join = _fan(house)
    worker.done(worker.take())
    worker.reopen(run, [members[1], join])
    house.settle(run)
    assert house.offered() == [members[1]]
    assert house.finish(run).state is RunState.DONE
    assert house.ended(join) is Status.DONE


@case("reopen")
def reopened_under_a_pause_tasks_wait_for_resume(house: House) -> None:
    run, worker, tasks = _ended(house, Status.FAILED)
    house.store.pause(run)
    worker.reopen(run, tasks)
    house.settle(run)
    assert house.offered() == []
    house.store.resume(run)
    house.settle(run)
    assert house.offered() == tasks


@case("reopen")
def many_reopened_tasks_share_few_rows(house: House) -> None:
    run = house.run(house.tasks(4_000))
    worker = house.worker()
    claim = worker.take(4_000)
    worker.end(claim, claim.tasks[::2], Status.FAILED)
    worker.done(claim, claim.tasks[1::2])
    failed = list(claim.tasks[::2])
    assert worker.reopen(run, failed).tasks == tuple(failed)
    assert len(house.live(run)) == 1
    house.settle(run)
    assert list(worker.take(4_000).tasks) == failed


def _ended(house: House, *ends: Status) -> tuple[int, Worker, list[int]]:
    """An open run whose tasks ended in these ways, and the worker that did it."""
    run = house.run(house.tasks(len(ends)))
    worker = house.worker()
    claim = worker.take()
    worker.commit(Part(claim.token, claim.tasks, ends))
    return run, worker, list(claim.tasks)


def _fan(house: House) -> tuple[int, Worker, list[int], int]:
    """A run of two members and the task that waits for both."""
    waiting = house.tasks(kind="sum", waits=True)
    members = house.tasks(2, join=waiting.first)
    run = house.run(members, waiting, joins=[NewJoins.one(waiting.first, 2)])
    return run, house.worker(), list(members.ids), waiting.first
