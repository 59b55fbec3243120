"""Joins at the scale of graphs: a DAG of nodes that each wait for three others, through the verbs alone.

`store/joins-100k`   100,000 nodes in levels, 300,000 edges; the start of the run is inside the time
`store/joins-10k`    the same with a tenth: the rate must not depend on the size of the graph

A bare loop claims, and commits each claim with the next one, as `store_loop.py` does for trees. Compared with
`store/sqlite-core` in the same turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.graph import Graph, layers
from bench.race import sqlite_core
from bench.scratch import KEEPS, sqlite_store
from bench.store_loop import KIND, Session
from bench.tree import tree
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.run import NewRun, RunState
from ramify.model.task import NewTasks

NAME = "store/joins-100k"
NODES = 100_000
CLAIM = 8_192
REPEAT = 3


def run_graph(needs: Graph, folder: Path) -> float:
    """Nodes a second, from the start of the run to its end."""
    with sqlite_store(folder) as (store, _):
        session = Session(store)
        began = time.monotonic()
        roots = sum(not each for each in needs)
        run = store.reserve(1 + len(needs))
        first = run + 1
        joins = NewJoins(range(first + roots, first + len(needs)), [len(each) for each in needs[roots:]])
        members: list[int] = []
        waiting: list[int] = []
        slots: list[int] = []
        for node, each in enumerate(needs[roots:], start=first + roots):
            members += [first + number for number in each]
            waiting += [node] * len(each)
            slots += range(len(each))
        tasks = [
            NewTasks(first, KIND, [b"[]"] * roots, awaited=True),
            NewTasks(first + roots, KIND, [b"[]"] * (len(needs) - roots), waits=True, awaited=True),
        ]
        store.start(NewRun(run, shape="dag"), tasks, [joins], [NewWaiters(members, waiting, slots)])
        want = Want(frozenset((KIND,)), CLAIM, runs=frozenset((run,)))
        done, round = 0, 0
        claims = store.claim(session.stamp(), want).claims
        while True:
            while claims:
                parts = [Part(claim.token, claim.tasks) for claim in claims]
                done += sum(len(claim.tasks) for claim in claims)
                round = claims[-1].round
                claims = store.commit(session.stamp(), parts, want).claimed.claims
            (place,) = store.advance([(run, round)])
            if place.state.is_end:
                break
            round = place.round
            claims = store.claim(session.stamp(), want).claims
        seconds = time.monotonic() - began
        counts = store.reads.counts(run)[KIND]
        if place.state is not RunState.DONE or counts.get(Status.DONE) != len(needs):
            raise AssertionError(f"the run is {place.state} with {counts} of {len(needs)} nodes")
        store.leave(session.process)
    return len(needs) / seconds


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The large graph, the small one and the bare tree in turns."""
    nodes = setting.sized(NODES, least=1_000)
    large, small = layers(nodes), layers(nodes // 10)
    contenders: dict[str, Contender] = {
        "graph": partial(run_graph, large, setting.folder),
        "a tenth": partial(run_graph, small, setting.folder),
        "sqlite-core": partial(sqlite_core, tree(setting.scale), setting.folder),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    share, flat = rates.ratio("graph", "sqlite-core"), rates.ratio("graph", "a tenth")
    yield Figure(
        name=NAME,
        value=rates.middle("graph"),
        unit="nodes/s",
        ratios={"sqlite-core": share, "a tenth of the nodes": flat},
        durability={"joins": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns["graph"]),
        bar=Bar(
            "at least 0.10 of sqlite-core, and 0.8 of the rate of a tenth of the nodes",
            share.median >= 0.10 and flat.median >= 0.8,
        ),
        more={
            "nodes": nodes,
            "edges": sum(map(len, large)),
            "rates": {n: significant(rates.middle(n)) for n in rates.turns},
        },
    )


SUITE = Suite({NAME: "100,000 nodes with three dependencies each, against the bare tree"}, measure)
