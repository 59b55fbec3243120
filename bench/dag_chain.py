"""A chain: nodes of which each takes the result of the one before, so that nothing can be done together.

`dag/chain-1k`   `engine.run(dag.of())` over 1,000 nodes, against as many durable transactions of one row (`bare.py`)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Bare, Nodes, rate
from bench.scratch import KEEPS

NAME = "dag/chain-1k"
NODES = 1_000
REPEAT = 9
MOST = 6

CHAIN, BARE = "chain", "bare transactions"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The chain and bare transactions in turns."""
    nodes = setting.sized(NODES, least=50)
    contenders: dict[str, Contender] = {
        CHAIN: partial(rate, Nodes("chain", nodes), setting.folder),
        BARE: partial(rate, Bare(nodes), setting.folder),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    share = rates.ratio(CHAIN, BARE)
    yield Figure(
        name=NAME,
        value=rates.middle(CHAIN),
        unit="nodes/s",
        ratios={BARE: share},
        durability=dict.fromkeys(contenders, KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns[CHAIN]),
        bar=Bar(f"within {MOST} x the time of bare transactions", share.median >= 1 / MOST),
        more={
            "nodes": nodes,
            "times_bare": significant(1 / share.median),
            "bare_per_s": significant(rates.middle(BARE)),
        },
    )


SUITE = Suite({NAME: "1,000 nodes one after the other, against as many bare durable transactions"}, measure)
