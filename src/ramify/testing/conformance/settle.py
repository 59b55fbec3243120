"""`settle`: a person says how a task ends that nobody runs: as done with a result, as skipped, as cancelled.

It ends in this transaction and on the path of every end: event, counters, key, arrivals at joins. One that is held gets
a mark, which its holder hears of and the next claim carries. (That a cancel of one task is a case of it is the matter
of `cancel_tasks.py`.)
"""

from __future__ import annotations

from ramify.errors import BadPayload, UnknownRun
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.mark import Mark, Scope, Settled, reason_value
from ramify.model.policy import PARKED
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.model.task import MAX_PAYLOAD
from ramify.testing.conformance.house import House, only, refused
from ramify.testing.conformance.registry import case

ANN = Said("it is known", "ann@laptop")
WHY = reason_value("it is known", "ann@laptop")
SETTLED_AS = (Status.DONE, Status.SKIPPED, Status.CANCELLED)


@case("settle")
def a_task_that_nobody_runs_ends_as_told_and_its_neighbours_do_not(house: House) -> None:
    tasks = house.tasks(5)
    run = house.run(tasks)
    for target, status in zip(tasks.ids, SETTLED_AS, strict=False):
        assert house.store.settle(run, target, status) is Settled.CERTAIN
        assert house.ended(target) is status
        assert house.count(run, status) == 1
    assert house.offered() == list(tasks.ids)[3:]
    assert house.finish(run).state is RunState.DONE


@case("settle")
def a_result_is_the_value_of_its_end(house: House) -> None:
    tasks = house.tasks(2)
    run = house.run(tasks)
    house.store.settle(run, tasks.first, Status.DONE, b'{"size":3}', ANN)
    assert only(house.store.reads.results(run).rows).value == b'{"size":3}'
    assert house.store.settle(run, tasks.last, Status.DONE, None, ANN) is Settled.CERTAIN
    assert house.store.reads.events(tasks.last, tasks.last)[-1].value is None


@case("settle")
def who_and_why_are_told_by_the_events(house: House) -> None:
    tasks = house.tasks(3)
    run = house.run(tasks)
    for target, status in zip(tasks.ids, SETTLED_AS, strict=True):
        house.store.settle(run, target, status, said=ANN)
    done, skipped, cancelled = ([*house.store.reads.events(task, task)] for task in tasks.ids)
    assert [(e.status, e.value) for e in done] == [(Status.DECIDED, WHY), (Status.DONE, None)]
    assert done[0].seq == done[1].seq
    assert [(e.status, e.value) for e in skipped] == [(Status.SKIPPED, WHY)]
    assert [(e.status, e.value) for e in cancelled] == [(Status.CANCELLED, WHY)]
    assert house.count(run, Status.DECIDED) == 1


@case("settle")
def an_end_by_hand_arrives_at_its_join_and_frees_its_key(house: House) -> None:
    for status in SETTLED_AS:
        waiting = house.tasks(kind="sum", waits=True)
        member = house.tasks(join=waiting.first, keys=[b"k"], hold=Hold.UNIQUE)
        run = house.any_run(member, waiting, joins=[NewJoins.one(waiting.first, 1)])
        house.store.settle(run, member.first, status, b"1" if status is Status.DONE else None)
        assert house.join(run, waiting.first).fired
        assert house.join(run, waiting.first).broken == (status is not Status.DONE)
        assert not house.add(run, house.tasks(keys=[b"k"], hold=Hold.UNIQUE)).taken
        house.finish(run)


@case("settle")
def a_task_that_waits_for_a_join_leaves_it_and_is_not_raised_by_it(house: House) -> None:
    outer, inner = house.tasks(kind="sum", waits=True), house.tasks(kind="sum", waits=True)
    inner = type(inner)(inner.first, "sum", inner.bodies, waits=True, join=outer.first, slot=0)
    joins = [NewJoins.one(outer.first, 1), NewJoins.one(inner.first, 1)]
    run = house.any_run(house.tasks(join=inner.first), inner, outer, joins=joins)
    assert house.row_of(inner.first).state is SegmentState.WAITING
    assert house.store.settle(run, inner.first, Status.DONE, b"5") is Settled.CERTAIN
    assert house.row_of(outer.first).state is SegmentState.READY
    assert house.finish(run).state is RunState.DONE
    assert house.events(inner.first) == [Status.DECIDED, Status.DONE]


@case("settle")
def one_that_waits_for_a_time_or_for_a_person_ends_as_well(house: House) -> None:
    gate = house.tasks(due=PARKED)
    run = house.run(gate)
    assert house.offered() == []
    assert house.store.settle(run, gate.first, Status.DONE, b"true", ANN) is Settled.CERTAIN
    assert house.settle(run).state is RunState.DONE


@case("settle")
def paused_runs_and_rounds_to_come_are_no_hindrance(house: House) -> None:
    run = house.run(house.tasks())
    later = house.tasks(2)
    house.add(run, later)
    house.store.pause(run)
    assert house.store.settle(run, later.first, Status.SKIPPED) is Settled.CERTAIN
    house.store.resume(run)
    assert house.finish(run).state is RunState.DONE
    assert [house.ended(task) for task in later.ids] == [Status.SKIPPED, Status.DONE]


@case("settle")
def one_of_a_wide_row_ends_alone(house: House) -> None:
    tasks = house.tasks(20_000)
    run = house.run(tasks)
    target = tasks.first + 15_000
    assert house.store.settle(run, target, Status.DONE, b"1") is Settled.CERTAIN
    assert sum(len(row.tasks) for row in house.live(run)) == 19_999
    assert house.ended(target) is Status.DONE


@case("settle")
def a_held_task_gets_a_mark_with_its_result(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    target = claim.tasks[1]
    assert house.store.settle(run, target, Status.DONE, b"7", ANN) is Settled.REQUESTED
    heard = only(worker.beat().marks)
    assert (heard.scope, heard.task, heard.status) == (Scope.TASK, target, Status.DONE)
    assert (heard.value, heard.reason, heard.by) == (b"7", "it is known", "ann@laptop")
    assert house.events(target) == [Status.DECIDED]
    worker.release(claim)
    assert house.worker().take().marks[target] == heard


@case("settle")
def its_holder_may_end_it_first_and_then_that_counts(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    for task in claim.tasks[:2]:
        house.store.settle(run, task, Status.DONE, b"7", ANN)
    worker.end(claim, claim.tasks[:1], values=[b"1"])
    worker.end(claim, claim.tasks[1:2], Status.RETRYING)
    assert house.events(claim.tasks[0]) == [Status.DECIDED, Status.DONE]
    assert house.events(claim.tasks[1]) == [Status.DECIDED, Status.RETRYING]
    assert house.store.reads.events(claim.tasks[0], claim.tasks[0])[-1].value == b"1"
    assert [mark.task for mark in worker.beat().marks] == [claim.tasks[1]]


@case("settle")
def asked_for_twice_it_is_asked_for_once(house: House) -> None:
    tasks = house.tasks(2)
    run = house.run(tasks)
    house.store.settle(run, tasks.first, Status.DONE, b"7", ANN)
    house.worker().take()
    house.store.settle(run, tasks.last, Status.DONE, b"7", ANN)
    with house.nothing_changes():
        assert house.store.settle(run, tasks.first, Status.DONE, b"7", ANN) is Settled.ENDED
        assert house.store.settle(run, tasks.last, Status.DONE, b"7", ANN) is Settled.REQUESTED


@case("reopen")
def who_gives_a_result_with_a_new_life_is_told_when_it_begins(house: House) -> None:
    run, first, second = _reopened(house, Status.DONE, b"7")
    told = {task: house.store.reads.events(task, task)[1:] for task in (first, second)}
    for its in told.values():
        assert [event.status for event in its] == [Status.REOPENED, Status.DECIDED]
        assert its[-1].value == WHY
    assert len({event.seq for its in told.values() for event in its}) == 1
    assert house.count(run, Status.DECIDED) == 2
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, values=[claim.marks[task].value for task in claim.tasks])
    assert house.events(first) == [Status.FAILED, Status.REOPENED, Status.DECIDED, Status.DONE]
    assert house.store.reads.events(first, first)[-1].value == b"7"


@case("reopen")
def other_ends_that_are_given_with_a_new_life_tell_it_themselves(house: House) -> None:
    _, first, _ = _reopened(house, Status.SKIPPED)
    assert house.events(first) == [Status.FAILED, Status.REOPENED]


@case("settle")
def who_gives_a_result_is_told_once(house: House) -> None:
    """By the mark that it had, of its new life or of whoever held it, or with its end."""
    run, first, second = _reopened(house, Status.DONE, b"7")
    assert house.store.settle(run, first, Status.DONE, b"7", ANN) is Settled.CERTAIN
    worker = house.worker()
    claim = worker.take()
    assert house.store.settle(run, second, Status.DONE, b"7", ANN) is Settled.REQUESTED
    worker.release(claim)
    assert house.store.settle(run, second, Status.DONE, b"7", ANN) is Settled.CERTAIN
    for task in (first, second):
        assert house.events(task) == [Status.FAILED, Status.REOPENED, Status.DECIDED, Status.DONE]
    assert house.count(run, Status.DECIDED) == 2


def _reopened(house: House, status: Status, value: bytes | None = None) -> tuple[int, int, int]:
    """A run of two tasks that failed and live again, marked to end as Ann says."""
    run = house.run(tasks := house.tasks(2))
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    worker.reopen(run, tasks.ids, settle=Mark(run, Scope.TASK, None, status, ANN.reason, value, ANN.by), said=ANN)
    house.settle(run)
    return run, tasks.first, tasks.last


@case("settle")
def one_that_has_ended_stays_as_it_is(house: House) -> None:
    tasks = house.tasks(2)
    run = house.run(tasks)
    worker = house.worker()
    claim = worker.take(1)
    worker.end(claim, status=Status.FAILED)
    with house.nothing_changes():
        assert house.store.settle(run, tasks.first, Status.DONE, b"1") is Settled.ENDED
    house.finish(run)
    with house.nothing_changes():
        assert house.store.settle(run, tasks.last, Status.SKIPPED) is Settled.ENDED


@case("settle")
def it_is_about_the_life_that_was_meant(house: House) -> None:
    """Delivered late, after the task was tried again, it does not end the new life."""
    tasks = house.tasks(2)
    run = house.run(tasks)
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    worker.reopen(run, tasks.ids)
    with house.nothing_changes():
        assert house.store.settle(run, tasks.first, Status.SKIPPED, said=Said(life=1)) is Settled.ENDED
        assert house.store.cancel(run, tasks.first, said=Said(life=1)) is Settled.ENDED
        assert house.store.cancel(run, tasks.first, below=True, said=Said(life=1)) is Settled.ENDED
    assert house.store.settle(run, tasks.first, Status.SKIPPED, said=Said(life=2)) is Settled.CERTAIN
    assert house.store.cancel(run, tasks.last, said=Said(life=2)) is Settled.CERTAIN


@case("settle")
def what_makes_no_sense_is_refused(house: House) -> None:
    tasks = house.tasks()
    run, other = house.run(tasks), house.run(house.tasks())
    with house.nothing_changes():
        for status in (Status.FAILED, Status.QUARANTINED, Status.RETRYING, Status.REOPENED, Status.DECIDED):
            with refused(BadPayload):
                house.store.settle(run, tasks.first, status)
        with refused(BadPayload):
            house.store.settle(run, tasks.first, Status.SKIPPED, b"1")
        with refused(BadPayload):
            house.store.settle(run, tasks.first, Status.DONE, b"x" * (MAX_PAYLOAD + 1))
        with refused(UnknownRun):
            house.store.settle(house.store.reserve(1), tasks.first, Status.DONE)
        assert house.store.settle(other, tasks.first, Status.DONE) is Settled.UNKNOWN
        assert house.store.settle(run, 2**40, Status.DONE) is Settled.UNKNOWN
