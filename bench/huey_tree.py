"""Huey on SQLite over the tree: `python -m bench.huey_tree JOB`, run with the Python of `.bench-venv`.

A task enqueues its children, as one would write it; the consumer is Huey's own, inside this process. Time runs from the
start of the consumer, with the root already in the queue, until the last task has run. It prints tasks a second.

What is chosen in Huey's favour: no results are kept, no periodic tasks, logging as quiet as the consumer's `-q`, the
queue is looked at every 10 ms instead of every 100 ms when it was empty, and the caller picks the number and type of
workers that did best. Its serializer, cache size and journal (WAL) are its defaults. `fsync` is its one setting for
durability: None, its default, leaves SQLite at FULL, an fsync per commit; False turns syncing off.

Huey takes a task out of the queue when it starts, so whatever a killed consumer was running is lost, at either setting.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from importlib import import_module

import msgspec

from bench.huey_jobs import WorkerType, work_off
from bench.tree import Tree


class Job(msgspec.Struct, frozen=True):
    """One turn: the tree, the file, Huey's `fsync`, and the workers."""

    tree: Tree
    file: str
    fsync: bool | None
    workers: int
    worker_type: WorkerType


def main(argv: Sequence[str]) -> None:
    """Run the tree and print tasks a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    # By name, because the environment in which this file is type-checked does not have it.
    queue = import_module("huey").SqliteHuey(filename=job.file, fsync=job.fsync, results=False)
    fork = multiprocessing.get_context("fork")
    done, all_done = fork.Value("q", 0), fork.Event()
    wanted, grow = job.tree.count, job.tree.node

    def node(path: int, depth: int) -> None:
        for child in grow(path, depth):
            enqueue(*child)
        with done.get_lock():
            done.value += 1
            if done.value == wanted:
                all_done.set()

    enqueue = queue.task()(node)
    enqueue(*job.tree.root)
    finished, seconds = work_off(queue, job.workers, job.worker_type, all_done)
    if not finished or done.value != wanted:
        raise AssertionError(f"huey ran {done.value} tasks of {wanted} in {seconds:.0f} s")
    print(wanted / seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
