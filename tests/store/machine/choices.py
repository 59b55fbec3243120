"""Choices: the small decisions of one step, all from one number.

The number is Hypothesis's to choose and to shrink; decisions made one by one would be too many for it. Number 0 always
takes the first option, the simplest one, so a step whose details do not matter shrinks to its simplest form.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """The decisions that follow from a number."""

    def __init__(self, number: int) -> None:
        self._random = Random(number) if number else None

    def one(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Some of them, in any order, none twice."""
        most = len(options) if most is None else min(most, len(options))
        count = self.number(min(least, most), most)
        return list(options[:count]) if self._random is None else self._random.sample(list(options), count)

    def number(self, least: int, most: int) -> int:
        """A number, both ends included."""
        return least if self._random is None else self._random.randint(least, most)

    def chance(self, of: int = 2) -> bool:
        """Yes, once in `of` times."""
        return self.number(0, of - 1) == of - 1
