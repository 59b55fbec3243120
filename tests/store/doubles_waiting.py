"""Broken doubles of `wait` and `wake`. See `doubles.py`."""

from __future__ import annotations

from typing import Any

from ramify.model.run import Started
from ramify.model.segment import SegmentState
from ramify.store.memory import MemoryStore
from tests.store.doubles import caught_by


@caught_by("wait: wait does nothing but wait")
class WaitGivesUp(MemoryStore):
    """Puts claims back while it waits."""

    def wait(self, seconds: float, seen: int) -> int:
        for row in self._tables.tokens.values():
            row.state, row.owner = SegmentState.READY, None
        return super().wait(seconds, seen)


@caught_by("wait: all who wait at once hear of a change", "wake: wake ends the waits in progress")
class TellsOne(MemoryStore):
    """Lets one of the threads that wait have the news."""

    def wait(self, seconds: float, seen: int) -> int:
        found = super().wait(seconds, seen)
        with self._tables.lock:
            told = getattr(self, "_told", 0)
            self._told = max(told, found)
        return found if found > told or not seen else seen


@caught_by("wait: wait ends when another thread writes")
class DeafToItself(MemoryStore):
    """Takes what it writes itself for nothing new."""

    def start(self, *args: Any, **kwargs: Any) -> Started:
        with self._tables.lock:
            before = self._tables.version
            answer = super().start(*args, **kwargs)
            self._calls -= self._tables.version - before
            return answer

    def wait(self, seconds: float, seen: int) -> int:
        return super().wait(min(seconds, 0.01), seen)


@caught_by("wait: a change between two waits is not missed")
class RemembersForAll(MemoryStore):
    """Takes what one thread has seen for seen by all."""

    def wait(self, seconds: float, seen: int) -> int:
        last = getattr(self, "_last", 0) if seen else 0
        self._last = super().wait(min(seconds, 0.01), last)
        return seen if self._last == last else self._last


@caught_by("wake: a wake just before the wait is not lost")
class ForgetsWakes(MemoryStore):
    """Only wakes those who sleep already."""

    def wait(self, seconds: float, seen: int) -> int:
        self._calls = 1
        return super().wait(min(seconds, 0.01), seen)
