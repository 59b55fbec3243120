"""Wall clocks: which moments a local time stands for, where the clock of a zone skips or repeats an hour.

The rules are those of Debian's cron, applied to changes of any length. A fixed time (`at_fixed_time`) comes once: the
first time in a repeated hour, and right after the gap if it is skipped. A time that follows the clock (`by_the_clock`)
comes whenever the clock shows it: twice in a repeated hour, never in a skipped one.

Moments are microseconds since the epoch. Local times are datetimes without a zone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from ramify.errors import ConfigError
from ramify.shapes.cron.expression import follows_the_clock, local_times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: No clock was ever turned back by more than this, and none changed twice within it since 1970.
_LONGEST_REPEAT = timedelta(hours=25)
_EPOCH_WITHOUT_ZONE = EPOCH.replace(tzinfo=None)
_MICROSECOND = timedelta(microseconds=1)
#: Names that exist on some machines only, or that count leap seconds.
_NOT_PORTABLE = ("localtime", "posix/", "right/", "posixrules", "Factory")


def zone_named(name: str) -> tzinfo:
    """Return the zone with an IANA name, or refuse the name with those that look like it."""
    if name == "UTC":
        return UTC
    try:
        if not name or name.startswith(_NOT_PORTABLE):
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(f"tz={name!r}: unknown time zone. Write {_alike(name)}.") from None


def moment_of(when: datetime) -> int:
    """Return an aware datetime as a moment, exactly."""
    return (when - EPOCH) // _MICROSECOND


def datetime_in(zone: tzinfo, moment: int) -> datetime:
    """Return a moment as an aware datetime of the zone."""
    return (EPOCH + timedelta(microseconds=moment)).astimezone(zone)


def slots(cron: str, zone: tzinfo, moment: int, *, forward: bool) -> Iterator[int]:
    """Yield the slots of an expression strictly after a moment, rising, or strictly before it, falling."""
    moments_at = by_the_clock if follows_the_clock(cron) else at_fixed_time
    return _in_order(moments_at, cron, zone, moment, 1 if forward else -1)


def at_fixed_time(local: datetime, zone: tzinfo) -> tuple[int, ...]:
    """Return the one moment of a local time: its first, or the end of the gap that skips it."""
    first, second = _both(local, zone)
    return (first if first <= second else _end_of_gap(second, first, zone),)


def by_the_clock(local: datetime, zone: tzinfo) -> tuple[int, ...]:
    """Return the moments at which the clock shows a local time: one, two in a repeated hour, none in a skipped one."""
    first, second = _both(local, zone)
    if first == second:
        return (first,)
    return (first, second) if first < second else ()


def _in_order(
    moments_at: Callable[[datetime, tzinfo], tuple[int, ...]], cron: str, zone: tzinfo, moment: int, sign: int
) -> Iterator[int]:
    """Walk local times in one direction, and put second moments of a repeated hour where they belong."""
    reached = moment
    repeats: deque[int] = deque()
    for local in local_times(cron, _start(zone, moment, sign), forward=sign > 0):
        moments = moments_at(local, zone)[::sign]
        for near in moments[:1]:
            while repeats and (near - repeats[0]) * sign > 0:
                reached = repeats.popleft()
                yield reached
            if (near - reached) * sign > 0:
                reached = near
                yield near
        repeats.extend(far for far in moments[1:] if (far - moment) * sign > 0)
    yield from repeats


def _start(zone: tzinfo, moment: int, sign: int) -> datetime:
    """Return the local time to start from: the earliest (or, going back, the latest) that is still to come.

    The local time of the moment itself, unless the clock is about to be turned back over it.
    """
    here = EPOCH + timedelta(microseconds=moment)
    beyond = here + sign * _LONGEST_REPEAT
    local = here.astimezone(zone).replace(tzinfo=None, fold=0)
    again = beyond.astimezone(zone).replace(tzinfo=None, fold=0) - sign * _LONGEST_REPEAT
    return min(local, again) if sign > 0 else max(local, again)


def _both(local: datetime, zone: tzinfo) -> tuple[int, int]:
    """Return a local time by the offset before and after a change of the clock: equal if there is none near.

    In a repeated hour the first is the smaller one; in a skipped hour it is the larger one, and neither is real.
    """
    shown = (local - _EPOCH_WITHOUT_ZONE) // _MICROSECOND
    if zone is UTC:
        return shown, shown
    before = local.replace(tzinfo=zone).utcoffset()
    after = local.replace(tzinfo=zone, fold=1).utcoffset()
    assert before is not None
    assert after is not None
    return shown - before // _MICROSECOND, shown - after // _MICROSECOND


def _end_of_gap(low: int, high: int, zone: tzinfo) -> int:
    """Return the moment in (low, high] at which the clock of the zone changed."""
    before = datetime_in(zone, low).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime_in(zone, middle).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def _alike(name: str) -> str:
    from difflib import get_close_matches

    known = {zone.lower(): zone for zone in available_timezones()}
    cities = {zone.rpartition("/")[2]: zone for zone in known}
    close = get_close_matches(name.lower(), known, n=2) or [
        cities[city] for city in get_close_matches(name.lower().replace(" ", "_"), cities, n=2)
    ]
    return " or ".join(repr(known[zone]) for zone in close) or "an IANA name such as 'Europe/Berlin', or 'UTC'"
