"""Huey on SQLite over a queue of jobs: `python -m bench.huey_jobs JOB`, run with the Python of `.bench-venv`.

It prints jobs a second.

All jobs are enqueued while there is no consumer; then Huey's own consumer, inside this process,
works them off. Time runs from the start of the consumer until the last job has run. `fsync` is as it comes, which is an
fsync per commit; what else is chosen in its favour is said in `huey_tree.py`.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.synchronize import Event
from typing import Any, Literal

import msgspec

PATIENCE = 900.0
WorkerType = Literal["thread", "process"]


class Job(msgspec.Struct, frozen=True):
    """One turn: how many jobs, and the workers."""

    count: int
    workers: int
    worker_type: WorkerType


def main(argv: Sequence[str]) -> None:
    """Work the jobs off and print jobs a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    # By name, because the environment in which this file is type-checked does not have it.
    queue: Any = import_module("huey").SqliteHuey(filename="huey.db", results=False)
    fork = multiprocessing.get_context("fork")
    done, all_done = fork.Value("q", 0), fork.Event()

    def nothing(number: int) -> None:
        with done.get_lock():
            done.value += 1
            if done.value == job.count:
                all_done.set()

    task = queue.task()(nothing)
    for number in range(job.count):
        task(number)
    finished, seconds = work_off(queue, job.workers, job.worker_type, all_done)
    if not finished or done.value != job.count or len(queue):
        raise AssertionError(f"huey ran {done.value} jobs of {job.count}, and {len(queue)} are left")
    print(job.count / seconds)


def work_off(queue: Any, workers: int, worker_type: WorkerType, all_done: Event) -> tuple[bool, float]:
    """Let huey's consumer work until all is done; whether it is, and after how many seconds."""
    consumer = queue.create_consumer(
        workers=workers,
        worker_type=worker_type,
        periodic=False,
        initial_delay=0.01,
        max_delay=0.01,
        backoff=1.0,
    )
    began = time.monotonic()
    consumer.start()
    finished = all_done.wait(PATIENCE)
    seconds = time.monotonic() - began
    consumer.stop(graceful=True)
    return finished, seconds


if __name__ == "__main__":
    main(sys.argv[1:])
