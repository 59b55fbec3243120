"""Waiting for a run: a thread sleeps on the store until there may be something new to read.

Promises: what is committed, here or in another process, ends the sleep, also when it came between two sleeps. What
broke the workers of this program is raised, because nobody might be left to end the run. However many threads wait
while others commit without pause, their reads take a small share of one core.

Does not know what is read, or what for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ramify.errors import ConfigError
from ramify.kernel.tuning import DEAF, LONGEST_READ_PAUSE, LONGEST_REST, READ_PAUSE
from ramify.model.policy import Duration, seconds_in

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


class Waiting:
    """One who waits, from before its first read on."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen = runtime.store.wait(0, 0)
        self._pause = 0.0

    def until(self, has_come: Callable[[], bool], timeout: Duration | None) -> bool:
        """Sleep until it has come, at most so long; whether it has."""
        seconds = float("inf") if timeout is None else seconds_in(timeout)
        if seconds is None:
            raise ConfigError(f"timeout={timeout!r}: expected seconds, a timedelta, or None to wait forever.")
        end = time.monotonic() + seconds
        while not self.read(has_come):
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.rest(min(left, LONGEST_REST))
        return True

    def read(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store; the next rest is no shorter than in proportion to how long that took."""
        began = time.monotonic()
        found = ask(*args, **kwargs)
        self._pause = min(READ_PAUSE * (time.monotonic() - began), LONGEST_READ_PAUSE)
        return found

    def rest(self, at_most: float) -> None:
        """Sleep until something may have changed since the last rest, at most so long."""
        end = time.monotonic() + at_most
        time.sleep(min(self._pause, at_most))
        longest = DEAF if current_thread() is main_thread() else at_most
        is_new = False
        while not is_new and (left := end - time.monotonic()) > 0:
            before, self._seen = self._seen, self._runtime.store.wait(min(left, longest), self._seen)
            is_new = self._seen != before
            for workers in tuple(self._runtime.workers):
                workers.check()
