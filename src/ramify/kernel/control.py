"""What a handler may raise or yield to say more than a result: Defer, Fatal, Skip, Return."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)


class Defer(Exception):
    """Put this task back and call it again in `seconds`; no attempt is used up. People are shown the `reason`."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not math.isfinite(seconds)
            or seconds < 0
        ):
            raise ValueError(f"Defer({seconds!r}): give a finite number of seconds, 0 or more")
        super().__init__(seconds)
        self.seconds = float(seconds)
        self.reason = str(reason)


class Fatal(Exception):
    """Fail this task at once, whatever retries it has left."""


class Skip(Exception):
    """End this task as skipped: there is nothing to do for it. What waits for it is skipped too, as a rule."""


class Return(msgspec.Struct, Generic[R_co], frozen=True):
    """The result of an async generator, which cannot return one: `yield Return(value)` as its last word."""

    value: R_co
