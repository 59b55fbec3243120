"""A contest: contenders take turns (A B A B …), and are compared turn by turn.

A ratio is the median of the ratios of neighbouring turns, not the ratio of two medians: what slows the machine down for
a while slows both sides of a pair. Its spread is the distance between the smallest and the largest of them, as a share
of the median; one pair has no spread.

Nothing is discarded as an outlier, and there is no warm-up turn.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Contender = Callable[[], float]


@dataclass(frozen=True)
class Ratio:
    """How one contender compares with another."""

    median: float
    spread: float | None


@dataclass(frozen=True)
class Rates:
    """What each contender reached, turn by turn."""

    turns: Mapping[str, Sequence[float]]

    def middle(self, name: str) -> float:
        """The median of one contender."""
        return median(self.turns[name])

    def ratio(self, name: str, against: str) -> Ratio:
        """The median of `name / against` over the turns, and its spread."""
        pairs = [one / other for one, other in zip(self.turns[name], self.turns[against], strict=True)]
        middle = median(pairs)
        return Ratio(middle, (max(pairs) - min(pairs)) / middle if len(pairs) > 1 else None)


def hold(contenders: Mapping[str, Contender], repeat: int) -> Rates:
    """Let every contender have `repeat` turns, one after the other."""
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(1, repeat + 1):
        for name, contender in contenders.items():
            say(f"{name} ({turn} of {repeat})")
            gc.collect()
            turns[name].append(contender())
    return Rates(turns)


def say(line: str) -> None:
    """Tell somebody who watches what takes so long; a pipe gets nothing."""
    if sys.stderr.isatty():
        print(f"  … {line}", file=sys.stderr, flush=True)
