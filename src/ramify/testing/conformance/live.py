"""Reads of live work: what a process holds, what comes first in line, which tasks of a kind wait for a time, and how
much is left of one run or of all together.

People ask for it when work does not continue. None of them reads everything that is there.
"""

from __future__ import annotations

from ramify.model.commit import Later
from ramify.model.death import Death
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.policy import PARKED
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.store.reads import LiveCount
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, Worker, only, want
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


@case("reads")
def the_rows_of_a_process_are_those_that_it_holds(house: House) -> None:
    house.run(house.tasks(2), house.tasks(3, kind="copy"))
    other = house.run(house.tasks(5, kind="sum"))
    busy, idle = house.worker(), house.worker()
    walks, copies = busy.take(kinds=["walk"]), busy.take(kinds=["copy"])
    sums = busy.take(kinds=["sum"])
    reads = house.store.reads
    rows = every(lambda after: reads.segments(owner=busy.process, after=after, limit=2))
    assert {row.first: row.owner for row in rows} == dict.fromkeys(
        (walks.tasks[0], copies.tasks[0], sums.tasks[0]), busy.process
    )
    assert [row.kind for row in reads.segments(run=other, owner=busy.process).rows] == ["sum"]
    assert list(reads.segments(owner=idle.process).rows) == []
    busy.done(walks)
    busy.release(copies)
    assert [row.kind for row in reads.segments(owner=busy.process).rows] == ["sum"]


@case("reads")
def what_a_process_staged_is_not_what_it_holds(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.stage(claim, house.tasks(3))
    assert [row.first for row in house.store.reads.segments(owner=worker.process).rows] == [claim.tasks[0]]


@case("reads")
def of_each_kind_and_queue_the_first_in_line_are_told(house: House) -> None:
    walks = [house.tasks(priority=priority) for priority in (3, 1, 2)]
    mail, copies = house.tasks(queue="mail"), house.tasks(kind="copy")
    house.any_run(*walks, mail, copies)
    first = house.store.reads.in_line(limit=2)
    assert [row.first for row in first] == [mail.first, copies.first, walks[1].first, walks[2].first]


@case("reads")
def what_has_a_due_time_is_in_line_by_that(house: House) -> None:
    now = house.store.now()
    groups = [house.tasks(due=due) for due in (PARKED, now + 9 * SECOND, now + 3 * SECOND)]
    house.any_run(*groups, ready := house.tasks())
    rows = house.store.reads.in_line(limit=2)
    assert {row.first: row.due for row in rows} == {
        ready.first: None,
        groups[2].first: now + 3 * SECOND,
        groups[1].first: now + 9 * SECOND,
    }


@case("reads")
def what_is_held_gated_or_waits_is_not_in_line(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    house.run(house.tasks(2, join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 2)])
    paused = house.any_run(house.tasks(kind="sum"))
    house.store.pause(paused)
    worker = house.worker()
    claim = worker.take(1)
    worker.done(claim, children=[house.tasks(kind="copy")])
    assert [row.first for row in house.store.reads.in_line()] == [claim.tasks[0] + 1]


@case("reads")
def suspects_are_in_line_too(house: House) -> None:
    house.run(tasks := house.tasks())
    for _ in range(2):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take().tasks, 5), evidence=True))
    found = only(house.store.reads.in_line(limit=1))
    assert (found.first, found.deaths.apart) == (tasks.first, True)


@case("reads")
def the_counters_of_all_runs_that_have_not_ended_are_told_together(house: House) -> None:
    worker = house.worker()
    house.run(house.tasks(2))
    worker.done(worker.take(1))
    paused = house.any_run(house.tasks(3), house.tasks(kind="copy"))
    house.store.pause(paused)
    house.finish(house.run(house.tasks(7)))
    told = {kind: dict(by) for kind, by in house.store.reads.counts(None).items()}
    assert told["copy"] == {Tally.ADDED: 1}
    assert (told["walk"][Tally.ADDED], told["walk"][Status.DONE]) == (5, 1)


def _put_off(house: House, count: int) -> tuple[Worker, int, list[int], list[int]]:
    """A worker, a run, and its tasks, every other of which is due after 3 and after 9 seconds: rows that overlap."""
    run = house.any_run(house.tasks(count))
    worker, now = house.worker(), house.store.now()
    claim = worker.take(count)
    sooner, later = list(claim.tasks[::2]), list(claim.tasks[1::2])
    for tasks, seconds in ((later, 9), (sooner, 3)):
        worker.end(claim, tasks, Status.RETRYING, later=[Later(tasks, now + seconds * SECOND)])
    return worker, run, sooner, later


@case("reads")
def tasks_with_a_due_time_are_paged_by_id(house: House) -> None:
    worker, run, sooner, later = _put_off(house, 7)
    other = house.any_run(parked := house.tasks(3, due=PARKED), house.tasks(2), house.tasks(2, kind="copy", due=PARKED))
    reads = house.store.reads
    found = every(lambda after: reads.due_tasks("walk", after=after, limit=2))
    assert [task.row.id for task in found] == [*sorted(sooner + later), *parked.ids]
    assert {task.row.id: task.row for task in found} == {task.row.id: reads.task(task.row.id) for task in found}
    assert all(task.segment == house.row_of(task.row.id) and task.due == task.segment.due for task in found)
    assert [task.row.id for task in reads.due_tasks("walk", run=other, limit=2).rows] == list(parked.ids)[:2]
    mine = every(lambda after: reads.due_tasks("walk", run=run, after=after, limit=3))
    assert [task.row.id for task in mine] == sorted(sooner + later)
    assert not reads.due_tasks("sum").rows
    house.clock.advance(4)
    worker.done(only(worker.ask(want(runs=[run])).claims), sooner[1:])
    assert [task.row.id for task in reads.due_tasks("walk", run=run).rows] == later


@case("reads")
def tasks_with_a_due_time_are_told_unless_somebody_holds_them_or_they_wait(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True, due=9 * SECOND)
    house.any_run(house.tasks(join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 1)])
    paused = house.any_run(gated := house.tasks(kind="sum", due=PARKED))
    house.store.pause(paused)
    house.any_run(suspect := house.tasks(kind="sum", due=house.store.now()))
    for _ in range(2):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take(kinds=["sum"]).tasks, 5), evidence=True))
    assert house.row_of(suspect.first).deaths.apart

    def told() -> list[int]:
        return [task.row.id for task in house.store.reads.due_tasks("sum").rows]

    assert told() == [gated.first, suspect.first]
    worker = house.worker()
    worker.done(worker.take(kinds=["walk"]))
    assert told() == [waiting.first, gated.first, suspect.first]
    house.worker().take(kinds=["sum"])
    assert told() == [waiting.first, gated.first]


@case("reads")
def a_join_fired_when_the_last_of_its_members_ended(house: House) -> None:
    first, second = house.tasks(kind="sum", waits=True), house.tasks(kind="sum", waits=True)
    grouped, linked = house.tasks(2, join=first.first), house.tasks(kind="copy")
    run = house.any_run(grouped, linked, first, joins=[NewJoins.one(first.first, 2)])
    waits = NewWaiters.one(linked.first, second.first, 0)
    house.add(run, second, joins=[NewJoins.one(second.first, 1)], waiters=[waits])
    worker, reads = house.worker(), house.store.reads
    both = [*first.ids, *second.ids]
    assert not reads.fired_at([*both, *linked.ids, 0, -1, 2**80])
    times = []
    for kind in ("walk", "walk", "copy"):
        house.clock.advance(1)
        claim = worker.take(1, kinds=[kind])
        worker.end(claim, status=Status.FAILED if kind == "copy" else Status.DONE)
        times.append(house.log()[-1].seq)
    at = {row.seq: row.at for row in reads.tail(0).commits}
    assert reads.fired_at(both) == {first.first: at[times[1]], second.first: at[times[2]]}
    assert reads.fired_at(second.ids) == {second.first: at[times[2]]}
    for claim in worker.claim(kinds=["sum"]):
        worker.done(claim)
    house.clock.advance(1)
    worker.reopen(run, first.ids)
    reopened = reads.tail(0).commits[-1].at
    assert reads.fired_at(both) == {first.first: reopened, second.first: at[times[2]]}


@case("reads")
def runs_that_are_asked_for_together_are_those_that_exist(house: House) -> None:
    one, two = house.run(house.tasks(), name="one"), house.run(house.tasks())
    house.finish(two)
    reads = house.store.reads
    assert reads.runs_at([two, one, one, 0, -1, house.store.reserve(1), 2**80]) == {
        run: reads.run(run) for run in (one, two)
    }
    assert not reads.runs_at([])


@case("reads")
def what_is_left_of_a_run_is_counted_by_what_it_waits_for(house: House) -> None:
    worker, run, sooner, later = _put_off(house, 7)
    now = house.store.now()
    house.add(run, house.tasks(2, due=PARKED), house.tasks(20_000, kind="copy"))
    claim = worker.take(3, kinds=["copy"])
    worker.done(claim, claim.tasks[1:2])
    counts = house.store.reads.live_counts(run, now)
    assert counts.complete
    assert set(counts.counts) == {
        LiveCount(SegmentState.READY, "walk", None, False, True, False, 9, now + 3 * SECOND),
        LiveCount(SegmentState.READY, "copy", None, False, False, False, 19_997),
        LiveCount(SegmentState.CLAIMED, "copy", worker.process, False, False, False, 2),
    }
    house.clock.advance(4)
    counts = house.store.reads.live_counts(run, house.store.now())
    walks = {(each.later, each.tasks, each.next_due) for each in counts.counts if each.kind == "walk"}
    assert walks == {(False, len(sooner), None), (True, len(later) + 2, now + 9 * SECOND)}


@case("reads")
def what_is_left_of_a_run_is_told_with_its_rounds_joins_and_suspects(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    run = house.run(house.tasks(2, join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 2)])
    house.any_run(house.tasks(5))
    for _ in range(2):
        worker = house.worker()
        claim = only(worker.ask(want(runs=[run])).claims)
        worker.stage(claim, house.tasks(4))
        house.kill(worker, Death(dict.fromkeys(claim.tasks, 5), evidence=True))
    house.add(run, house.tasks(3, kind="copy"))
    assert set(house.store.reads.live_counts(run, house.store.now()).counts) == {
        LiveCount(SegmentState.READY, "walk", None, True, False, False, 2),
        LiveCount(SegmentState.WAITING, "sum", None, False, False, False, 1),
        LiveCount(SegmentState.GATED, "copy", None, False, False, True, 3),
    }


@case("reads")
def what_is_left_of_a_run_is_counted_however_many_rows_it_has_up_to_a_bound(house: House) -> None:
    """A row for each due time; no store looks at fewer than these."""
    now, first = house.store.now(), house.store.reserve(2_000)
    groups = (NewTasks(first + place, "walk", [b"0"], due=now + (place + 1) * SECOND) for place in range(2_000))
    run = house.any_run(*groups)
    counts = house.store.reads.live_counts(run, now)
    assert (only(counts.counts).tasks, only(counts.counts).next_due) == (2_000, now + SECOND)
    assert counts.complete
