"""Choices: what Hypothesis decides, in the few forms the rules need. The simplest choice always comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices:
    """Decisions of one rule."""

    def __init__(self, source: st.DataObject) -> None:
        self._source = source

    def one(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Some of them, in any order, none twice."""
        most = len(options) if most is None else min(most, len(options))
        if most < 1:
            return []
        numbers = st.lists(st.integers(0, len(options) - 1), min_size=min(least, most), max_size=most, unique=True)
        return [options[i] for i in self._source.draw(numbers)]

    def number(self, least: int, most: int) -> int:
        """A number, both ends included."""
        return least if least == most else self._source.draw(st.integers(least, most))

    def chance(self, of: int = 2) -> bool:
        """Yes, once in `of` times."""
        return self.number(0, of - 1) == of - 1
