"""Policies: the arithmetic of waiting and of starting. No clock and no randomness of its own: both are arguments.

Times are integer microseconds of the store's clock everywhere below the public API; durations in policies are seconds.
People give either seconds or a timedelta, wherever they give a length of time: `seconds_in` reads both.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

SECOND = 1_000_000
#: A level of priority is a head start of this many seconds, fixed when the task is added: nobody starves.
PRIORITY_SECONDS = 60
#: The due time of a task that waits for a person or for another run: live, never claimable by the clock.
PARKED = 2**62
LEVELS = range(-1000, 1001)
_RATE = re.compile(r"\s*(\d+)\s*/\s*(s|m|h|d|sec|second|min|minute|hour|day)\s*")
_PERIODS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
#: How long a row of single appends goes on growing.
TAIL_SECONDS = 5


#: A length of time as people give it: seconds, or a timedelta.
Duration = float | timedelta


def seconds_in(length: object) -> float | None:
    """Return a length of time in seconds; None for what is none."""
    if isinstance(length, timedelta):
        return length.total_seconds()
    if isinstance(length, bool) or not isinstance(length, int | float) or math.isnan(length):
        return None
    return float(length)


def microseconds_in(length: object) -> int | None:
    """Return a length of time as the store's clock counts it; None for what is none, is endless or less than none."""
    seconds = seconds_in(length)
    return round(seconds * SECOND) if seconds is not None and 0 <= seconds < math.inf else None


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off with full jitter: wait k is up to `first * factor ** (k - 1)`, at most `cap`.

    `first` and `cap` are seconds, or timedeltas.
    """

    first: Duration = 1.0
    factor: float = 2.0
    cap: Duration = 300.0
    jitter: bool = True

    def __post_init__(self) -> None:
        for name in ("first", "factor", "cap"):
            value = getattr(self, name)
            read = None if name == "factor" and isinstance(value, timedelta) else seconds_in(value)
            if read is None or not 0 <= read < math.inf:
                what = "a finite number" if name == "factor" else "seconds or a timedelta"
                raise ValueError(f"Backoff({name}={value!r}): give {what}, 0 or more")
        if self.factor < 1:
            raise ValueError(f"Backoff(factor={self.factor!r}): expected a factor of 1 or more")

    def longest(self, failures: int) -> float:
        """Return the longest wait after the given number of failed attempts (1 or more)."""
        if failures < 1:
            raise ValueError(f"back-off after {failures} failures: it is only asked for after a failed attempt")
        first, cap = seconds_in(self.first) or 0.0, seconds_in(self.cap) or 0.0
        try:
            return min(cap, first * self.factor ** (failures - 1))
        except OverflowError:
            # The power leaves the range of a float long before anyone stops retrying.
            return cap if first else 0.0

    def wait(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after `failures` failures; `chance` in [0, 1) places it under the ceiling."""
        longest = self.longest(failures)
        return longest * chance if self.jitter else longest


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of starts in a time: `Rate("50/s")`, `Rate("100/m")`, or `Rate((3, 0.5))` for three in half a second.

    At most `count + burst` tasks start in any period of `seconds`. Starts are spread evenly; with `burst=20`, up to 20
    more start at once after a pause.
    """

    of: str | tuple[int, Duration] = field(compare=False)
    burst: int = 0
    count: int = field(init=False, repr=False)
    seconds: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        what_to_give = 'Write "10/s", "100/m" or "5/h", or (count, seconds or a timedelta)'
        pair: object = self.of
        if isinstance(pair, str) and (found := _RATE.fullmatch(pair)):
            pair = int(found[1]), _PERIODS[found[2][0]]
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"Rate({self.of!r}): expected a number of starts in a time. {what_to_give}")
        count, seconds = pair
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"Rate({self.of!r}): expected a whole number of starts, 1 or more. {what_to_give}")
        length = seconds_in(seconds)
        if length is None or not 0 < length < math.inf:
            raise ValueError(f"Rate({self.of!r}): expected a finite time above 0. {what_to_give}")
        if isinstance(self.burst, bool) or not isinstance(self.burst, int) or self.burst < 0:
            raise ValueError(
                f"Rate({self.of!r}, burst={self.burst!r}): expected a whole number, 0 or more. Write burst=20"
            )
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "seconds", length)


def rank_of(added: int, priority: int) -> int:
    """The place in line of a task added at `added`: smaller first, fixed for good."""
    return added + priority * PRIORITY_SECONDS * SECOND


def deep_rank(opened: int, priority: int, round: int) -> int:
    """The place in line in a depth-first run: as if each round down had been added a second before its parent's."""
    return rank_of(opened, priority) - round * SECOND


def added_of(rank: int, priority: int, deep: int = 0) -> int:
    """When a task with that place in line was added; `deep` is its round in a depth-first run."""
    return rank - priority * PRIORITY_SECONDS * SECOND + deep * SECOND


def is_young(rank: int, now: int, priority: int) -> bool:
    """Return whether a row with that rank may still take a task added now: the rank must stay true for all of its
    tasks.
    """
    return rank_of(now, priority) - rank <= TAIL_SECONDS * SECOND


def due_bucket(now: int, wait: float) -> int:
    """The due time for a wait, rounded up to an eighth of it, so that many failures at once share few rows."""
    # A power of two, so that waits that differ a little, as those with jitter do, are rounded to the same moments.
    step = 1 << max(0, (int(wait * SECOND) // 8).bit_length() - 1)
    due = now + int(wait * SECOND)
    return -(-due // step) * step
