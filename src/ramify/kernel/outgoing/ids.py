"""Ids from a block of one's own, so that the store is asked once in many tasks.

Ids handed out one after the other follow on, which lets a store keep single tasks of one producer in one row. What is
left of a block when the process ends, or when more or larger ones are wanted than are left, is wasted: gaps are normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ramify.kernel.machine import HERE, Machine


class Ids:
    """Contiguous ids. `reserve` asks the store; the first block is small, because most programs make few tasks."""

    def __init__(self, reserve: Callable[[int], int], first_block: int, block: int, machine: Machine = HERE) -> None:
        self._reserve = reserve
        self._clock = machine.clock
        self._reserved_at = 0.0
        self._size = first_block
        self._later = block
        self._next = self._end = 0
        self._lock = machine.lock()

    def reserve(self, many: int, above: int = 0, younger: float = math.inf) -> int:
        """The first of `many` contiguous ids that nobody else has, all of them larger than `above`.

        They are of a block that is `younger` than so many seconds, for ids that people take for the order of things.
        """
        with self._lock:
            is_old = self._clock() - self._reserved_at >= younger
            if self._next + many > self._end or self._next <= above or is_old:
                size = max(many, self._size)
                # CRASH: between the two lines a block is wasted.
                self._next = self._reserve(size)
                self._reserved_at = self._clock()
                self._end = self._next + size
                self._size = self._later
            first = self._next
            self._next += many
            return first
