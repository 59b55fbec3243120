"""Editions in the reference store: what makers have made, and how it is replaced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from ramify.model.arrivals import Arrivals
from ramify.model.event import Status
from ramify.model.key import Hold, digest
from ramify.model.reopening import Edition, merged
from ramify.model.segment import MASK_WIDTH, SegmentState, tasks_in
from ramify.store.memory import claims, joins
from ramify.store.memory.tables import MemorySegment, MemoryTables, RunRow


def find(tables: MemoryTables, run: int, makers: Collection[int]) -> Edition:
    """Return what these tasks of a run have made, and what that has made, as far as it was not replaced."""
    children: dict[int | None, list[int]] = defaultdict(list)
    for span in tables.spans.values():
        if span.run == run and span.published:
            for place, parent in enumerate(span.parents):
                children[parent].append(span.first + place)
    made: list[int] = []
    ahead = list(makers)
    while ahead:
        ahead = [child for task in ahead for child in children[task] if not is_replaced(tables, child)]
        made += ahead
    held = (task for task in sorted(made) if _is_held(tables, task))
    return Edition(merged((task, task) for task in made), next(held, None))


def is_replaced(tables: MemoryTables, task: int) -> bool:
    """Return whether a task was replaced, which is for good."""
    return joins.ending(tables, task) is Status.REPLACED


def _is_held(tables: MemoryTables, task: int) -> bool:
    row = tables.covering(task)
    return row is not None and row.state is SegmentState.CLAIMED


def _cut(tables: MemoryTables, row: MemorySegment, first: int, last: int) -> None:
    """Take the tasks of a range out of a row; what stays of a wide one stays wide."""
    if row.last - row.first < MASK_WIDTH:
        joins.take_out(tables, row, [task for task in tasks_in(row.first, row.last, row.left) if first <= task <= last])
        return
    if row.first < first:
        claims.split_off(tables, row, first)
    tables.drop_segment(claims.split(tables, row, last + 1) if row.last > last else row)


def replace(tables: MemoryTables, run: RunRow, edition: Edition, process: int, now: int) -> int:
    """End all of an edition as replaced; how many tasks that are."""
    for first, last in edition.ranges:
        for row in [row for row in tables.segments.values() if row.first <= last and row.last >= first]:
            _cut(tables, row, first, last)
    tasks = [task for first, last in edition.ranges for task in range(first, last + 1)]
    for place, task in enumerate(tasks):
        if place % MASK_WIDTH == 0:
            # Whoever follows the log reads whole commits, so none is very large.
            tables.new_commit(process, 0, now)
        span = tables.span_of(task)
        assert span is not None
        before = joins.ending(tables, task)
        if before is not None:
            tables.count(span.run, span.kind, span.queue, before, process, -1)
        tables.count(span.run, span.kind, span.queue, Status.REPLACED, process)
        tables.write_event(task, Status.REPLACED, None)
        key = span.keys[task - span.first] if span.keys is not None else None
        if key is not None and span.hold is not Hold.LABEL:
            name = digest(span.hold, span.run, span.kind, key)
            if name in tables.keys and tables.keys[name].task == task:
                del tables.keys[name]
    number, gone = run.new.id, set(tasks)
    if number in tables.context:
        tables.context[number] = {n: value for n, value in tables.context[number].items() if value.task not in gone}
    if number in tables.marks:
        tables.marks[number] = [mark for mark in tables.marks[number] if mark.task not in gone]
    slots = (slot for task in tasks for slot in joins.memberships(tables, task) if slot[0] not in edition)
    # One that had ended has arrived, and stays as it did.
    joins.arrive(tables, [Arrivals(number, run.round + 1, [(*slot, Status.REPLACED) for slot in slots])], {}, now)
    return len(tasks)
