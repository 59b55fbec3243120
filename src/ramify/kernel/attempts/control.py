"""Exceptions and values by which a handler says more than a result: Defer, Fatal, Skip, TaskCancelled, Return."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

import msgspec

from ramify.model.limit import Closes
from ramify.model.policy import Duration, seconds_in

R_co = TypeVar("R_co", covariant=True)


class Defer(Exception):
    """Put this task back, and call it again after some seconds or a timedelta. No attempt is used up. `reason` is shown
    to people.

    With `closes="lane"` or `closes="limit"` nothing starts until then, in any process, that the limit of this task
    covers: in its lane, or in all. For services that throttle.
    """

    #: The run whose end calls the task before that.
    _awaits: int | None = None

    def __init__(self, seconds: Duration, reason: str = "", *, closes: Closes | None = None) -> None:
        read = seconds_in(seconds)
        if read is None or not 0 <= read < math.inf:
            raise ValueError(f"Defer({seconds!r}): expected a finite number of seconds or a timedelta, 0 or more.")
        if closes not in (None, "lane", "limit"):
            raise ValueError(f'Defer(closes={closes!r}): expected "lane" or "limit", or nothing. Write closes="lane".')
        super().__init__(read)
        self.closes: Closes | None = closes
        self.seconds = read
        self.reason = str(reason)


class Await(Defer):
    """Put this task back until a run has ended, and call it again in `seconds` at the latest. For tasks of ours."""

    def __init__(self, run: int | None, seconds: float, reason: str) -> None:
        super().__init__(seconds, reason)
        self._awaits = run


class Fatal(Exception):
    """Fail this task at once, without retries."""


class Skip(Exception):
    """End this task as skipped: it has nothing to do. Nodes that depend on it are skipped too, by default."""


class TaskCancelled(BaseException):
    """End this attempt because nobody wants its result any more; `current().stop_if_cancelled()` raises it.

    No `Exception`, so that a handler which survives its own errors does not take it for one.
    """


class Return(msgspec.Struct, Generic[R_co], frozen=True):
    """The result of an async generator, which cannot return one: `yield Return(value)` as its last statement."""

    value: R_co
