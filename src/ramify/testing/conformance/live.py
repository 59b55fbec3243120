"""Reads of live work: what a process holds, what comes first in line, and how much is left of all runs together.

What people ask of a store whose work does not go on. None of them looks at everything that is there.
"""

from __future__ import annotations

from ramify.model.death import Death
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, only
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
