"""Declarations: what a program says of a schedule, as its tasks carry it along.

The tasks of a schedule hold the declaration by which they were made, so that any worker that knows the schedule can go
on with it, whichever version of the program it runs. Of two declarations that differ, the one of the program that was
started or reloaded later counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec

from ramify.errors import ConfigError
from ramify.model.digest import digest_of
from ramify.model.policy import SECOND, Duration, microseconds_in
from ramify.model.task import OWN, name_given
from ramify.shapes.cron.timetable import Timetable

CatchUp = Literal["latest", "all", "none"]
Overlap = Literal["skip", "queue", "allow", "cancel"]

#: How the names of the runs begin that schedules are, and that they start.
CRON = "cron/"
#: How long the runs that a schedule starts, and what it did itself, are kept, in microseconds.
KEEP = 30 * 86_400 * SECOND
#: A slot that begins later than this is missed, to a schedule that does not catch up, in microseconds.
PUNCTUAL = 60 * SECOND
#: How many slots are caught up with at most, unless somebody says otherwise.
MOST_CAUGHT_UP = 100
_LONGEST_NAME = 200


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule as it is stored: its times, its options, and who declared it. Lengths of time are microseconds.

    `since` is when the program that declares it was started or reloaded, `by` where that is.
    """

    name: str
    times: Timetable
    catch_up: CatchUp = "latest"
    max_catch_up: int = MOST_CAUGHT_UP
    overlap: Overlap = "skip"
    jitter: int = 0
    late_after: int | None = None
    keep: int = KEEP
    queue: str = "default"
    since: int = 0
    by: str = ""

    @property
    def digest(self) -> bytes:
        """A digest that tells this declaration from others, whoever makes it."""
        bare = msgspec.structs.replace(self, since=0, by="")
        return digest_of(msgspec.json.encode(bare), 8)

    def offset(self, slot: int) -> int:
        """By how much a slot is put off: the same in every process, and spread over schedules and slots."""
        if not self.jitter:
            return 0
        drawn = digest_of(f"{self.name}/{slot}".encode(), 8)
        return int.from_bytes(drawn, "big") % (self.jitter + 1)

    def due(self, slot: int) -> int:
        """When a slot is to begin."""
        return slot + self.offset(slot)

    def chosen(self, after: int, last: int, now: int) -> Sequence[int]:
        """Return those of the slots after a moment, up to the `last` one that has come, that are started now."""
        match self.catch_up:
            case "latest":
                return [last]
            case "none":
                return [last] if now - self.due(last) <= PUNCTUAL else []
            case "all":
                found: list[int] = []
                at: int | None = last
                while at is not None and at > after and len(found) < self.max_catch_up:
                    found.append(at)
                    at = self.times.before(at)
                return found[::-1]


def declaration_of(name: str, times: Timetable, queue: str, options: dict[str, Any]) -> Declaration:
    """Return what people declare; ConfigError says what is wrong with it."""
    name_given("schedule", name)
    if "/" in name or "#" in name or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"schedule {name!r}: expected a printable name without / and #, of at most {_LONGEST_NAME} characters. "
            'Write name="nightly-report".'
        )
    chosen: dict[str, Any] = {}
    for option, allowed in (("catch_up", get_args(CatchUp)), ("overlap", get_args(Overlap))):
        value = options.pop(option)
        if value not in allowed:
            raise ConfigError(
                f"schedule {name!r}: {option}={value!r}: expected one of {', '.join(map(repr, allowed))}."
            )
        chosen[option] = value
    if chosen["catch_up"] == "all" and chosen["overlap"] == "skip":
        raise ConfigError(
            f"schedule {name!r}: catch_up='all' starts missed slots together, and overlap='skip' would skip most of "
            "them. Write overlap='queue' or overlap='allow'."
        )
    most = options.pop("max_catch_up")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigError(f"schedule {name!r}: max_catch_up={most!r}: expected a number of slots, 1 or more.")
    for option in ("jitter", "late_after", "keep"):
        length = _length(name, option, options.pop(option))
        if length is not None:
            chosen[option] = length
    assert not options, options
    return Declaration(name, times, max_catch_up=most, queue=queue, **chosen)


def _length(name: str, option: str, given: Duration | None) -> int | None:
    if given is None:
        return None
    length = microseconds_in(given)
    if length is None:
        raise ConfigError(
            f"schedule {name!r}: {option}={given!r}: expected seconds or a timedelta, 0 or more. "
            f"Write {option}=timedelta(minutes=5)."
        )
    return length


def run_name(name: str) -> str:
    """The name of the run that a schedule is."""
    return CRON + name


def clock_kind(name: str) -> str:
    """The kind of the one task that waits for the next slot of a schedule."""
    return f"{OWN}cron {name}"


def slot_kind(name: str) -> str:
    """The kind of the tasks that start its slots."""
    return f"{OWN}slot {name}"


def late_kind(name: str) -> str:
    """The kind of the tasks that look whether a slot is late."""
    return f"{OWN}late {name}"


def kinds_of(name: str) -> tuple[str, str, str]:
    """The kinds of all its tasks."""
    return clock_kind(name), slot_kind(name), late_kind(name)


def schedule_of(kind: str) -> str | None:
    """The schedule whose tasks are of a kind; None for other kinds."""
    name = kind.partition(" ")[2]
    return name if name and kind in kinds_of(name) else None
