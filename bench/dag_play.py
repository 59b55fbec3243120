"""Plays the turns of the DAG figures, for `frontier_player.py`.

Defining is timed by itself, with the memory that it took and kept. The clock of a run is around the one call that a
user would write, `engine.run(...)`, or `engine.start(...)` for a turn that only starts it: opening the store is inside.
A run of which a node did not end well, or gave something else than the graph says, is an error and not a figure.
"""

from __future__ import annotations

import gc
import os
import time
from importlib import import_module
from pathlib import Path

from bench.dag_tasks import define, engine, fan_in, node, total
from bench.frontier_turn import FanIn, Nodes, Report
from bench.graph import SHAPES, values
from ramify import Dag, Run, RunState

# Importing is off the clock, and these are imported when they are first needed.
for _late in ("ramify.kernel.kernel", "ramify.store.sqlite"):
    import_module(_late)


def play_nodes(turn: Nodes) -> Report:
    """Define a graph and start it, or run it to its end."""
    graph = SHAPES[turn.shape](turn.count)
    gc.collect()
    before, began = _resident_kb(), time.monotonic()
    dag = define(graph)
    defining = time.monotonic() - began
    defined_kb = _resident_kb() - before
    if turn.starts:
        began = time.monotonic()
        engine.start(dag.of())
        seconds = time.monotonic() - began
    else:
        run, seconds = _run(dag, 1 + len(graph))
        if sorted(run.results(node)) != sorted(values(graph)):
            raise AssertionError("the nodes gave something else than the graph says")
    return Report(len(graph), seconds, 0.0, defining=defining, defined_kb=defined_kb)


def play_fan_in(turn: FanIn) -> Report:
    """Map over items and add up what came of them."""
    # The map, what gathers it, the sum and the end.
    run, seconds = _run(fan_in(turn.count), turn.count + 4)
    wanted = sum(range(turn.count))
    if list(run.results(total)) != [wanted]:
        raise AssertionError(f"the maps did not add up to {wanted}")
    return Report(turn.count, seconds, 0.0)


def _run(dag: Dag, count: int) -> tuple[Run[object], float]:
    began = time.monotonic()
    run = engine.run(dag.of())
    seconds = time.monotonic() - began
    counts = run.counts
    if run.state is not RunState.DONE or counts.added != count or counts.done != count:
        raise AssertionError(f"the run is {run.state} with {counts}; {count} tasks were to be done")
    return run, seconds


def _resident_kb() -> float:
    """What this process holds in memory now; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return 0.0
    return int(status.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
