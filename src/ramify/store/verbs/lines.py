"""Lines in front of the places of limits: who must wait in one, and who is next. `model/limit.py` has the rules.

A verb that claims, or that ends claims together with the next claim, decides with `Places` on what was loaded. All
others write first what they change, and then `refill` the lines that this concerns, in the same transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from ramify.model.limit import (
    OPENINGS,
    Closes,
    Limits,
    Opening,
    Place,
    admits,
    closed_until,
    is_full,
    opens_at,
    read_opening,
    started,
    write_opening,
)
from ramify.model.segment import SegmentState
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.tables import Tables

OPEN = Opening()
_PLACE = attrgetter("place")


class LineGroup(NamedTuple):
    """The rows of one kind and queue in a line; each group has a head of its own."""

    line: str
    kind: str
    queue: str


class Places:
    """The places that a verb takes and frees, as its changes leave them, and the lines in front of them."""

    def __init__(self, tables: Tables, limits: Limits, changes: Changes) -> None:
        self._tables, self._limits, self._changes = tables, limits, changes
        self._running: dict[str, int] = {}
        self._openings: dict[str, Opening] = {}
        #: Whether no place of the store has an opening, once that was asked.
        self._are_open: bool | None = None
        #: Lines of places that were freed.
        self._freed: set[str] = set()
        #: Groups whose head was made by this verb, and those that lost theirs.
        self._headed: set[LineGroup] = set()
        self._headless: dict[LineGroup, None] = {}
        #: Groups whose head is another than the stored one, if they have one.
        self._left: set[LineGroup] = set()
        #: What is stored of a group in its order, the next row of that, and the rows that this verb has added.
        self._streams: dict[LineGroup, Iterator[SegmentRow]] = {}
        self._stored: dict[LineGroup, SegmentRow] = {}
        self._added: defaultdict[LineGroup, list[SegmentRow]] = defaultdict(list)
        #: Rows that were put in line, by id: what is stored of them is not so any more.
        self._touched: set[int] = set()

    @property
    def are_any(self) -> bool:
        """True if the store has limits."""
        return bool(self._limits)

    def of(self, row: SegmentRow) -> Sequence[Place]:
        """The places that a task of a row takes."""
        return self._limits.places(row.kind, row.queue, row.lane) if self._limits else ()

    def is_per_lane(self, row: SegmentRow) -> bool:
        """Return whether rows like this hold one lane each."""
        return bool(self._limits) and self._limits.is_per_lane(row.kind, row.queue)

    # taking

    def room(self, row: SegmentRow, wanted: int) -> int:
        """How many of `wanted` tasks of a row may be claimed; one of which none may is put in line."""
        for place in self.of(row):
            wanted = self._admits(place, wanted)
            if not wanted:
                self._put_in_line(row, place)
                break
        return wanted

    def has_room(self, row: SegmentRow) -> bool:
        """Return whether a task of a row may be claimed."""
        return all(self._admits(place, 1) for place in self.of(row))

    def has_moved(self, row: SegmentRow) -> bool:
        """Return whether this verb has put a row in line, or made it a head."""
        return row.id in self._touched

    def take(self, row: SegmentRow, many: int) -> None:
        """So many tasks of a row are claimed."""
        now = self._changes.now
        for place in self.of(row):
            self._running[place.line] = self._count(place) + many
            if (pace := place.limit.numbers.pace) is not None:
                self._open(place.line, started(pace, self._opening(place), many, now))

    def leave(self, row: SegmentRow, line: str | None) -> None:
        """A row that was the head of a line is claimed whole, or waits elsewhere."""
        if line is not None:
            group = LineGroup(line, row.kind, row.queue)
            self._headed.discard(group)
            self._left.add(group)
            self._headless[group] = None

    def follow(self) -> SegmentRow | None:
        """Return the next row of a line that lost its head, as its new one, which may be claimed at once."""
        while self._headless:
            group = next(iter(self._headless))
            del self._headless[group]
            row = self._next_head(group)
            if row is not None and row.due is None:
                return row
        return None

    def _next_head(self, group: LineGroup) -> SegmentRow | None:
        place = self._limits.place_of(group.line)
        if place is None or is_full(place.limit.numbers, self._count(place)):
            return None
        row = min(self._waiting(group), key=_PLACE, default=None)
        if row is not None:
            self._make_head(row, place)
        return row

    def _waiting(self, group: LineGroup) -> Iterator[SegmentRow]:
        """Yield the first stored row of a group that is limited, and all that this verb has added."""
        for row in self._added[group]:
            if row.state is SegmentState.LIMITED and row.line == group.line:
                yield row
        if group not in self._streams:
            self._streams[group] = self._tables.in_line(*group)
        stored = self._stored.pop(group, None)
        if stored is None or stored.id in self._touched:
            stored = next((row for row in self._streams[group] if row.id not in self._touched), None)
        if stored is not None:
            self._stored[group] = stored
            yield stored

    def _make_head(self, row: SegmentRow, place: Place) -> None:
        row.state, row.line = SegmentState.READY, place.line
        row.due = opens_at(place.limit.numbers, self._opening(place), self._changes.now)
        self._headed.add(LineGroup(place.line, row.kind, row.queue))
        self._line(row)

    def _put_in_line(self, row: SegmentRow, place: Place) -> None:
        group, before = LineGroup(place.line, row.kind, row.queue), row.line
        numbers = place.limit.numbers
        at = None
        if not is_full(numbers, self._count(place)):
            at = opens_at(numbers, self._opening(place), self._changes.now)
        if at is not None and (before == group.line or not self._has_head(group)):
            row.state, row.due = SegmentState.READY, at
            self._headed.add(group)
            self._headless.pop(group, None)
        else:
            row.state, row.due = SegmentState.LIMITED, None
            self._added[group].append(row)
        row.line = group.line
        self._line(row)
        if before is not None and before != group.line:
            self.leave(row, before)

    def _has_head(self, group: LineGroup) -> bool:
        if group in self._headed:
            return True
        return group not in self._left and self._tables.has_head(*group)

    def _line(self, row: SegmentRow) -> None:
        if row.id and row.id not in self._touched:
            self._touched.add(row.id)
            self._changes.lined.append(row)

    # freeing

    def free(self, row: SegmentRow, many: int) -> None:
        """So many tasks of a row are claimed no more. All rows of which some are were counted before: see `count`."""
        for place in self.of(row):
            self._freed.add(place.line)
            self._running[place.line] -= many

    def count(self, rows: Iterable[SegmentRow]) -> None:
        """Count what is claimed at the places of rows, before anything is decided about them."""
        if self._limits:
            found = {place.line: place for row in rows for place in self.of(row) if place.line not in self._running}
            if found:
                self._running.update(self._tables.running(list(found.values())))

    def close(self, row: SegmentRow, closes: Closes, until: int) -> None:
        """Close the places of a row that are meant, for every process."""
        for place in self.of(row):
            if place.limit.limit.per_lane is (closes == "lane"):
                self._open(place.line, closed_until(self._opening(place), until))

    def open(self, lines: Iterable[str]) -> list[SegmentRow]:
        """Return the new heads of those of these lines that lack one and whose place has room."""
        places = filter(None, map(self._limits.place_of, lines))
        open_to = {p.line: p for p in places if not is_full(p.limit.numbers, self._count(p))}
        found = list(self._tables.heads(list(open_to))) if open_to else []
        for row in found:
            self._make_head(row, open_to[row.line or ""])
        return found

    def freed(self) -> list[SegmentRow]:
        """Return the new heads of lines in front of places that were freed."""
        return self.open(sorted(self._freed)) if self._freed else []

    # what is known

    def _admits(self, place: Place, wanted: int) -> int:
        running, opening = self._count(place), self._opening(place)
        return admits(place.limit.numbers, running, opening, wanted, self._changes.now)

    def _count(self, place: Place) -> int:
        found = self._running.get(place.line)
        if found is None:
            found = self._running[place.line] = self._tables.running([place])[place.line]
        return found

    def _opening(self, place: Place) -> Opening:
        if self._are_open is None:
            self._are_open = not self._tables.have_openings()
        found = self._openings.get(place.line, OPEN if self._are_open else None)
        if found is None:
            key = OPENINGS, place.line
            stored = self._tables.values([key]).get(key)
            found = self._openings[place.line] = read_opening(stored, self._changes.now)
        return found

    def _open(self, line: str, opening: Opening) -> None:
        self._openings[line] = opening
        self._changes.values[OPENINGS, line] = write_opening(line, opening)


def lines_of(limits: Limits, rows: Iterable[SegmentRow]) -> set[str]:
    """The lines of the places that claimed rows take, and those whose heads ready ones are."""
    if not limits:
        return set()
    found: set[str] = set()
    for row in rows:
        if row.state is SegmentState.CLAIMED:
            found.update(place.line for place in limits.places(row.kind, row.queue, row.lane))
        elif row.line is not None:
            found.add(row.line)
    return found


def refill(tables: Tables, limits: Limits, lines: Iterable[str], now: int) -> None:
    """Make heads in lines whose place a verb has freed, or whose head it took away. All that it changed is written."""
    chosen = sorted(lines)
    if not chosen:
        return
    changes = Changes(0, 0, now)
    Places(tables, limits, changes).open(chosen)
    if changes.lined:
        tables.write(changes)
