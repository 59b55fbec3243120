"""Lines in front of the places of limits, in the reference store: looked for anew after each verb.

The rule in one sentence: the first limited row of each kind and queue in a line is ready, as its head, unless the place
of that line is full or the kind and queue have a head there already.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.commit import Part
from ramify.model.limit import (
    LIMITS,
    OPENINGS,
    Opening,
    Place,
    admits,
    closed_until,
    is_full,
    limit_of_line,
    opens_at,
    read_limits,
    read_opening,
    started,
    write_opening,
)
from ramify.model.segment import SegmentState
from ramify.store.memory.tables import MemorySegment, MemoryTables

#: A line, and the kind and queue of rows in it.
Group = tuple[str, str, str]


def places(tables: MemoryTables, row: MemorySegment) -> Sequence[Place]:
    """The places that a task of a row takes."""
    return tables.limits.places(row.span.kind, row.span.queue, row.lane)


def group_of(row: MemorySegment) -> Group:
    """The group of a row that is in a line."""
    return row.line or "", row.span.kind, row.span.queue


def room(tables: MemoryTables, row: MemorySegment, wanted: int, now: int) -> int:
    """How many of `wanted` tasks of a row may be claimed; one of which none may is put in line."""
    for place in places(tables, row):
        numbers, opening = place.limit.numbers, _opening(tables, place, now)
        wanted = admits(numbers, _running(tables, place), opening, wanted, now)
        if not wanted:
            at = None if _is_full(tables, place) else opens_at(numbers, opening, now)
            row.line = place.line
            is_head = at is not None and not any(head is not row for head in _heads(tables, group_of(row)))
            row.state, row.due = (SegmentState.READY, at) if is_head else (SegmentState.LIMITED, None)
            return 0
    return wanted


def has_room(tables: MemoryTables, row: MemorySegment, now: int) -> bool:
    """Return whether a task of a row may be claimed."""
    return all(
        admits(place.limit.numbers, _running(tables, place), _opening(tables, place, now), 1, now)
        for place in places(tables, row)
    )


def take(tables: MemoryTables, row: MemorySegment, many: int, now: int) -> None:
    """Note the starts of a row that was claimed, where a rate counts them."""
    for place in places(tables, row):
        if (pace := place.limit.numbers.pace) is not None:
            _open(tables, place, started(pace, _opening(tables, place, now), many, now))


def close(tables: MemoryTables, row: MemorySegment, part: Part, now: int) -> None:
    """Close the places that tasks of a part say are closed."""
    for later in part.later:
        for place in places(tables, row) if later.closes is not None else ():
            if place.limit.limit.per_lane is (later.closes == "lane"):
                _open(tables, place, closed_until(_opening(tables, place, now), later.due))


def change(tables: MemoryTables, limit: str) -> None:
    """A limit is another now: make the rows in all of its lines ready."""
    values = tables.values
    tables.limits = read_limits(tuple(values[key].value for key in sorted(values) if key[0] == LIMITS))
    for row in tables.segments.values():
        if row.line is not None and limit_of_line(row.line)[0] == limit:
            row.state, row.due, row.line = SegmentState.READY, None, None


def refill(tables: MemoryTables, now: int) -> list[MemorySegment]:
    """Make heads where there are none; those that were made."""
    if not tables.limits:
        return []
    groups = sorted({group_of(row) for row in tables.segments.values() if row.state is SegmentState.LIMITED})
    return [head for group in groups if (head := next_head(tables, group, now)) is not None]


def next_head(tables: MemoryTables, group: Group, now: int) -> MemorySegment | None:
    """Make the first limited row of a group its head, if there is room and the group has none."""
    place = tables.limits.place_of(group[0])
    rows = [r for r in tables.segments.values() if r.state is SegmentState.LIMITED and group_of(r) == group]
    if place is None or not rows or _is_full(tables, place) or _heads(tables, group):
        return None
    row = min(rows, key=lambda row: (row.rank, row.id))
    row.state, row.due = SegmentState.READY, opens_at(place.limit.numbers, _opening(tables, place, now), now)
    return row


def _heads(tables: MemoryTables, group: Group) -> Sequence[MemorySegment]:
    ready = (row for row in tables.segments.values() if row.state is SegmentState.READY and row.line is not None)
    return [row for row in ready if group_of(row) == group]


def _running(tables: MemoryTables, place: Place) -> int:
    held = tables.tokens.values()
    return sum(row.count for row in held if place.counts(row.span.kind, row.span.queue, row.lane))


def _is_full(tables: MemoryTables, place: Place) -> bool:
    return is_full(place.limit.numbers, _running(tables, place))


def _opening(tables: MemoryTables, place: Place, now: int) -> Opening:
    return read_opening(tables.values.get((OPENINGS, place.line)), now)


def _open(tables: MemoryTables, place: Place, opening: Opening) -> None:
    tables.values[OPENINGS, place.line] = write_opening(place.line, opening)
