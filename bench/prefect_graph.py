"""Prefect over a graph: `python -m bench.prefect_graph JOB`, run with the Python of `.bench-venv`.

It prints nodes a second.

A flow submits a task for each node, with the futures of others as its arguments, to a runner of four threads, as one
would write it. It has its own server inside this process, on SQLite in the folder it is started in. The clock is around
the call of the flow. What is chosen in its favour: a flow of one task runs first, so that the server is started and
ready, no results are stored, and nothing is logged or sent to anybody.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.graph import SHAPES, Graph, join, values


class Job(msgspec.Struct, frozen=True):
    """One turn: the graph."""

    shape: str
    count: int


def main(argv: Sequence[str]) -> None:
    """Run the flow and print nodes a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    os.environ |= {
        "PREFECT_HOME": str(Path.cwd()),
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "DO_NOT_TRACK": "1",
    }
    # By name, because the environment in which this file is type-checked does not have it; and after its settings.
    prefect: Any = import_module("prefect")
    threads: Any = import_module("prefect.task_runners").ThreadPoolTaskRunner
    node = prefect.task(join)

    @prefect.flow(task_runner=threads(max_workers=4))  # type: ignore[untyped-decorator]  # it is not installed here
    def run(graph: Graph) -> list[int]:
        nodes: list[Any] = []
        for its in graph:
            nodes.append(node.submit(*(nodes[each] for each in its)))
        return [each.result() for each in nodes]

    graph = SHAPES[job.shape](job.count)
    run([[]])
    began = time.monotonic()
    found = run(graph)
    seconds = time.monotonic() - began
    if found != values(graph):
        raise AssertionError("prefect gave something else than the graph says")
    print(len(graph) / seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
