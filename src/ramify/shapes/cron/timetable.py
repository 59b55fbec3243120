"""Timetables: the times of a schedule, as a value. Every process computes the same slots from it, and stores none.

A slot is a time at which a schedule starts something, in microseconds since the epoch. Cron expressions are read on the
wall clock of the timetable's zone (`expression.py`, `wall.py`). Intervals are counted in real time from `start`, or
from the epoch without it, so that daylight saving does not move them.

`after` and `before` agree: each slot is found from both sides. The zone's rules come from the machine, or from tzdata
where it has none; machines with different rules compute different slots.

Deliberately absent: a clock. Whether a slot is late, missed or already started is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from ramify.errors import ConfigError
from ramify.model.policy import SECOND, Duration, microseconds_in
from ramify.model.slot import Slot
from ramify.shapes.cron import expression, wall

#: Timetables have no slots outside of these moments: datetimes end with the year 9999.
_FIRST = wall.moment_of(datetime(1, 1, 3, tzinfo=UTC))
_LAST = wall.moment_of(datetime(9999, 12, 29, tzinfo=UTC))


class Timetable(msgspec.Struct, frozen=True, omit_defaults=True):
    """The times of a schedule: a cron expression or an interval, in a zone, perhaps with a beginning and an end.

    `of` checks what people write. The fields are what a store keeps: `cron` has five fields or is an @name, as written;
    `every`, `start` and `end` are microseconds. Either `cron` or `every` is set.
    """

    cron: str = ""
    every: int = 0
    tz: str = "UTC"
    #: No slot lies before `start` or after `end`; both may be slots.
    start: int | None = None
    end: int | None = None

    @classmethod
    def of(
        cls,
        cron: str | None = None,
        *,
        every: Duration | None = None,
        tz: str | tzinfo = "UTC",
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Timetable:
        """Return the timetable that people describe, or refuse it with what to write."""
        if (cron is None) == (every is None):
            given = "neither" if cron is None else "both"
            raise ConfigError(
                f"schedule: expected either cron= or every=, got {given}. "
                'Write cron="0 6 * * mon-fri" or every=timedelta(minutes=10).'
            )
        name = _zone_name(tz)
        wall.zone_named(name)
        table = cls(
            cron="" if cron is None else expression.checked(cron),
            every=0 if every is None else _interval(every),
            tz=name,
            start=_moment("start", start),
            end=_moment("end", end),
        )
        if table.start is not None and table.end is not None:
            if table.end < table.start:
                raise ConfigError(f"end={end}: expected a time after start={start}. Write a later end.")
            if table.after(table.start - 1) is None:
                raise ConfigError(f"schedule {table}: no slot lies between start and end. Write a later end.")
        return table

    def after(self, moment: int) -> int | None:
        """Return the first slot strictly after a moment, or None if there is none."""
        return next(self._slots(moment, forward=True), None)

    def before(self, moment: int) -> int | None:
        """Return the last slot strictly before a moment, or None if there is none."""
        return next(self._slots(moment, forward=False), None)

    def between(self, low: int, high: int) -> Iterator[int]:
        """Yield the slots after `low` up to and including `high`, rising, each computed when it is asked for."""
        for slot in self._slots(low, forward=True):
            if slot > high:
                return
            yield slot

    def slot(self, moment: int) -> Slot:
        """Return a moment with the slots around it."""
        previous, following = self.before(moment), self.after(moment)
        return Slot(
            at=self.datetime_of(moment),
            previous=None if previous is None else self.datetime_of(previous),
            next=None if following is None else self.datetime_of(following),
        )

    def datetime_of(self, moment: int) -> datetime:
        """Return a moment as an aware datetime in the zone of the timetable."""
        return wall.datetime_in(wall.zone_named(self.tz), moment)

    def __str__(self) -> str:
        times = self.cron or f"every {timedelta(microseconds=self.every)}"
        start = "" if self.start is None else f" from {self.datetime_of(self.start).isoformat(' ')}"
        end = "" if self.end is None else f" until {self.datetime_of(self.end).isoformat(' ')}"
        return f"{times} {self.tz}{start}{end}"

    def _slots(self, moment: int, *, forward: bool) -> Iterator[int]:
        """Yield the slots after a moment, rising, or those before it, falling."""
        first = _FIRST if self.start is None else max(self.start, _FIRST)
        last = _LAST if self.end is None else min(self.end, _LAST)
        moment = max(moment, first - 1) if forward else min(moment, last + 1)
        if moment > last if forward else moment < first:
            return
        found = (
            wall.slots(self.cron, wall.zone_named(self.tz), moment, forward=forward)
            if self.cron
            else self._intervals(moment, forward=forward)
        )
        for slot in found:
            if not first <= slot <= last:
                return
            yield slot

    def _intervals(self, moment: int, *, forward: bool) -> Iterator[int]:
        origin = self.start or 0
        count = (moment - origin) // self.every + 1 if forward else (moment - 1 - origin) // self.every
        while True:
            yield origin + count * self.every
            count += 1 if forward else -1


def _zone_name(tz: object) -> str:
    match tz:
        case str():
            return tz
        case ZoneInfo(key=str(name)):
            return name
        case _ if tz is UTC:
            return "UTC"
        case _:
            raise ConfigError(
                f"tz={tz!r}: expected an IANA name or a ZoneInfo with a name, got {type(tz).__name__}. "
                'Write tz="Europe/Berlin".'
            )


def _interval(every: object) -> int:
    length = microseconds_in(every)
    if length is None or length < SECOND:
        raise ConfigError(
            f"every={every!r}: expected seconds or a timedelta, 1 second or more. Write every=timedelta(minutes=10)."
        )
    return length


def _moment(option: str, when: object) -> int | None:
    if when is None:
        return None
    if not isinstance(when, datetime):
        raise ConfigError(
            f"{option}={when!r}: expected a datetime with a time zone, got {type(when).__name__}. "
            f"Write {option}=datetime(2026, 1, 31, tzinfo=UTC)."
        )
    if when.utcoffset() is None:
        raise ConfigError(
            f"{option}={when!r}: expected a datetime with a time zone, got one without. "
            f'Write {option}=datetime(..., tzinfo=ZoneInfo("Europe/Berlin")), or tzinfo=UTC.'
        )
    return wall.moment_of(when)
