"""DBOS over small workflows: `python -m bench.dbos_steps JOB`, run with the Python of `.bench-venv`.

It prints steps a second.

A workflow of five steps, as one would write it. All are enqueued while nobody listens to their queue; then DBOS is
launched anew and works them off in threads of this process. Time runs from the first step until the last workflow has
returned. Its system database is SQLite in the folder it is started in, which is its default, the same with a
write-ahead log, or a PostgreSQL on a socket. What is chosen in its favour: the queue is looked at every 10 ms instead
of every second, and the caller picks the database and how many workflows run at a time by what did best.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from bench.postgres import serving

STEPS = 5
QUEUE = "small"
PATIENCE = 900.0

Database = Literal["sqlite", "sqlite-wal", "postgres"]


class Job(msgspec.Struct, frozen=True):
    """One turn: how many workflows, on what, and how many at a time."""

    count: int
    database: Database
    at_once: int


def main(argv: Sequence[str]) -> None:
    """Run the workflows and print steps a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    with contextlib.ExitStack() as stack:
        match job.database:
            case "postgres":
                address = stack.enter_context(serving(Path.cwd()))
            case _:
                address = "sqlite:///dbos.db"
                if job.database == "sqlite-wal":
                    with contextlib.closing(sqlite3.connect("dbos.db")) as db:
                        db.execute("PRAGMA journal_mode=WAL")
        print(job.count * STEPS / _run(job, address))


def _run(job: Job, address: str) -> float:
    # By name, because the environment in which this file is type-checked does not have it.
    dbos: Any = import_module("dbos")
    began: list[float] = []
    done: list[int] = []
    all_done = threading.Event()

    def increase(number: int) -> int:
        if not began:
            began.append(time.monotonic())
        return number + 1

    step = dbos.DBOS.step()(increase)

    def small(number: int) -> int:
        for _ in range(STEPS):
            number = step(number)
        done.append(number)
        if len(done) == job.count:
            all_done.set()
        return number

    workflow = dbos.DBOS.workflow()(small)

    def launch(*queues: str) -> None:
        dbos.DBOS(
            config={
                "name": "bench",
                "system_database_url": address,
                "log_level": "CRITICAL",
                "application_version": "1",
            }
        )
        dbos.DBOS.listen_queues(queues)
        dbos.DBOS.launch()

    launch()
    queue = dbos.DBOS.register_queue(QUEUE, worker_concurrency=job.at_once, polling_interval_sec=0.01)
    handles = [queue.enqueue(workflow, number).get_workflow_id() for number in range(job.count)]
    dbos.DBOS.destroy()
    if began:
        raise AssertionError("dbos ran a workflow before it was to")
    launch(QUEUE)
    if not all_done.wait(PATIENCE):
        raise AssertionError(f"dbos ran {len(done)} workflows of {job.count}")
    seconds = time.monotonic() - began[0]
    found = [dbos.DBOS.retrieve_workflow(id).get_result() for id in handles]
    dbos.DBOS.destroy()
    if found != [number + STEPS for number in range(job.count)]:
        raise AssertionError("dbos gave something else than five steps give")
    return seconds


if __name__ == "__main__":
    main(sys.argv[1:])
