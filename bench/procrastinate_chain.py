"""Chains of jobs on Procrastinate: `python -m bench.procrastinate_chain JOB`, run with the Python of `.bench-venv`.

It prints jobs a second.

Five jobs, each of which defers the next, as one would write it; they are coroutines, because only of those may a worker
run several at a time. The first job of every chain is deferred while there is no worker; then a worker in this process
works all of them off. Time runs from the start of the worker until the last job has run. PostgreSQL is served on a
socket, by the bench. What is chosen in its favour: a connection for each job that runs at a time, and the caller picks
how many those are by what did best. All else is as it comes, and jobs that are done are kept.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.postgres import serving

STEPS = 5
PATIENCE = 900.0


class Job(msgspec.Struct, frozen=True):
    """One turn: how many chains, and how many jobs at a time."""

    count: int
    at_once: int


def main(argv: Sequence[str]) -> None:
    """Run the chains and print jobs a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    logging.disable(logging.CRITICAL)
    with serving(Path.cwd()) as address:
        print(job.count * STEPS / asyncio.run(_run(job, address)))


async def _run(job: Job, address: str) -> float:
    # By name, because the environment in which this file is type-checked does not have it.
    procrastinate: Any = import_module("procrastinate")
    # Beside the jobs, the worker itself fetches and listens.
    size = job.at_once + 2
    app: Any = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=address, min_size=size, max_size=size)
    )
    found: list[int] = []
    all_done = asyncio.Event()

    async def increase(number: int, left: int) -> None:
        if left > 1:
            await task.defer_async(number=number + 1, left=left - 1)
            return
        found.append(number + 1)
        if len(found) == job.count:
            all_done.set()

    task: Any = app.task(name="increase")(increase)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for number in range(job.count):
            await task.defer_async(number=number, left=STEPS)
        began = time.monotonic()
        worker = asyncio.create_task(app.run_worker_async(concurrency=job.at_once, install_signal_handlers=False))
        await asyncio.wait_for(all_done.wait(), PATIENCE)
        seconds = time.monotonic() - began
        worker.cancel()
        await asyncio.wait([worker])
    if sorted(found) != [number + STEPS for number in range(job.count)]:
        raise AssertionError("procrastinate gave something else than five jobs give")
    return seconds


if __name__ == "__main__":
    main(sys.argv[1:])
