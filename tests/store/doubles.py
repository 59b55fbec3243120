"""Broken doubles of the reference store: each breaks one promise, and names the cases that must notice.

A conformance suite that has never failed proves nothing. Nearly all of its cases are proven by mutants
(`tools/mutants/conformance.toml`), which plant a bug where a store decides, reads or writes. Doubles are left for what
no planted line shows within a minute: waits, which would last until the test is over, and a read that others come
between.

`caught_by` files a double with the cases that catch it; `test_doubles.py` runs exactly those. The doubles reach into
the reference store. They are as small as they can be, and they know nothing of other stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ramify.model.run import Started
from ramify.model.segment import SegmentState
from ramify.store.memory import MemoryStore
from ramify.store.memory.reads import MemoryReads
from ramify.store.reads import TaskStanding

DOUBLES: dict[type[MemoryStore], tuple[str, ...]] = {}
Double = TypeVar("Double", bound=type[MemoryStore])


def caught_by(*cases: str) -> Callable[[Double], Double]:
    """File a double under the cases, as "verb: sentence", that must fail on it."""

    def file(double: Double) -> Double:
        DOUBLES[double] = cases
        return double

    return file


class OneByOne(MemoryReads):
    """Tells where tasks stand as it was when it came to each of them."""

    def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
        told = dict(super().standings(tasks[:20]))
        with self._tables.changed:
            self._tables.changed.wait(0.1)
        return told | dict(super().standings(tasks[20:]))


@caught_by("reads: what ends together is told together")
class AsksOneByOne(MemoryStore):
    """Has reads that others come between."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.reads = OneByOne(self._tables, self._clock)


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
