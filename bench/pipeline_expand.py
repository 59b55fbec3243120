"""An expansion: a list of which each element is a step, and what collapses them again.

`pipeline/expand-100k`   `engine.run(...)` of a pipeline that expands 100,000 elements, one step each, start included

Only the steps of elements count as tasks: the step that makes the list, what expands and gathers it, the step that
collapses it and the end of the run are inside the clock and not in the rate. Against the tree of
`frontier/one-process`, in which nobody waits for anybody, and against a tenth of the elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Expand, Grow, Report, Turns, levels, rate
from bench.scratch import KEEPS

NAME = "pipeline/expand-100k"
ELEMENTS = 100_000
REPEAT = 3
SHARE = 0.08

EXPANSION, TENTH, ONE = "expansion", "a tenth of the elements", "one process"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The expansion, a small one and the tree in turns."""
    elements = setting.sized(ELEMENTS, least=100)
    turns: dict[str, Turns] = {
        EXPANSION: Expand(elements),
        TENTH: Expand(elements // 10),
        ONE: Grow(levels(setting.scale)),
    }
    reports: dict[str, list[Report]] = {name: [] for name in turns}
    contenders: dict[str, Contender] = {
        name: partial(rate, turn, setting.folder, reports[name]) for name, turn in turns.items()
    }
    rates = hold(contenders, setting.turns(REPEAT))
    share = rates.ratio(EXPANSION, ONE)
    yield Figure(
        name=NAME,
        value=rates.middle(EXPANSION),
        unit="elements/s",
        ratios={ONE: share, TENTH: rates.ratio(EXPANSION, TENTH)},
        durability=dict.fromkeys((EXPANSION, ONE), KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns[EXPANSION]),
        bar=Bar(f"at least {SHARE} of one process over a tree", share.median >= SHARE),
        more={
            "elements": elements,
            "rates": {name: significant(rates.middle(name)) for name in rates.turns},
            "peak_mb": significant(max(report.peak_mb for report in reports[EXPANSION])),
        },
    )


SUITE = Suite({NAME: "a pipeline over 100,000 elements, against the tree of one process"}, measure)
