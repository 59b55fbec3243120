"""`append` of single tasks: one whose id follows the last of an unclaimed row of the same producer extends that row.

So a million single enqueues are one row, not a million, and claims stay as cheap as at the start. The row is extended
only where that changes nothing else: same run, round, kind, queue, lane and priority, no due time, next id, unclaimed.
"""

from __future__ import annotations

from typing import Any

from ramify.model.key import Hold
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.registry import case


class Producer:
    """Appends single tasks to a run, with ids from one block."""

    def __init__(self, house: House, run: int) -> None:
        self.house = house
        self.run = run
        self.next = house.store.reserve(10_000)

    def add(self, **columns: Any) -> int:
        """Append the next task; its id."""
        task = NewTasks(self.next, columns.pop("kind", "walk"), [b"%d" % self.next], **columns)
        self.house.add(self.run, task)
        self.next += 1
        return task.first

    def rows(self) -> list[list[int]]:
        """The live rows of the run as lists of tasks."""
        return [list(row.tasks) for row in self.house.live(self.run)]


@case("append")
def five_hundred_single_appends_make_one_row(house: House) -> None:
    producer = Producer(house, house.queue())
    ids = [producer.add() for _ in range(500)]
    assert producer.rows() == [ids]
    claim = house.worker().take(1000)
    assert list(claim.tasks) == ids
    assert list(claim.bodies) == [b"%d" % id for id in ids]


@case("append")
def the_extended_row_is_one_span_of_the_log_or_many_but_every_task_is_read(house: House) -> None:
    producer = Producer(house, house.queue())
    ids = [producer.add(keys=[b"k"], details=[b"m"]) for _ in range(5)]
    page = house.store.reads.tasks(producer.run)
    assert [row.id for row in page.rows] == ids
    assert {(row.key, row.more) for row in page.rows} == {(b"k", b"m")}
    assert sorted(id for span in house.store.reads.spans().rows for id in range(span.first, span.last + 1)) == ids


@case("append")
def a_task_that_extends_a_row_keeps_when_it_was_added(house: House) -> None:
    producer = Producer(house, house.queue())
    times = {}
    for _ in range(3):
        times[producer.add()] = house.clock.now()
        house.clock.advance(1)
    assert len(producer.rows()) == 1
    worker = house.worker()
    worker.done(worker.take(1))
    house.clock.advance(60)
    assert {row.id: row.added for row in house.store.reads.tasks(producer.run).rows} == times
    assert {id: found.row.added for id, found in house.store.reads.standings([*times]).items()} == times


@case("append")
def a_claimed_row_is_not_extended(house: House) -> None:
    producer = Producer(house, house.queue())
    held = producer.add()
    worker = house.worker()
    claim = worker.take()
    late = producer.add()
    assert producer.rows() == [[held], [late]]
    assert house.offered() == [late]
    worker.done(claim)


@case("append")
def the_rest_of_a_row_whose_head_was_claimed_may_grow(house: House) -> None:
    producer = Producer(house, house.queue())
    ids = [producer.add() for _ in range(4)]
    claim = house.worker().take(2)
    late = producer.add()
    assert list(claim.tasks) == ids[:2]
    assert house.offered() == [*ids[2:], late]


@case("append")
def a_row_of_something_else_is_not_extended(house: House) -> None:
    for other in (
        {"kind": "copy"},
        {"queue": "slow"},
        {"lane": "a.org"},
        {"priority": 5},
        {"due": house.clock.now() + 1},
    ):
        producer = Producer(house, house.queue())
        one, two, three = producer.add(), producer.add(**other), producer.add()
        assert producer.rows() == [[one], [two], [three]], other


@case("append")
def a_row_that_is_due_later_is_not_extended(house: House) -> None:
    producer = Producer(house, house.queue())
    due = house.clock.now() + 1
    one, two = producer.add(due=due), producer.add()
    assert producer.rows() == [[one], [two]]
    assert house.offered() == [two]


@case("append")
def a_gap_in_the_ids_begins_a_new_row(house: House) -> None:
    producer = Producer(house, house.queue())
    one = producer.add()
    producer.next += 1
    two = producer.add()
    assert producer.rows() == [[one], [two]]


@case("append")
def a_row_of_another_run_is_not_extended(house: House) -> None:
    producer = Producer(house, house.queue())
    one = producer.add()
    first, producer.run = producer.run, house.queue()
    two = producer.add()
    assert house.offered(want(runs=[first])) == [one]
    assert house.offered(want(runs=[producer.run])) == [two]


@case("append")
def a_row_whose_round_has_opened_is_not_extended(house: House) -> None:
    run = house.run(house.tasks())
    producer = Producer(house, run)
    one = producer.add()
    worker = house.worker()
    worker.done(worker.take())
    house.settle(run)
    two = producer.add()
    assert (house.row_of(one).round, house.row_of(two).round) == (1, 2)


@case("append")
def a_single_task_with_a_taken_key_leaves_the_row_as_it_is(house: House) -> None:
    producer = Producer(house, house.queue())
    one = producer.add(keys=[b"a"], hold=Hold.ONCE)
    producer.add(keys=[b"a"], hold=Hold.ONCE)
    assert producer.rows() == [[one]]
    three = producer.add(keys=[b"c"], hold=Hold.ONCE)
    assert house.offered() == [one, three]


@case("append")
def a_single_task_that_takes_over_a_kept_key_extends_the_row(house: House) -> None:
    """The key of a task that has ended and is kept excludes others, but not one that is added `again`."""
    producer = Producer(house, house.queue())
    producer.add(keys=[b"a"], hold=Hold.UNIQUE, keep=10**12)
    worker = house.worker()
    worker.done(worker.take())
    kept = {"hold": Hold.UNIQUE, "keep": 10**12}
    two = producer.add(keys=[b"b"], **kept)
    three = producer.add(keys=[b"a"], again=True, **kept)
    assert producer.rows() == [[two, three]]


@case("append")
def a_row_that_lost_tasks_to_a_cancel_grows_without_getting_them_back(house: House) -> None:
    producer = Producer(house, house.queue())
    ids = [producer.add() for _ in range(3)]
    house.store.cancel(producer.run, ids[1])
    late = producer.add()
    assert house.offered() == [ids[0], ids[2], late]


@case("append")
def a_row_whose_last_task_was_cancelled_does_not_get_it_back(house: House) -> None:
    producer = Producer(house, house.queue())
    ids = [producer.add() for _ in range(3)]
    house.store.cancel(producer.run, ids[2])
    late = producer.add()
    assert house.offered() == [*ids[:2], late]
