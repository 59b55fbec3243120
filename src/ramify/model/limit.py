"""Limits of a whole store: how many tasks run at a time, how many start in a while, in all or per lane. Pure.

A limit is a value of the store, in a space of its own: its numbers, the kinds and queues that it covers, and those
numbers that a person has set instead. Every process keeps to it, known to its program or not. Its *places* are what it
counts by: one for all tasks that it covers, or one for each lane. How many of a place are taken is never written down:
it is how many tasks are claimed. Only what time decides is stored, as the place's *opening*: when starts are allowed
again.

A row that meets a place without room waits in its *line*, out of the indexes that claims read. Its head, the first row
of each kind and queue, is ready whenever there is room.

    a claim meets a full place          -> the row is LIMITED, in the line of that place
    a claim meets a place that is shut  -> the row is the line's head, due when the place opens; LIMITED behind a head
    a place of a full line is freed     -> the first row of each kind and queue is READY, as its head
    a head is taken, paused or ended    -> the next one follows, if there is room
    a limit is changed or removed       -> all rows of its lines are READY, and claims put back what must wait

Does not know where any of this is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from ramify.model.decoder import decoder
from ramify.model.policy import SECOND, Rate
from ramify.model.value import RESERVED, StoredValue

#: The spaces of limits and of openings among the values of a store.
LIMITS, OPENINGS = f"{RESERVED}limits", f"{RESERVED}openings"
#: Starts that were missed may be caught up on for so long, or this share of the time of a rate if that is less.
SLACK, SLACK_SHARE = SECOND // 10, 10
#: The most rows that a claim puts in line.
MOST_LIMITED = 1_000
#: The most places that are remembered: there may be one for each lane.
PLACES_KEPT = 65_536
#: Who is closed when a task says that a service throttles it: its lane, or the whole limit.
Closes = Literal["lane", "limit"]


class Pace(msgspec.Struct, frozen=True):
    """A rate as it is stored: `count` starts in `period` microseconds, and up to `burst` more at once after a pause."""

    count: int
    period: int
    burst: int = 0

    @classmethod
    def of(cls, rate: Rate) -> Pace:
        """The pace of a rate."""
        return cls(rate.count, round(rate.seconds * SECOND), rate.burst)

    @property
    def slack(self) -> int:
        """How long starts that were missed may be caught up on."""
        return min(SLACK, self.period // SLACK_SHARE)

    @property
    def ahead(self) -> int:
        """How far the time of the next start may lie ahead: as far as all that may start at once."""
        return self.burst * self.period // self.count + self.slack


class Numbers(msgspec.Struct, frozen=True):
    """The numbers of a limit; None where it does not bound."""

    max_running: int | None = None
    pace: Pace | None = None


class Limit(msgspec.Struct, frozen=True):
    """A limit as a program declares it: with those of its kinds and queues that it covers."""

    name: str
    numbers: Numbers
    per_lane: bool = False
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


class SetLimit(msgspec.Struct, frozen=True):
    """Numbers that a person has set in the place of those that programs declare."""

    numbers: Numbers
    by: str
    reason: str
    at: int


class StoredLimit(msgspec.Struct, frozen=True):
    """A limit as it is stored, with the version of the program that declared it last."""

    limit: Limit
    by: str = ""
    at: int = 0
    fixed: SetLimit | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.limit.name

    @property
    def numbers(self) -> Numbers:
        """The numbers that hold."""
        return self.limit.numbers if self.fixed is None else self.fixed.numbers


class Opening(msgspec.Struct, frozen=True, array_like=True):
    """The times of a place: when its `next` start would be on time by a pace, and until when it is `closed`."""

    next: int = 0
    closed: int = 0
    count: int = 0
    period: int = 0

    def next_by(self, pace: Pace) -> int:
        """When the next start would be on time: at once by another pace than that which was kept so far."""
        return self.next if (self.count, self.period) == (pace.count, pace.period) else 0


class Place(NamedTuple):
    """The unit that a limit counts by: all that it covers, or one lane of that. Tasks without a lane share one."""

    limit: StoredLimit
    lane: str | None
    line: str  #: the name of its line, and of its opening

    def counts(self, kind: str, queue: str, lane: str | None) -> bool:
        """Return whether a task takes it when it is claimed."""
        limit = self.limit.limit
        return (kind in limit.kinds or queue in limit.queues) and (not limit.per_lane or lane == self.lane)


def line_of(limit: str, *lane: str | None) -> str:
    """The name of the line of a limit, or of one of its lanes. Those of one limit lie together: see `lines_of`."""
    return msgspec.json.encode([limit, *lane]).decode()


def lines_of(limit: str) -> tuple[str, str]:
    """The bounds between which the names of all lines of a limit lie, and of no other."""
    begin = line_of(limit)[:-1]
    return f"{begin},", f"{begin}]"


def limit_of_line(line: str) -> tuple[str, str | None]:
    """The name of the limit of a line, and the lane if it is that of one."""
    name, *lane = msgspec.json.decode(line)
    return name, lane[0] if lane else None


class Limits:
    """All limits of a store, as they were loaded."""

    def __init__(self, stored: Iterable[StoredLimit] = ()) -> None:
        self.by_name: Mapping[str, StoredLimit] = {each.name: each for each in stored}
        self._over: dict[tuple[str, str], Sequence[StoredLimit]] = {}
        self._places: dict[tuple[str, str, str | None], Sequence[Place]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def over(self, kind: str, queue: str) -> Sequence[StoredLimit]:
        """The limits of tasks of a kind and queue: those of lanes first, then by name."""
        found = self._over.get((kind, queue))
        if found is None:
            mine = (one for one in self.by_name.values() if kind in one.limit.kinds or queue in one.limit.queues)
            found = self._over[kind, queue] = sorted(mine, key=lambda one: (not one.limit.per_lane, one.name))
        return found

    def places(self, kind: str, queue: str, lane: str | None) -> Sequence[Place]:
        """The places that a task takes when it is claimed."""
        what = kind, queue, lane
        found = self._places.get(what)
        if found is None:
            if len(self._places) >= PLACES_KEPT:
                self._places.clear()
            found = self._places[what] = [_place(one, lane) for one in self.over(kind, queue)]
        return found

    def place_of(self, line: str) -> Place | None:
        """The place of a line; None if its limit is gone."""
        name, lane = limit_of_line(line)
        limit = self.by_name.get(name)
        return None if limit is None else Place(limit, lane, line)

    def is_per_lane(self, kind: str, queue: str) -> bool:
        """Return whether rows of a kind and queue hold one lane each."""
        return any(one.limit.per_lane for one in self.over(kind, queue))


def _place(limit: StoredLimit, lane: str | None) -> Place:
    if limit.limit.per_lane:
        return Place(limit, lane, line_of(limit.name, lane))
    return Place(limit, None, line_of(limit.name))


NO_LIMITS = Limits()
read_limit, _read_opening = decoder(StoredLimit).decode, decoder(Opening).decode


@lru_cache(maxsize=8)
def read_limits(values: tuple[bytes, ...]) -> Limits:
    """Limits as they are stored; the same values are read once."""
    return Limits(map(read_limit, values)) if values else NO_LIMITS


def write_limit(limit: StoredLimit) -> bytes:
    """The inverse, for one of them."""
    return msgspec.json.encode(limit)


def read_opening(value: StoredValue | None, now: int) -> Opening:
    """An opening as it is stored; one that has expired says as much as none."""
    return Opening() if value is None or not value.is_live(now) else _read_opening(value.value)


def write_opening(line: str, opening: Opening) -> StoredValue:
    """The inverse; it expires when it says nothing any more. Nobody compares its version."""
    return StoredValue(OPENINGS, line, msgspec.json.encode(opening), 0, max(opening.next, opening.closed))


# arithmetic


def admits(numbers: Numbers, running: int, opening: Opening, wanted: int, now: int) -> int:
    """How many of `wanted` tasks may start at a place of which `running` tasks are claimed."""
    if now < opening.closed:
        return 0
    if numbers.max_running is not None:
        wanted = min(wanted, numbers.max_running - running)
    if numbers.pace is not None:
        wanted = min(wanted, _on_time(numbers.pace, opening, now))
    return max(0, wanted)


def _on_time(pace: Pace, opening: Opening, now: int) -> int:
    """How many starts are on time by now: the next one may be as far ahead as those that may start at once."""
    room = now + pace.ahead - max(now, opening.next_by(pace))
    return 0 if room < 0 else room * pace.count // pace.period + 1


def is_full(numbers: Numbers, running: int) -> bool:
    """Return whether a place has no room, whatever time it is."""
    return numbers.max_running is not None and running >= numbers.max_running


def opens_at(numbers: Numbers, opening: Opening, now: int) -> int | None:
    """When a place that is shut opens; None if it is open. Many starts a second are let in some at a time."""
    at = opening.closed if now < opening.closed else now
    if numbers.pace is not None and not _on_time(numbers.pace, opening, at):
        at = max(at + numbers.pace.slack // 2, opening.next_by(numbers.pace) - numbers.pace.ahead)
    return at if at > now else None


def started(pace: Pace, opening: Opening, many: int, now: int) -> Opening:
    """The opening of a place after so many starts."""
    begin = max(now, opening.next_by(pace))
    return Opening(begin + -(-many * pace.period // pace.count), opening.closed, pace.count, pace.period)


def closed_until(opening: Opening, until: int) -> Opening:
    """The opening of a place that is closed; the later one of two holds."""
    return msgspec.structs.replace(opening, closed=max(opening.closed, until))


# declarations


def declared(
    stored: Mapping[str, StoredLimit], limits: Collection[Limit], knows: Collection[str], by: str, now: int
) -> dict[str, StoredLimit | None]:
    """The limits that a program changes when it starts, by name; None for one that covers nothing any more.

    Its numbers hold from now on. Of kinds it decides about those that it `knows`; kinds and queues of other programs
    stay covered, and limits of which it knows nothing stay as they are.
    """
    changed: dict[str, StoredLimit | None] = {}
    mine = {limit.name: limit for limit in limits}
    for name, old in stored.items():
        new = mine.pop(name, None)
        others = tuple(kind for kind in old.limit.kinds if kind not in knows)
        if new is None:
            kept = msgspec.structs.replace(old.limit, kinds=others)
        else:
            queues = (*(queue for queue in old.limit.queues if queue not in new.queues), *new.queues)
            kept = msgspec.structs.replace(
                new, kinds=tuple(sorted({*others, *new.kinds})), queues=tuple(sorted(queues))
            )
        if not kept.kinds and not kept.queues:
            changed[name] = None
        elif kept != old.limit:
            changed[name] = StoredLimit(kept, by, now, old.fixed)
    changed.update((name, StoredLimit(limit, by, now)) for name, limit in mine.items() if limit.kinds or limit.queues)
    return changed
