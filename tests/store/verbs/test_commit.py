"""Commits on rows that were loaded: what becomes of each row, and how few columns say it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ramify.model.commit import Later, Part
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.sqlite.tables import SqliteTables
from ramify.store.tables import Loaded
from ramify.store.verbs.commit import NARROW, Commit, overgrown
from tests.store.verbs.values import KIND, NOW, PROCESS, QUEUE, a_row, a_run, a_span

DONE, FAILED, RETRYING = Status.DONE, Status.FAILED, Status.RETRYING


def held(number: int, first: int, last: int, run: int = 1, **more: int) -> SegmentRow:
    row = a_row(number, first, last, run, **more)
    row.state, row.owner, row.token = SegmentState.CLAIMED, PROCESS, b"%d" % first
    return row


def committed(tables: SqliteTables, parts: Sequence[tuple[SegmentRow, Part]], **more: object) -> Changes:
    """The changes of parts, each with the row of its claim."""
    changes = Changes(PROCESS, 1, NOW, is_logged=True)
    spans = {row.span: a_span(row.first, row.last, row.run) for row, _ in parts}
    runs = {row.run: a_run(row.run) for row, _ in parts}
    Commit(tables, Loaded(spans=spans, runs=runs, **more), changes).write(parts)  # type: ignore[arg-type]
    return changes


def part(row: SegmentRow, tasks: Sequence[int] | None = None, statuses: Status | Sequence[Status] = DONE) -> Part:
    assert row.token is not None
    return Part(row.token, row.tasks if tasks is None else tasks, statuses)


def test_parts_of_few_tasks_are_one_column_and_a_wide_one_is_its_own(tables: SqliteTables) -> None:
    rows = [held(n, 100 * n, 100 * n + n - 1) for n in (1, 2, NARROW, 3)]
    changes = committed(tables, [(row, part(row, statuses=FAILED if row.id == 3 else DONE)) for row in rows])
    wide, narrow = changes.events
    assert (wide.tasks, wide.numbers, wide.statuses) == (rows[2].tasks, 1, DONE)
    assert list(narrow.tasks) == [100, 200, 201, 300, 301, 302]
    assert (narrow.numbers, narrow.statuses) == (1, [DONE] * 3 + [FAILED] * 3)
    assert changes.told == NARROW + 6
    assert changes.counts == {(1, KIND, QUEUE, DONE): NARROW + 3, (1, KIND, QUEUE, FAILED): 3}


def test_parts_that_are_one_column_keep_their_values_and_times(tables: SqliteTables) -> None:
    first, second = held(1, 10, 11), held(2, 20, 20)
    parts = [Part(b"10", [10, 11], took={11: 7}), Part(b"20", [20], DONE, [b"x"], took={20: 9})]
    (told,) = committed(tables, list(zip((first, second), parts, strict=True))).events
    assert told.values == [None, None, b"x"]
    assert told.took == {11: 7, 20: 9}


def test_a_row_loses_what_ended_and_goes_with_its_last_task(tables: SqliteTables) -> None:
    whole, some = held(1, 10, 12), held(2, 20, 23)
    changes = committed(tables, [(whole, part(whole)), (some, part(some, [20, 22]))])
    assert changes.dropped == [whole]
    assert changes.unstaged == [b"10"], "nobody will publish what was staged for it"
    assert changes.masked == [some]
    assert list(some.tasks) == [21, 23]


@pytest.mark.parametrize(("over", "due", "awaits"), [((), NOW + 5, 9), ((9,), None, None)])
def test_tasks_that_come_back_later_leave_the_row_with_the_number_of_their_attempt(
    tables: SqliteTables, over: Sequence[int], due: int | None, awaits: int | None
) -> None:
    row = held(1, 10, 13, attempt=3)
    later = Part(b"10", [11, 12, 13], [RETRYING, RETRYING, DONE], later=[Later([11, 12], NOW + 5, 9)])
    changes = committed(tables, [(row, later)], numbers={11: 3}, over=over)
    (back,) = changes.segments
    assert (list(back.tasks), back.attempt, back.due, back.awaits) == ([11, 12], 4, due, awaits)
    assert (back.state, back.owner, back.token) == (SegmentState.READY, None, None)
    assert list(row.tasks) == [10]
    assert changes.events[0].numbers == [4, 1, 1]


def test_children_go_to_the_runs_of_their_parents_and_key_by_key_to_their_counts(tables: SqliteTables) -> None:
    rows = [held(1, 10, 10, 1), held(2, 20, 20, 2)]
    born = [NewTasks(first, KIND, [b"[]"] * 2, parent) for first, parent in ((30, 10), (40, 20))]
    parts = [Part(b"10", [10], children=born[:1]), Part(b"20", [20], children=born[1:])]
    changes = committed(tables, list(zip(rows, parts, strict=True)))
    assert [(row.run, row.first, row.round) for row in changes.segments] == [(1, 30, 1), (2, 40, 1)]
    assert [changes.counts[run, KIND, QUEUE, Tally.ADDED] for run in (1, 2)] == [2, 2]


def test_who_begins_to_wait_for_a_task_that_an_earlier_part_ended_goes_on_at_once(tables: SqliteTables) -> None:
    first, second = held(1, 10, 10), held(2, 20, 20)
    waiting = NewTasks(30, KIND, [b"[]"], waits=True)
    joins, waiters = [NewJoins.one(30, 1)], [NewWaiters.one(10, 30, 0)]
    links = Part(b"20", [20], children=[waiting], joins=joins, waiters=waiters)
    (row,) = committed(tables, [(first, part(first)), (second, links)]).segments
    assert (row.first, row.state) == (30, SegmentState.READY)


@pytest.mark.parametrize(("counted", "added", "halted"), [(8, 2, []), (8, 3, [1]), (12, 0, [])])
def test_a_run_is_overgrown_when_a_commit_took_it_beyond_its_tasks(counted: int, added: int, halted: list[int]) -> None:
    changes = Changes(PROCESS, 1, NOW)
    changes.counts[1, KIND, QUEUE, Tally.ADDED] += added
    changes.counts[1, KIND, QUEUE, DONE] += 5
    assert overgrown(Loaded(runs={1: a_run(max_tasks=10)}, counted={1: counted}), changes) == halted
