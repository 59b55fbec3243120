"""Huey, RQ and Dramatiq as contenders that work off a queue: which settings each has, and what it pays for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from bench import dramatiq_jobs, frontier_rivals, huey_jobs, rq_jobs
from bench.rivals import Rival

TRIAL = 500

_MEMORY = "nothing outlives Redis, which writes nothing to disk; {}"


def _huey(workers: int, worker_type: Literal["thread", "process"]) -> Rival:
    chosen = frontier_rivals.Huey(None, workers, worker_type).crew
    keeps = frontier_rivals.SETTINGS["huey, default"][1]
    return Rival("bench.huey_jobs", huey_jobs.Job(TRIAL, workers, worker_type), chosen, keeps)


def _rq(workers: int) -> Rival:
    chosen = f"{workers} x SimpleWorker"
    keeps = _MEMORY.format("what a dead worker ran is noticed after a while, and put among the failed")
    return Rival("bench.rq_jobs", rq_jobs.Job(TRIAL, workers), chosen, keeps)


def _dramatiq(processes: int, threads: int) -> Rival:
    chosen = f"{processes} x {threads} threads"
    keeps = _MEMORY.format("what a dead worker ran is run again after a while")
    return Rival("bench.dramatiq_jobs", dramatiq_jobs.Job(TRIAL, processes, threads), chosen, keeps)


#: Each with the settings that it may choose from.
RIVALS: Mapping[str, Sequence[Rival]] = {
    "huey": (_huey(1, "thread"), _huey(4, "thread"), _huey(2, "process")),
    "rq": (_rq(1), _rq(2), _rq(4)),
    "dramatiq": (_dramatiq(1, 8), _dramatiq(2, 8), _dramatiq(1, 1), _dramatiq(2, 1)),
}
