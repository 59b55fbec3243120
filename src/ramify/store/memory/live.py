"""Live rows of the reference store as people see them: those that come first in line, tasks of a kind that have a due
time, and what is left of a run, counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ramify.model.segment import LIVE_STATES, Segment, SegmentState, in_order
from ramify.store.memory.tables import MemorySegment, MemoryTables
from ramify.store.reads import LiveCount, LiveCounts


def segment_of(r: MemorySegment) -> Segment:
    """A row as a value."""
    return Segment(
        r.id, r.run, r.round, r.span.kind, r.span.queue, r.lane, r.first, r.last, r.left, r.rank, r.due,
        r.attempt, r.deaths, r.owner, SegmentState(r.state), r.awaits, r.line,
    )  # fmt: skip


def in_line(tables: MemoryTables, limit: int) -> list[Segment]:
    """The ready rows that come first: `limit` by rank and `limit` by due time of each kind and queue, and suspects."""
    lines: dict[object, list[Segment]] = defaultdict(list)
    for row in (segment_of(r) for r in tables.segments.values() if r.state is SegmentState.READY):
        lines["suspects" if row.deaths.apart else (row.kind, row.queue, row.due is None)].append(row)
    for line in lines.values():
        line.sort(key=lambda row: (row.rank if row.due is None or row.deaths.apart else row.due, row.id))
    return sorted((row for line in lines.values() for row in line[:limit]), key=lambda row: (row.rank, row.id))


def due_tasks(tables: MemoryTables, kind: str, run: int | None, after: int) -> Iterator[tuple[int, Segment]]:
    """The tasks of a kind beyond an id that have a due time and that nobody holds, with their rows."""
    unclaimed = (r for r in tables.segments.values() if r.state in (SegmentState.READY, SegmentState.GATED))
    timed = [r for r in unclaimed if r.span.kind == kind and r.due is not None and run in (None, r.run)]
    return in_order(map(segment_of, sorted(timed, key=lambda r: r.first)), after)


def counts(tables: MemoryTables, run: int, now: int, limit: int) -> LiveCounts:
    """Unfinished tasks of a run, counted."""
    tasks: Counter[tuple[SegmentState, str, int | None, bool, bool, bool]] = Counter()
    dues: dict[object, int] = {}
    live = [r for r in tables.segments.values() if r.run == run and r.state in LIVE_STATES]
    for row in map(segment_of, live[:limit]):
        later, ahead = row.due is not None and row.due > now, row.round > tables.runs[run].round
        name = (row.state, row.kind, row.owner, row.deaths.apart, later, ahead)
        tasks[name] += len(row.tasks)
        if row.due is not None and later:
            dues[name] = min(row.due, dues.get(name, row.due))
    order = sorted(tasks, key=lambda name: (*name[:2], name[2] or 0, *name[3:]))
    return LiveCounts([LiveCount(*name, tasks[name], dues.get(name)) for name in order], len(live) < limit)
