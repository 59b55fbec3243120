"""Arrivals of a verb: settled together at its end, with what the verb itself has made."""

from __future__ import annotations

import pytest

from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.segment import SegmentState
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.sqlite.tables import SqliteTables
from ramify.store.verbs.arriving import Arriving, EndedTasks
from tests.store.verbs.values import NOW, PROCESS, a_row, a_run, a_span

DONE, FAILED = Status.DONE, Status.FAILED


def waiting(first: int, last: int) -> tuple[Changes, SegmentRow]:
    """Changes of a verb that has made a row of waiting tasks."""
    row = a_row(0, first, last, state=SegmentState.WAITING)
    return Changes(PROCESS, 1, NOW, segments=[row]), row


def offered(changes: Changes) -> list[tuple[list[int], int]]:
    return [(list(row.tasks), row.round) for row in changes.segments if row.state is SegmentState.READY]


def test_a_join_fires_by_what_ends_in_the_verb_that_makes_it(tables: SqliteTables) -> None:
    changes, row = waiting(50, 52)
    arriving = Arriving(tables, changes, {1: a_run()})
    arriving.create(1, [NewJoins((50, 51, 52), (2, 1, 0))], 3)
    arriving.end(EndedTasks([10, 11], DONE))
    members = arriving.wait((), [NewWaiters((10, 11, 12), (50, 50, 51), (0, 1, 0))], {})
    assert members == [(50, 0, DONE), (50, 1, DONE)], "who waits for a task that has ended need not"
    arriving.arrive(1, 4, members)
    arriving.settle()
    assert offered(changes) == [([52], 3), ([50], 4)] or offered(changes) == [([50], 4), ([52], 3)]
    assert list(row.tasks) == [51]


@pytest.mark.parametrize("statuses", [DONE, FAILED])
def test_all_ways_to_wait_for_a_task_fill_a_slot(tables: SqliteTables, statuses: Status) -> None:
    changes, _ = waiting(50, 51)
    arriving = Arriving(tables, changes, {1: a_run()}, [(11, 51, 1)])
    arriving.create(1, [NewJoins((50, 51), (2, 2))], 0)
    arriving.add(1, 1, a_span(10, 11, join=50, shift=-10), EndedTasks([10, 11], statuses), more=[(51, 0, DONE)])
    arriving.settle()
    assert offered(changes) == [([50, 51], 1)], "what lies in one row and fires in one round is offered in one row"
    broken = {join.id: join.ends.failed for join in changes.joins}
    assert broken == ({50: 0, 51: 0} if statuses is DONE else {50: 2, 51: 1})


def test_an_heir_is_waited_for_in_the_stead_of_its_task(tables: SqliteTables) -> None:
    changes, _ = waiting(50, 51)
    arriving = Arriving(tables, changes, {1: a_run()}, [(10, 51, 0)])
    arriving.create(1, [NewJoins((50, 51), (2, 1))], 0)
    span = a_span(10, 11, join=50, shift=-10)
    assert arriving.memberships(span, [10]) == [(10, 50, 0), (10, 51, 0)]
    arriving.add(1, 1, span, EndedTasks([10, 11], DONE), left_out={10: 60})
    arriving.settle()
    assert offered(changes) == []
    assert [join.parts[0].arrived for join in changes.joins] == [0b10]


def test_a_small_join_fires_for_the_latest_round_in_which_members_arrive(tables: SqliteTables) -> None:
    changes, _ = waiting(50, 52)
    arriving = Arriving(tables, changes, {1: a_run()})
    arriving.settle({(1, 2): [(50, 0b10, 0, 2), (51, 0b1, 0b10, 2)], (1, 1): [(50, 0b01, 0, 2), (52, 0b1, 0, 2)]})
    assert sorted(changes.small) == [(50, 0b11, True), (51, 0b11, True), (52, 0b01, False)]
    assert offered(changes) == [([50, 51], 2)]
