"""RQ on Redis over a queue of jobs: `python -m bench.rq_jobs JOB`, run with the Python of `.bench-venv`.

It prints jobs a second.

All jobs are enqueued while there is no worker; then workers that end when nothing is left (`burst`) work them off. Time
runs from the start of the workers until the last of them has ended. What is chosen in RQ's favour: its `SimpleWorker`,
which does not fork for each job; no results are kept and no time limit is set for a job; its log is quiet; and the
caller picks how many workers there are, each a process, by what did best. Redis writes nothing to disk.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.redis_server import serving

_fork = multiprocessing.get_context("fork")
#: How many jobs have run, in all workers.
done = _fork.Value("q", 0)


class Job(msgspec.Struct, frozen=True):
    """One turn: how many jobs, and how many workers."""

    count: int
    workers: int


def nothing(number: int) -> None:
    """A job. Workers import it by its name."""
    with done.get_lock():
        done.value += 1


def main(argv: Sequence[str]) -> None:
    """Work the jobs off and print jobs a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    # The module that workers find under this name, and not this program, counts; they inherit it.
    counting: Any = import_module("bench.rq_jobs")
    with serving(Path.cwd()) as socket:
        queue = _queue(socket)
        new = [
            queue.prepare_data("bench.rq_jobs.nothing", (number,), timeout=-1, result_ttl=0)
            for number in range(job.count)
        ]
        queue.enqueue_many(new)
        workers = [_fork.Process(target=_work, args=(socket,)) for _ in range(job.workers)]
        began = time.monotonic()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.monotonic() - began
        left = len(_queue(socket))
    if counting.done.value != job.count or left or any(worker.exitcode for worker in workers):
        raise AssertionError(f"rq ran {counting.done.value} jobs of {job.count}, and {left} are left")
    print(job.count / seconds)


def _work(socket: str) -> None:
    queue = _queue(socket)
    worker = import_module("rq").SimpleWorker([queue], connection=queue.connection)
    worker.work(burst=True, logging_level="CRITICAL")


def _queue(socket: str) -> Any:
    # By name, because the environment in which this file is type-checked does not have them.
    connection = import_module("redis").Redis(unix_socket_path=socket)
    return import_module("rq").Queue(connection=connection)


if __name__ == "__main__":
    main(sys.argv[1:])
