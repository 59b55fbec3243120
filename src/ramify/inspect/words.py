"""Numbers, times and durations the way people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MEGA = 1_000_000


def number(count: float) -> str:
    """A count with separators: 1,111,111."""
    return f"{count:,.0f}"


def rate(per_second: float | None) -> str:
    """A rate: 12/s, 0.3/s, or a question mark when it is not known."""
    if per_second is None:
        return "?"
    return f"{per_second:,.0f}/s" if per_second >= 10 or per_second == 0 else f"{per_second:,.1f}/s"


def duration(seconds: float) -> str:
    """A length of time in its two largest units: 4 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = int(seconds)
    if left < 60:
        return f"{left} s"
    if left < 3600:
        return f"{left // 60} min {left % 60} s"
    if left < 86_400:
        return f"{left // 3600} h {left % 3600 // 60} min"
    return f"{left // 86_400} d {left % 86_400 // 3600} h"


def took(microseconds: int) -> str:
    """How long an attempt was: 12 ms, and from a tenth of a second on as any length of time."""
    return f"{microseconds / 1_000:.0f} ms" if microseconds < SECOND // 10 else duration(microseconds / SECOND)


def moment(microseconds: int) -> str:
    """A time of the store's clock as local time, to the second."""
    return datetime.fromtimestamp(microseconds / SECOND).strftime("%Y-%m-%d %H:%M:%S")


def instant(microseconds: int) -> datetime:
    """A time of the store's clock as a datetime, UTC."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)


def stamp(microseconds: int | None) -> str | None:
    """A time of the store's clock for programs: ISO 8601, UTC."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds / SECOND, UTC).isoformat().replace("+00:00", "Z")


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
