"""Dramatiq on Redis over a queue of jobs: `python -m bench.dramatiq_jobs JOB`, run with the Python of `.bench-venv`.

It prints jobs a second.

All jobs are sent while there is no worker; then its own workers, threads in one process or several as with its command
line, work them off. Time runs from the start of the processes until the last job has run. What is chosen in its favour:
no results, its log is quiet, and the caller picks the number of processes and threads that did best. Its middleware
is what it comes with. Redis writes nothing to disk.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.redis_server import serving

PATIENCE = 900.0

_fork = multiprocessing.get_context("fork")


class Job(msgspec.Struct, frozen=True):
    """One turn: how many jobs, and the workers."""

    count: int
    processes: int
    threads: int


class Counting:
    """How many jobs have run, in all processes, and whether those are all of them."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self.done, self.all_done = _fork.Value("q", 0), _fork.Event()

    def nothing(self, number: int) -> None:
        """A job."""
        with self.done.get_lock():
            self.done.value += 1
            if self.done.value == self._wanted:
                self.all_done.set()


def main(argv: Sequence[str]) -> None:
    """Work the jobs off and print jobs a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    logging.disable(logging.CRITICAL)
    counting = Counting(job.count)
    with serving(Path.cwd()) as socket:
        broker, actor = _broker(socket, counting)
        for number in range(job.count):
            actor.send(number)
        workers = [_fork.Process(target=_work, args=(socket, counting, job.threads)) for _ in range(job.processes)]
        began = time.monotonic()
        for worker in workers:
            worker.start()
        finished = counting.all_done.wait(PATIENCE)
        seconds = time.monotonic() - began
        for worker in workers:
            worker.join(PATIENCE)
        left = broker.do_qsize(actor.queue_name)
    if not finished or counting.done.value != job.count or left:
        raise AssertionError(f"dramatiq ran {counting.done.value} jobs of {job.count}, and {left} are left")
    print(job.count / seconds)


def _work(socket: str, counting: Counting, threads: int) -> None:
    broker, _ = _broker(socket, counting)
    worker = import_module("dramatiq").Worker(broker, worker_threads=threads)
    worker.start()
    counting.all_done.wait(PATIENCE)
    worker.stop()


def _broker(socket: str, counting: Counting) -> tuple[Any, Any]:
    # By name, because the environment in which this file is type-checked does not have them.
    client = import_module("redis").Redis(unix_socket_path=socket)
    broker = import_module("dramatiq.brokers.redis").RedisBroker(client=client)
    actor = import_module("dramatiq").actor(counting.nothing, broker=broker, actor_name="nothing")
    return broker, actor


if __name__ == "__main__":
    main(sys.argv[1:])
