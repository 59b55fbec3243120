"""Fork and join: tasks that wait for eight others, five levels deep, and add up what came of them.

`frontier/fork-join`   `engine.run(fork.of(5))`: 32,768 leaves, 4,681 forks and as many continuations that read a stream

Compared with the tree of `frontier/one-process`, in which nobody waits for anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Forks, Grow, levels, rate
from bench.scratch import KEEPS

NAME = "frontier/fork-join"
DEPTH = 5
REPEAT = 3
SHARE = 0.08


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Forks and the bare tree in turns."""
    depth = DEPTH if setting.scale >= 1 else 2
    contenders: dict[str, Contender] = {
        "forks": partial(rate, Forks(depth), setting.folder),
        "one process": partial(rate, Grow(levels(setting.scale)), setting.folder),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    share = rates.ratio("forks", "one process")
    yield Figure(
        name=NAME,
        value=rates.middle("forks"),
        unit="tasks/s",
        ratios={"one process": share},
        durability={"forks": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns["forks"]),
        bar=Bar(f"at least {SHARE} of one process over a tree", share.median >= SHARE),
        more={"depth": depth, "rates": {name: significant(rates.middle(name)) for name in rates.turns}},
    )


SUITE = Suite({NAME: "forks of eight, five deep, against the tree of one process"}, measure)
