"""Cron expressions: five fields or an @name, checked with errors that name the field, and walked as local times.

The fields are minute, hour, day of the month, month and day of the week, as in crontab: numbers, names (mon, jan),
ranges (mon-fri), lists (0,30) and steps (*/15). Sunday is 0 and 7. Beyond crontab, `L` is the last day of the month,
`LW` its last weekday, `mon#1` its first Monday and `5L` its last Friday. When both the day of the month and the day of
the week are given, and neither begins with `*`, a day needs to match only one of them, again as in crontab.

Six fields are refused: the sixth means seconds in some tools and years in others.

Deliberately absent: time zones (`wall.py`). cronsim is used for its parser and for its walk over local times only. Its
own treatment of zones loses slots where the clock moves by half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

from ramify.errors import ConfigError

#: Names for common expressions, as in crontab.
NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = (
    ("minute", "0 to 59", "a range such as 0-30, a list such as 0,30, a step such as */15"),
    ("hour", "0 to 23", "a range such as 9-17, a list such as 6,18, a step such as */2"),
    (
        "day of the month",
        "1 to 31, L (the last day) or LW (the last weekday)",
        "a range such as 1-7, a list such as 1,15, a step such as */2",
    ),
    ("month", "1 to 12 or jan to dec", "a range such as jan-mar, a list such as mar,sep, a step such as */3"),
    (
        "day of the week",
        "0 to 7 (0 and 7 are Sunday) or sun to sat",
        "a range such as mon-fri, a list such as sat,sun, mon#1 (the first Monday), 5L (the last Friday)",
    ),
)
#: Every date pattern that the calendar has comes within 40 years of any day; cronsim looks 50 years ahead.
_ANY_DAY = datetime(2000, 1, 1)
_TICK = timedelta(seconds=1)


def checked(cron: object) -> str:
    """Return an expression with single spaces, or refuse it with what to write."""
    if not isinstance(cron, str):
        raise ConfigError(
            f"cron={cron!r}: expected an expression as text, got {type(cron).__name__}. "
            'Write five fields such as "0 6 * * mon-fri".'
        )
    spelled = " ".join(cron.split())
    fields = _fields(spelled)
    for place, text in enumerate(fields):
        _check_field(spelled, place, text)
    try:
        next(CronSim(" ".join(fields), _ANY_DAY))
    except (CronSimError, StopIteration):
        raise ConfigError(
            f"cron {spelled!r}: never comes, because no date matches its day of the month, month and day of the week. "
            "Write a day that exists in these months, or L for the last day of the month."
        ) from None
    return spelled


def follows_the_clock(cron: str) -> bool:
    """Return whether slots lie wherever the clock shows a matching time, because the minute or the hour begins with
    `*`.

    Other expressions name fixed times, each of which comes once a day.
    """
    minute, hour = _fields(cron)[:2]
    return minute.startswith("*") or hour.startswith("*")


def local_times(cron: str, start: datetime, *, forward: bool) -> Iterator[datetime]:
    """Yield the times without a zone that match, from `start` (included if it matches) up or down."""
    # cronsim never gives the time that it starts from.
    start = start - _TICK if forward else start + _TICK
    walk = CronSim(" ".join(_fields(cron)), start, reverse=not forward)
    while True:
        try:
            found = next(walk)
        except (StopIteration, OverflowError):  # the calendar of datetime ends with the year 9999
            return
        yield found


def _fields(cron: str) -> list[str]:
    if cron.startswith("@"):
        if cron.lower() not in NAMES:
            raise ConfigError(f"cron {cron!r}: unknown name. Write one of {', '.join(NAMES)}, or five fields.")
        cron = NAMES[cron.lower()]
    fields = cron.split()
    if len(fields) != len(_FIELDS):
        meant = "minute, hour, day of the month, month, day of the week"
        advice = (
            "Leave out the field of seconds or years; for several slots a minute write every=timedelta(seconds=15)."
            if len(fields) > len(_FIELDS)
            else f'Write "0 6 * * mon-fri", or one of {", ".join(NAMES)}.'
        )
        raise ConfigError(f"cron {cron!r}: expected five fields ({meant}), got {len(fields)}. {advice}")
    return fields


def _check_field(cron: str, place: int, text: str) -> None:
    """Refuse a field that cannot stand at its place, whatever the others are."""
    alone = ["*"] * len(_FIELDS)
    alone[place] = text
    try:
        CronSim(" ".join(alone), _ANY_DAY)
    except (CronSimError, ValueError):  # a ValueError: int() refuses thousands of digits
        name, allowed, forms = _FIELDS[place]
        raise ConfigError(
            f"cron {cron!r}: the {name} must be {allowed}, got {text!r}. Write a single value, {forms}, or *."
        ) from None
