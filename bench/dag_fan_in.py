"""Fan-in: a million results that go through one task, and what that costs in memory.

`dag/fan-in-1m`   `dag.map` over a generator of 1,000,000 items, and a node that adds their results up from a `Stream`

Compared with the tree of `frontier/one-process`, in which nobody waits for anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import FanIn, Grow, Report, levels, rate
from bench.scratch import KEEPS

NAME = "dag/fan-in-1m"
ITEMS = 1_000_000
REPEAT = 1
MOST_MB = 300.0

FAN_IN, ONE = "fan-in", "one process"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The map and the tree in turns."""
    items = setting.sized(ITEMS, least=1_000)
    reports: list[Report] = []
    contenders: dict[str, Contender] = {
        FAN_IN: partial(rate, FanIn(items), setting.folder, reports),
        ONE: partial(rate, Grow(levels(setting.scale)), setting.folder),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    peak = max(report.peak_mb for report in reports)
    yield Figure(
        name=NAME,
        value=peak,
        unit="MB",
        better="less",
        ratios={f"{ONE}: rate": rates.ratio(FAN_IN, ONE)},
        durability=dict.fromkeys(contenders, KEEPS["power"]),
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(f"peak memory under {MOST_MB:g} MB", peak < MOST_MB),
        more={"items": items, "items_per_s": significant(rates.middle(FAN_IN))},
    )


SUITE = Suite({NAME: "a map over a million items whose results are added up from a stream: peak memory"}, measure)
