"""Dask and Prefect as contenders: how each is played, and what it pays for."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench import dask_graph, prefect_graph, rivals
from bench.frontier_turn import environment
from bench.scratch import KEEPS, folder_in

PATIENCE = 1200.0

PAYS: Mapping[str, str] = {
    "dask-threads": KEEPS["none"],
    "dask-distributed": KEEPS["none"],
    "prefect": "states of tasks are written to SQLite, results are not kept; a killed flow starts anew",
}


def run(name: str, shape: str, count: int, folder: Path) -> float:
    """Nodes a second of one of them."""
    job: msgspec.Struct
    match name:
        case "dask-threads":
            module, job = "bench.dask_graph", dask_graph.Job(shape, count, "threads")
        case "dask-distributed":
            module, job = "bench.dask_graph", dask_graph.Job(shape, count, "distributed")
        case _:
            module, job = "bench.prefect_graph", prefect_graph.Job(shape, count)
    with folder_in(folder) as place:
        command = [str(rivals.python()), "-m", module, msgspec.json.encode(job).decode()]
        # Its stderr is kept back: Prefect's server complains, when it is stopped, of connections that it closes itself.
        done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(f"{name} ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])
