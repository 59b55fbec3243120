"""A million jobs that wait: does enqueuing or claiming one cost more than in an empty queue?

`jobs/1m-waiting`   what is inside a sample is said in `jobs_play.py`

A ratio is that of the medians of a turn, whose two sides were sampled by turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from bench.contest import Rates
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Report, Waiting, take_all
from bench.scratch import KEEPS

NAME = "jobs/1m-waiting"
JOBS, SAMPLES = 1_000_000, 200
REPEAT = 3
MOST = 2

JUDGED, TOLD = ("claim", "enqueue"), "commit"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Fill one queue, and sample it and an empty one."""
    turn = Waiting(setting.sized(JOBS, least=1_000), setting.sized(SAMPLES, least=20))
    reports = take_all(turn, setting.folder, setting.turns(REPEAT), "jobs that wait")
    yield figure(setting, reports)


def figure(setting: Setting, reports: Sequence[Report]) -> Figure:
    """The figure that follows from what was sampled."""
    rates = Rates({name: [median(report.samples[name]) for report in reports] for name in reports[0].samples})
    ratios = {f"{what} empty": rates.ratio(what, f"{what} empty") for what in (*JUDGED, TOLD)}
    return Figure(
        name=NAME,
        value=rates.middle("claim") * 1e6,
        unit="µs a claim (p50)",
        better="less",
        ratios=ratios,
        durability={"jobs": KEEPS["process"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"claim and enqueue within {MOST} x of an empty queue",
            all(ratios[f"{what} empty"].median <= MOST for what in JUDGED),
        ),
        more={
            "waiting": reports[0].tasks,
            "p50_us": {name: significant(rates.middle(name) * 1e6) for name in rates.turns},
            "filled_per_s": significant(median(report.rate for report in reports)),
            "peak_mb": significant(max(report.peak_mb for report in reports)),
        },
    )


SUITE = Suite({NAME: "1 M jobs waiting: p50 of a claim and of an enqueue, against an empty queue"}, measure)
