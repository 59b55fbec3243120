"""Celery beat with many schedules: `python -m bench.celery_beat JOB`, run with the Python of `.bench-venv`.

It prints, as JSON, the share of a core that beat and its worker take while nothing is due, and the seconds from each
slot to the start of its task, with slots spread over a time and with all slots at one moment.

Beat is one process, as its documentation demands, and a worker of one process (`solo`) runs the tasks. Chosen in
Celery's favour: schedules live in memory instead of beat's file, results are not kept, logs are quiet, and Redis writes
nothing to disk. Beat therefore loses all that it knows when it dies, where each of our slots is an fsync or more.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import msgspec

from bench.redis_server import serving

SETTLE, PATIENCE = 3.0, 120.0
#: Seconds from the start of both programs to the first slot.
REST = 8.0
DAY = timedelta(days=1)

_fork = multiprocessing.get_context("fork")


class Job(msgspec.Struct, frozen=True):
    """One turn: how many schedules, over how many seconds their slots are spread, and how long the idle stretch is."""

    count: int
    seconds: float
    idle: float


class Found(msgspec.Struct, frozen=True):
    """The share of a core at rest, and seconds from slots to starts."""

    idle_cpu: float
    spread: list[float]
    moment: list[float]


def main(argv: Sequence[str]) -> None:
    """Play all three, each with a Redis and processes of its own, and print what was found."""
    job = msgspec.json.decode(argv[0], type=Job)
    far = time.time() + 100 * DAY.total_seconds()
    with _playing([far] * job.count) as (_, processes):
        time.sleep(SETTLE)
        before, began = _processor_time(processes), time.monotonic()
        time.sleep(job.idle)
        idle = (_processor_time(processes) - before) / (time.monotonic() - began)
    found = Found(idle, _samples(job.count, job.seconds), _samples(job.count, 0.0))
    print(msgspec.json.encode(found).decode())


def _samples(count: int, seconds: float) -> list[float]:
    first = time.time() + REST
    with _playing([first + seconds * each / count for each in range(count)]) as (redis, _):
        until = first + seconds + PATIENCE
        while redis.llen("late") < count:
            if time.time() > until:
                raise AssertionError(f"celery began {redis.llen('late')} of {count} slots")
            time.sleep(0.1)
        return [float(each) for each in redis.lrange("late", 0, -1)]


@contextmanager
def _playing(slots: Sequence[float]) -> Iterator[tuple[Any, list[ForkProcess]]]:
    """Beat and a worker with these schedules, on a Redis of their own."""
    with serving(Path.cwd()) as socket:
        processes = [_fork.Process(target=_work, args=(socket,)), _fork.Process(target=_beat, args=(socket, slots))]
        for process in processes:
            process.start()
        try:
            yield import_module("redis").Redis(unix_socket_path=socket), processes
        finally:
            for process in processes:
                process.kill()
                process.join()


def _application(socket: str) -> tuple[Any, Callable[..., Any]]:
    # By name, because the environment in which this file is type-checked does not have it.
    app = import_module("celery").Celery("bench", broker=f"redis+socket://{socket}")
    app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, worker_prefetch_multiplier=100)
    redis = import_module("redis").Redis(unix_socket_path=socket)

    def begin(slot: float) -> None:
        redis.rpush("late", time.time() - slot)

    return app, app.task(begin, name="begin")


def _work(socket: str) -> None:
    app, _ = _application(socket)
    app.worker_main(["worker", "--pool", "solo", "--loglevel", "CRITICAL", "--without-gossip", "--without-mingle"])


def _beat(socket: str, slots: Sequence[float]) -> None:
    app, _ = _application(socket)
    beat = import_module("celery.beat")
    every = import_module("celery.schedules").schedule(DAY)
    scheduler = beat.Scheduler(app=app, lazy=True)
    for number, at in enumerate(slots):
        last = datetime.fromtimestamp(at, UTC) - DAY
        scheduler.add(name=f"schedule-{number}", task="begin", schedule=every, args=(at,), last_run_at=last)
    while True:
        time.sleep(max(0.0, scheduler.tick()))


def _processor_time(processes: Sequence[ForkProcess]) -> float:
    """Seconds of processor time that these have used."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(sys.argv[1:])
