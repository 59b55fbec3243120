"""Slots: the times of a schedule, as the tasks that it starts see them. They travel as a header."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: The header by which tasks know the slot that started them.
SLOT = "ramify-slot"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Slot:
    """One time of a schedule, with its neighbours, as aware datetimes in the schedule's zone.

    A daily job that processes the day before works from `previous` up to `at`. The first slot has no `previous`, the
    last has no `next`.
    """

    at: datetime
    previous: datetime | None
    next: datetime | None


def write_slot(slot: Slot, zone: str) -> str:
    """Return a slot as the text of a header."""
    moments = (_NONE if each is None else str(_moment(each)) for each in (slot.at, slot.previous, slot.next))
    return " ".join((*moments, zone))


def read_slot(text: str) -> Slot:
    """Return the slot that a header names; in UTC where this machine does not know the zone."""
    at, previous, following, name = text.split(" ", 3)
    zone: tzinfo = UTC
    if name != "UTC":
        with suppress(ZoneInfoNotFoundError):
            zone = ZoneInfo(name)
    neighbours = (None if each == _NONE else _datetime(each, zone) for each in (previous, following))
    return Slot(_datetime(at, zone), *neighbours)


def _moment(when: datetime) -> int:
    return (when.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _datetime(moment: str, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=int(moment))).astimezone(zone)
