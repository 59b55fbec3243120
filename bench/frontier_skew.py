"""Uneven work on two processes of four threads: does somebody sit idle while others have work queued up?

`40 x 0.5 s`   40 tasks that wait half a second. Ideal: five after another on each of the eight threads, 2.5 s.
`1 % x 1 s`    4,000 tasks that wait a millisecond, except 1 % in random places that wait a second. Ideal: all of that
               shared out evenly.

The time is from the first start of a task to the last end, as the tasks themselves saw it: the starting of processes is
no skew. `seconds` is all of `engine.run`, `shared` the tasks of each process, turn by turn. A ratio is time over ideal:
1 is perfect, and lower is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil
from statistics import median

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Nap, Report, take
from bench.scratch import KEEPS

NAME = "frontier/skew"
PROCESSES, THREADS = 2, 4
WORKERS = PROCESSES * THREADS
EQUAL, EQUAL_MS = 40, 500
MIXED, LEAST_MIXED = 4_000, 800
REPEAT = 3
EVEN, UNEVEN = "ideal, 40 x 0.5 s", "ideal, 1 % x 1 s among 1 ms"


def ideal_even(count: int, ms: int) -> float:
    """Seconds when every thread has its share of equal tasks."""
    return ceil(count / WORKERS) * ms / 1e3


def ideal_mixed(count: int) -> float:
    """Seconds when the waiting is shared out evenly; 1 % waits a second and the rest a millisecond."""
    long = round(count * 0.01)
    return (long + (count - long) / 1e3) / WORKERS


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Both kinds of skew in turns."""
    count = setting.sized(MIXED, least=LEAST_MIXED)
    reports: list[Report] = []

    def taken(turn: Nap) -> float:
        reports.append(take(turn, setting.folder))
        return reports[-1].working

    contenders: dict[str, Contender] = {
        "even": partial(taken, Nap(EQUAL, EQUAL_MS, THREADS, PROCESSES)),
        EVEN: lambda: ideal_even(EQUAL, EQUAL_MS),
        "uneven": partial(taken, Nap(count, None, THREADS, PROCESSES)),
        UNEVEN: lambda: ideal_mixed(count),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    even, uneven = rates.ratio("even", EVEN), rates.ratio("uneven", UNEVEN)
    yield Figure(
        name=NAME,
        value=rates.middle("even"),
        unit="s for 40 tasks of 0.5 s",
        better="less",
        ratios={EVEN: even, UNEVEN: uneven},
        durability={"skew": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns["even"]),
        bar=Bar("each within 1.3 x ideal", max(even.median, uneven.median) <= 1.3),
        more={
            "workers": f"{PROCESSES} processes of {THREADS} threads",
            "mixed_tasks": count,
            "shared": [_shared(reports, tasks) for tasks in (EQUAL, count)],
            "seconds": [significant(median(_whole(reports, tasks))) for tasks in (EQUAL, count)],
            "ideal_seconds": [significant(rates.middle(EVEN)), significant(rates.middle(UNEVEN))],
        },
    )


def _whole(reports: list[Report], tasks: int) -> list[float]:
    return [report.seconds for report in reports if report.tasks == tasks + 1]


def _shared(reports: list[Report], tasks: int) -> list[list[int]]:
    return [report.shared for report in reports if report.tasks == tasks + 1]


SUITE = Suite({NAME: "uneven tasks on two processes of four threads, against ideal"}, measure)
