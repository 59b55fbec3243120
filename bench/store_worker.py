"""One of several processes that drain a run together: `python -m bench.store_worker FILE PROCESSES WORK`.

It opens the store, says `ready`, waits for the run's id on its input, drains the run and says how many tasks it ran and
when it saw the end. `crew` is the other side of this talk: it starts the processes and lets them go at the same moment.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.store_loop import Session, drain, start
from bench.tree import Tree
from ramify.store.contract import Store
from ramify.store.open import open_store

PATIENCE = 900.0


class Report(msgspec.Struct, frozen=True):
    """What a worker says at its end. `ended` is on the machine's monotonic clock, which processes share."""

    tasks: int
    ended: float


class Crew(msgspec.Struct, frozen=True):
    """What came of several processes on one run: its id, the tasks each ran, and the seconds until all saw the end."""

    run: int
    tasks: tuple[int, ...]
    seconds: float


def crew(store: Store, path: Path, work: Tree, processes: int) -> Crew:
    """Start the processes, and the run once all are ready."""
    command = [
        sys.executable,
        "-m",
        "bench.store_worker",
        str(path),
        str(processes),
        msgspec.json.encode(work).decode(),
    ]
    root = Path(__file__).parent.parent
    workers = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for worker in workers:
            _hear_ready(worker)
        began = time.monotonic()
        run = start(store, work)
        for worker in workers:
            _tell(worker, f"{run}\n")
        reports = [_hear_report(worker) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    return Crew(run, tuple(report.tasks for report in reports), max(report.ended for report in reports) - began)


def _tell(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(line)
    worker.stdin.flush()


def _hear_ready(worker: subprocess.Popen[str]) -> None:
    assert worker.stdout is not None
    if worker.stdout.readline() != "ready\n":
        raise RuntimeError(f"a worker did not start; its exit code is {worker.wait(5)}")


def _hear_report(worker: subprocess.Popen[str]) -> Report:
    out, _ = worker.communicate(timeout=PATIENCE)
    if worker.returncode:
        raise RuntimeError(f"a worker ended with exit code {worker.returncode}")
    return msgspec.json.decode(out, type=Report)


def main(argv: Sequence[str]) -> None:
    """The worker itself."""
    path, processes, text = argv
    work = msgspec.json.decode(text, type=Tree)
    store = open_store(path)
    session = Session(store)
    print("ready", flush=True)
    run = int(sys.stdin.readline())
    drained = drain(store, session, run, work, int(processes))
    report = Report(drained.tasks, time.monotonic())
    store.leave(session.process)
    store.close()
    print(msgspec.json.encode(report).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
