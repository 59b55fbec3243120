"""A lone job on an idle engine: how soon it begins, enqueued in the same process or in another.

`jobs/latency`   what is inside a sample is said in `frontier_idle.py`

Percentiles are over the samples of all turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_latency import percentile
from bench.frontier_turn import Ping, Report, take_all
from bench.scratch import KEEPS

NAME = "jobs/latency"
SAMPLES = 200
IDLE = 2.0
REPEAT = 3
MOST_SAME, MOST_OTHER = 5, 10


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Enqueue pings."""
    turn = Ping(setting.sized(SAMPLES, least=20), IDLE, jobs=True)
    reports = take_all(turn, setting.folder, setting.turns(REPEAT), "latency of jobs")
    yield figure(setting, reports)


def figure(setting: Setting, reports: Sequence[Report]) -> Figure:
    """The figure that follows from what was sampled."""
    same = [second * 1e3 for report in reports for second in report.same]
    other = [second * 1e3 for report in reports for second in report.other]
    p50, p50_other = percentile(same, 0.5), percentile(other, 0.5)
    return Figure(
        name=NAME,
        value=p50,
        unit="ms from enqueue to start (p50)",
        better="less",
        ratios={},
        durability={"jobs": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"p50_ms_same under {MOST_SAME}, p50_ms_other under {MOST_OTHER}",
            p50 < MOST_SAME and p50_other < MOST_OTHER,
        ),
        more={
            "p50_ms_same": significant(p50),
            "p99_ms_same": significant(percentile(same, 0.99)),
            "p50_ms_other": significant(p50_other),
            "p99_ms_other": significant(percentile(other, 0.99)),
            "idle_cpu": significant(max(report.idle_cpu for report in reports)),
            "samples": len(same),
        },
    )


SUITE = Suite({NAME: "a lone job on an idle engine: time from enqueue until it begins"}, measure)
