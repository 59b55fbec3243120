"""DAGs of 100,000 nodes that each take the results of three others: defining them, starting them, running them.

`dag/build-100k`    100,000 times `dag.add(node.of(n, a.out, b.out, c.out))`, and the memory it takes; nothing is stored
`dag/start-100k`    `engine.start(dag.of())`: all nodes and 300,000 edges, until they are on disk
`dag/random-100k`   `engine.run(dag.of())`, start included, against the tree of `frontier/one-process`

Each also with a tenth of the nodes: what a node costs must not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Grow, Nodes, Report, Turns, levels, rate
from bench.graph import EDGES
from bench.scratch import KEEPS

BUILD, START, RANDOM = "dag/build-100k", "dag/start-100k", "dag/random-100k"
NODES = 100_000
REPEAT = 3
MOST_BUILDING, MOST_BYTES, MOST_STARTING = 2.0, 2_048, 3.0
SHARE, AIM, FLAT = 0.07, 0.12, 0.8

ALL, TENTH, ONE = "the graph", "a tenth of the nodes", "one process"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Those that are only started, and then those that are run."""
    nodes = setting.sized(NODES, least=1_000)
    if wanted & {BUILD, START}:
        yield from _begun(setting, nodes, wanted)
    if RANDOM in wanted:
        yield _run(setting, nodes)


def _begun(setting: Setting, nodes: int, wanted: frozenset[str]) -> Iterator[Figure]:
    reports: dict[str, list[Report]] = {ALL: [], TENTH: []}
    contenders: dict[str, Contender] = {
        name: partial(rate, Nodes("layers", count, starts=True), setting.folder, reports[name])
        for name, count in ((ALL, nodes), (TENTH, nodes // 10))
    }
    started = hold(contenders, setting.turns(REPEAT))
    if BUILD in wanted:
        defined = _rates(reports, lambda report: report.tasks / report.defining)
        seconds = nodes / defined.middle(ALL)
        bytes_each = max(report.defined_kb * 1024 / report.tasks for report in reports[ALL])
        yield Figure(
            name=BUILD,
            value=seconds,
            unit="s",
            better="less",
            ratios={TENTH: defined.ratio(ALL, TENTH)},
            durability={},
            scale=setting.scale,
            repeat=len(reports[ALL]),
            bar=Bar(
                f"under {MOST_BUILDING:g} s, and {MOST_BYTES:,} bytes a node",
                seconds < MOST_BUILDING and bytes_each < MOST_BYTES,
            ),
            more={
                "nodes": nodes,
                "bytes_a_node": significant(bytes_each),
                "nodes_per_s": significant(defined.middle(ALL)),
            },
        )
    if START in wanted:
        seconds = nodes / started.middle(ALL)
        yield Figure(
            name=START,
            value=seconds,
            unit="s",
            better="less",
            ratios={TENTH: started.ratio(ALL, TENTH)},
            durability={"start": KEEPS["power"]},
            scale=setting.scale,
            repeat=len(reports[ALL]),
            bar=Bar(f"under {MOST_STARTING:g} s", seconds < MOST_STARTING),
            more={"nodes": nodes, "nodes_per_s": significant(started.middle(ALL))},
        )


def _run(setting: Setting, nodes: int) -> Figure:
    turns: dict[str, Turns] = {
        ALL: Nodes("layers", nodes),
        TENTH: Nodes("layers", nodes // 10),
        ONE: Grow(levels(setting.scale)),
    }
    reports: dict[str, list[Report]] = {name: [] for name in turns}
    contenders: dict[str, Contender] = {
        name: partial(rate, turn, setting.folder, reports[name]) for name, turn in turns.items()
    }
    rates = hold(contenders, setting.turns(REPEAT))
    share, flat = rates.ratio(ALL, ONE), rates.ratio(ALL, TENTH)
    return Figure(
        name=RANDOM,
        value=rates.middle(ALL),
        unit="nodes/s",
        ratios={ONE: share, TENTH: flat},
        durability=dict.fromkeys((ALL, ONE), KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns[ALL]),
        bar=Bar(
            f"at least {SHARE} of one process over a tree (aim {AIM}), and {FLAT} of the rate of a tenth of the nodes",
            share.median >= SHARE and flat.median >= FLAT,
        ),
        more={
            "nodes": nodes,
            "edges_a_node": EDGES,
            "rates": {name: significant(rates.middle(name)) for name in rates.turns},
            "peak_mb": significant(max(report.peak_mb for report in reports[ALL])),
        },
    )


def _rates(reports: dict[str, list[Report]], speed: Callable[[Report], float]) -> Rates:
    return Rates({name: [speed(report) for report in found] for name, found in reports.items()})


SUITE = Suite(
    {
        BUILD: "defining a DAG of 100,000 nodes with three results each: time and memory",
        START: "starting it, until all of it is on disk",
        RANDOM: "running it, start included, against the tree of one process",
    },
    measure,
)
