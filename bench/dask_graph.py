"""Dask over a graph: `python -m bench.dask_graph JOB`, run with the Python of `.bench-venv`. Prints nodes a second.

The graph is made of `dask.delayed`, as one would write it. Making it is off the clock, and so is starting a cluster;
the clock is around `compute`, which optimises it, runs it and gives all results. Nothing is kept anywhere.

`threads` is its own scheduler for threads. The cluster of `distributed` has its scheduler and one worker inside this
process, so that nothing goes through the network or from process to process, which is in its favour.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

import msgspec

from bench.graph import SHAPES, join, values


class Job(msgspec.Struct, frozen=True):
    """One turn: the graph, and which scheduler."""

    shape: str
    count: int
    scheduler: Literal["threads", "distributed"]


def main(argv: Sequence[str]) -> None:
    """Compute the graph and print nodes a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    # By name, because the environment in which this file is type-checked does not have it.
    dask = import_module("dask")
    graph = SHAPES[job.shape](job.count)
    node = dask.delayed(join, pure=False)
    nodes: list[Any] = []
    for its in graph:
        nodes.append(node(*(nodes[each] for each in its)))
    if job.scheduler == "threads":
        seconds = _timed(lambda: dask.compute(*nodes, scheduler="threads"), values(graph))
    else:
        client = import_module("distributed").Client(
            processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
        )
        with client:
            seconds = _timed(lambda: dask.compute(*nodes), values(graph))
    print(len(graph) / seconds)


def _timed(compute: Any, wanted: list[int]) -> float:
    began = time.monotonic()
    found = compute()
    seconds = time.monotonic() - began
    if list(found) != wanted:
        raise AssertionError("dask gave something else than the graph says")
    return seconds


if __name__ == "__main__":
    main(sys.argv[1:])
