"""Figures: one measured number with its ratios, its spread, what each side paid for, and the bar it has to meet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from bench.contest import Ratio

#: What is better of a figure's values: more of it (a rate), or less (a time).
Better = Literal["more", "less"]


@dataclass(frozen=True)
class Setting:
    """How to measure: a share of the full size, turns (None = the suite's own number), and a folder on a real disk."""

    scale: float
    repeat: int | None
    folder: Path

    def turns(self, usual: int) -> int:
        """How many turns each contender gets."""
        return usual if self.repeat is None else self.repeat

    def sized(self, full: int, least: int = 1) -> int:
        """A count at this scale."""
        return max(least, round(full * self.scale))


@dataclass(frozen=True)
class Bar:
    """A target in words, and whether this measurement met it. Targets are set for the full size and judged at any."""

    text: str
    met: bool


@dataclass(frozen=True)
class Figure:
    """One line of the report. `more` holds what only this figure has, `missing` what could not be measured, and why.

    `load` is the machine's load when the figure was done: well above the benchmark's own one or two processes, somebody
    else was working too, and two processes had no two cores.
    """

    name: str
    value: float
    unit: str
    ratios: Mapping[str, Ratio]
    durability: Mapping[str, str]
    scale: float
    repeat: int
    better: Better = "more"
    bar: Bar | None = None
    more: Mapping[str, object] = field(default_factory=dict)
    missing: Sequence[str] = ()
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def spread(self) -> float | None:
        """The widest spread among the ratios."""
        return max((ratio.spread for ratio in self.ratios.values() if ratio.spread is not None), default=None)

    def line(self) -> str:
        """The figure as one line of JSON."""
        page: dict[str, object] = {
            "name": self.name,
            "value": significant(self.value),
            "unit": self.unit,
            "better": self.better,
            "ratios": {against: significant(ratio.median) for against, ratio in self.ratios.items()},
            "spread": None if self.spread is None else significant(self.spread),
            "durability": self.durability,
            "bar": self._judged(),
            "scale": self.scale,
            "repeat": self.repeat,
            "load": round(self.load, 1),
            **self.more,
            **({"missing": self.missing} if self.missing else {}),
        }
        return msgspec.json.encode(page).decode()

    def words(self) -> str:
        """The figure as a few lines for people."""
        turns = "one turn" if self.repeat == 1 else f"{self.repeat} turns"
        spread = f"{turns}, no spread" if self.spread is None else f"{turns}, spread {self.spread:.0%}"
        value = f"{significant(self.value):>12,} {self.unit}"
        lines = [f"{self.name:<28}{value}   ({spread}, load {self.load:.1f})"]
        lines += [f"{'':<28}{significant(ratio.median):>12,} x {against}" for against, ratio in self.ratios.items()]
        lines += [f"{'':<30}{name}: {value}" for name, value in self.more.items()]
        lines += [f"{'':<30}{name} paid for: {kept}" for name, kept in self.durability.items()]
        lines += [f"{'':<30}NOT MEASURED: {reason}" for reason in self.missing]
        if self.bar is not None:
            verdict = "met" if self.bar.met else "NOT MET"
            lines.append(f"{'':<30}{verdict}{'' if self._is_full else ' at this scale'}: {self.bar.text}")
        return "\n".join(lines)

    @property
    def _is_full(self) -> bool:
        return self.scale >= 1

    def _judged(self) -> dict[str, object] | None:
        if self.bar is None:
            return None
        return {"text": self.bar.text, "met": self.bar.met, "full_size": self._is_full}


@dataclass(frozen=True)
class Suite:
    """Figures that are measured together: their names with a line each, and how those that are wanted are measured."""

    figures: Mapping[str, str]
    measure: Callable[[Setting, frozenset[str]], Iterator[Figure]]


def significant(value: float) -> float:
    """Three digits that mean something; large numbers as whole ones."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded >= 100 else rounded
