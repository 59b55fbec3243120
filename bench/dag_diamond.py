"""Diamonds: one node, two that take its result, and one that takes theirs; 250 of them in one DAG.

`dag/diamond-1k`   `engine.run(dag.of())`, against Dask in threads, Dask's distributed scheduler, and Prefect

What the rivals are given, and what is inside their clocks, is in `dask_graph.py` and `prefect_graph.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench import dag_rivals, rivals
from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Nodes, rate
from bench.scratch import KEEPS

NAME = "dag/diamond-1k"
NODES = 1_000
REPEAT = 3
LEAST = {"dask-threads": 0.5, "dask-distributed": 5, "prefect": 50}

OURS = "diamonds"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """All in turns, or ours alone where the rivals cannot be installed."""
    nodes = setting.sized(NODES, least=40)
    contenders: dict[str, Contender] = {OURS: partial(rate, Nodes("diamonds", nodes), setting.folder)}
    missing: tuple[str, ...] = ()
    try:
        rivals.python()
    except rivals.Missing as reason:
        missing = (f"dask and prefect: {reason}",)
    else:
        contenders |= {name: partial(dag_rivals.run, name, OURS, nodes, setting.folder) for name in LEAST}
    rates = hold(contenders, setting.turns(REPEAT))
    ratios = {name: rates.ratio(OURS, name) for name in LEAST if name in contenders}
    yield Figure(
        name=NAME,
        value=rates.middle(OURS),
        unit="nodes/s",
        ratios=ratios,
        durability={OURS: KEEPS["power"]} | {name: dag_rivals.PAYS[name] for name in ratios},
        scale=setting.scale,
        repeat=len(rates.turns[OURS]),
        bar=Bar(
            "at least " + ", ".join(f"{least:g} x {name}" for name, least in LEAST.items()),
            not missing and all(ratios[name].median >= least for name, least in LEAST.items()),
        ),
        more={"nodes": nodes, "rates": {name: significant(rates.middle(name)) for name in rates.turns}},
        missing=missing,
    )


SUITE = Suite({NAME: "250 diamonds of four nodes, against Dask in threads, distributed, and Prefect"}, measure)
