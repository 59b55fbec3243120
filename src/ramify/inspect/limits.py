"""Limits of a store at one moment, for people: their numbers, who set them, how full they are and who fills them.

What runs is read from the rows that processes hold, so its price is what they hold. Who waits is counted in a pass over
live rows that ends at a bound; `at_least` says that there may be more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from ramify.inspect import live
from ramify.inspect.live import ROWS, rows_of, width
from ramify.inspect.words import duration, plural
from ramify.model.limit import (
    LIMITS,
    OPENINGS,
    Limits,
    Numbers,
    Pace,
    Place,
    StoredLimit,
    limit_of_line,
    line_of,
    lines_of,
    opens_at,
    read_limits,
    read_opening,
)
from ramify.model.policy import SECOND
from ramify.model.process import Process
from ramify.model.segment import Segment, SegmentState
from ramify.model.value import StoredValue
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT, Reads

#: How many holders are named.
_NAMED = 3
_UNITS = {1: "s", 60: "m", 3_600: "h", 86_400: "d"}


class LimitStatus(msgspec.Struct, frozen=True):
    """One limit at one moment. `running` are claimed tasks that it covers, by the process that holds them, `waiting`
    those in its lines; `opens` is when its next place opens by the store's clock, of those that time has shut.
    """

    stored: StoredLimit
    running: Mapping[int, int] = {}
    waiting: int = 0
    at_least: bool = False
    opens: int | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.stored.name


def stored_limits(reads: Reads) -> dict[str, tuple[StoredLimit, int]]:
    """All limits of a store by name, each with its version."""
    rows = list(_values(reads, LIMITS))
    limits = read_limits(tuple(row.value for row in rows)).by_name
    return {row.name: (limits[row.name], row.version) for row in rows}


def limits_in(reads: Reads) -> Limits:
    """All limits of a store."""
    return read_limits(tuple(row.value for row in _values(reads, LIMITS)))


def _values(reads: Reads, space: str, first: str = "", until: str = "") -> Iterator[StoredValue]:
    """The values of a space, or those whose names lie between two others."""
    after, more = first, True
    while more:
        page = reads.values(space=space, after=(space, after), limit=PAGE_LIMIT)
        for found in page:
            if until and found.name >= until:
                return
            yield found
        after, more = page[-1].name if page else "", len(page) == PAGE_LIMIT


def statuses_of(store: Store) -> list[LimitStatus]:
    """All limits by name, as they are now."""
    reads, now = store.reads, store.now()
    limits = limits_in(reads)
    if not limits:
        return []
    held = [row for process in reads.processes() if not process.reaped for row in rows_of(reads, owner=process.id)]
    waiting, seen = Counter[str](), 0
    for row in rows_of(reads):
        seen += 1
        if row.state is SegmentState.LIMITED and row.line is not None:
            waiting[limit_of_line(row.line)[0]] += width(row)
    return [
        LimitStatus(
            limit, _holders(row for row in held if _covers(limit, row)), waiting[name], seen >= ROWS,
            _next_opening(reads, limit, now),
        )
        for name, limit in sorted(limits.by_name.items())
    ]  # fmt: skip


def _covers(limit: StoredLimit, row: Segment) -> bool:
    return row.kind in limit.limit.kinds or row.queue in limit.limit.queues


def _holders(rows: Iterable[Segment]) -> Counter[int]:
    """How many tasks of these rows each process has claimed."""
    found: Counter[int] = Counter()
    for row in rows:
        if row.state is SegmentState.CLAIMED and row.owner is not None:
            found[row.owner] += width(row)
    return found


def _next_opening(reads: Reads, limit: StoredLimit, now: int) -> int | None:
    """When the first of its places opens that time has shut."""
    begin, end = lines_of(limit.name)
    moments = (opens_at(limit.numbers, read_opening(each, now), now) for each in _lines(reads, limit, begin, end))
    return min((at for at in moments if at is not None), default=None)


def _lines(reads: Reads, limit: StoredLimit, begin: str, end: str) -> Iterator[StoredValue]:
    if limit.limit.per_lane:
        yield from _values(reads, OPENINGS, begin, end)
    elif (found := reads.value(OPENINGS, line_of(limit.name))) is not None:
        yield found


# what is full


class BusyLimit(msgspec.Struct, frozen=True):
    """A limit without room for more tasks, in words. `full_lanes` counts those of a limit per lane."""

    limit: str
    running: int
    max_running: int | None
    text: str
    full_lanes: int | None = None
    opens_in: float | None = None


def busy_limits(
    reads: Reads, held: Iterable[Segment], processes: Sequence[Process], now: int, kinds: Set[str] | None = None
) -> list[BusyLimit]:
    """The limits that are full with what is held, or shut; with `kinds` those that cover one of these, or a queue.

    Of limits per lane only lanes are told that are full.
    """
    rows = [row for row in held if row.state is SegmentState.CLAIMED]
    found = (
        _busy(reads, limit, [row for row in rows if _covers(limit, row)], processes, now)
        for _, limit in sorted(limits_in(reads).by_name.items())
        if kinds is None or limit.limit.queues or not kinds.isdisjoint(limit.limit.kinds)
    )
    return [each for each in found if each is not None]


def _busy(
    reads: Reads, limit: StoredLimit, rows: Sequence[Segment], processes: Sequence[Process], now: int
) -> BusyLimit | None:
    most, running = limit.numbers.max_running, sum(map(width, rows))
    if limit.limit.per_lane:
        lanes = _by_lane(rows)
        full = {lane for lane, many in lanes.items() if most is not None and many >= most}
        if not full:
            return None
        holders = _holders(row for row in rows if row.lane in full)
        what = f"limit {limit.name} is full in {plural(len(full), 'lane')} ({most:,} each)"
        return BusyLimit(limit.name, running, most, f"{what}, {held_by(holders, processes)}", len(full))
    place = Place(limit, None, line_of(limit.name))
    opening = read_opening(reads.value(OPENINGS, place.line), now)
    status = PlaceStatus(place, _holders(rows), opens_at(limit.numbers, opening, now))
    if not status.is_full and status.opens is None:
        return None
    opens_in = None if status.opens is None else max(0, status.opens - now) / SECOND
    return BusyLimit(limit.name, running, most, place_in_words(status, processes, now), None, opens_in)


def _by_lane(rows: Iterable[Segment]) -> Counter[str | None]:
    found: Counter[str | None] = Counter()
    for row in rows:
        found[row.lane] += width(row)
    return found


# one place


class PlaceStatus(msgspec.Struct, frozen=True):
    """One place at one moment: how many tasks of it are claimed by whom, and when it opens if time has shut it."""

    place: Place
    running: Mapping[int, int]
    opens: int | None

    @property
    def taken(self) -> int:
        """How many are claimed."""
        return sum(self.running.values())

    @property
    def is_full(self) -> bool:
        """True if it has no room, whatever time it is."""
        most = self.place.limit.numbers.max_running
        return most is not None and self.taken >= most


def place_in_the_way(store: Store, row: Segment) -> PlaceStatus | None:
    """The place that keeps tasks of a row from starting: that of its line, or one that is full or shut."""
    reads, now = store.reads, store.now()
    limits = limits_in(reads)
    if not limits:
        return None
    in_line = None if row.line is None else limits.place_of(row.line)
    places = limits.places(row.kind, row.queue, row.lane) if in_line is None else [in_line]
    held: list[Segment] | None = None
    for place in places:
        if held is None:
            there = [process for process in reads.processes() if not process.reaped]
            held = [each for process in there for each in rows_of(reads, owner=process.id)]
        mine = (each for each in held if place.counts(each.kind, each.queue, each.lane))
        opening = read_opening(reads.value(OPENINGS, place.line), now)
        found = PlaceStatus(place, _holders(mine), opens_at(place.limit.numbers, opening, now))
        if found.is_full or found.opens is not None:
            return found
    return None


def place_in_words(found: PlaceStatus, processes: Sequence[Process], now: int) -> str:
    """Say why nothing starts at a place: "limit api is full (5 of 5), held by …" or "limit api opens in 12 s"."""
    limit = found.place.limit
    name = f"limit {limit.name}" + (f" in lane {found.place.lane}" if limit.limit.per_lane else "")
    if found.is_full:
        return f"{name} is full ({found.taken:,} of {limit.numbers.max_running:,}), {held_by(found.running, processes)}"
    assert found.opens is not None
    return f"{name} opens in {duration(max(0, found.opens - now) / SECOND)}"


def held_by(running: Mapping[int, int], processes: Sequence[Process]) -> str:
    """Name the processes that hold places of a limit, those with the most first."""
    known = {process.id: process for process in processes}
    most = sorted(running.items(), key=lambda each: -each[1])
    names = [
        (live.in_words(known[process]) if process in known else f"process {process:x}")
        + ("" if many == 1 else f" with {many:,}")
        for process, many in most[:_NAMED]
    ]
    more = len(most) - _NAMED
    return f"held by {', '.join(names)}" + (f" and {more:,} more" if more > 0 else "")


# words


def limit_in_words(limit: StoredLimit) -> str:
    """The numbers of a limit that hold."""
    words = [*numbers_in_words(limit.numbers), *(["per lane"] if limit.limit.per_lane else [])]
    return ", ".join(words)


def numbers_in_words(numbers: Numbers) -> Iterator[str]:
    """Numbers in words, if they bound anything."""
    if numbers.max_running is not None:
        yield f"at most {numbers.max_running:,} running"
    if numbers.pace is not None:
        yield f"at most {rate_in_words(numbers.pace)} starting"
    if numbers == Numbers():
        yield "no bound"


def rate_in_words(pace: Pace) -> str:
    """A rate as people write it: `100/m`, or `3/0.5s`."""
    seconds = pace.period / SECOND
    unit = _UNITS.get(int(seconds)) if seconds.is_integer() else None
    burst = f" and {pace.burst:,} at once" if pace.burst else ""
    return f"{pace.count}/{unit or f'{seconds:g}s'}{burst}"
