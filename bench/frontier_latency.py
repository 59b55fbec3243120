"""A lone task on an idle engine: how soon it begins, sent from the same process or another, and what idling costs.

What is inside a sample is said in `frontier_idle.py`. Percentiles are over the samples of all turns. `idle_cpu` is the
processor time of the idle process by the second, in shares of a core, the worst of the turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Ping, Report, take_all
from bench.scratch import KEEPS

NAME = "frontier/latency"
SAMPLES = 200
IDLE = 10.0
REPEAT = 3


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of them does not exceed."""
    return sorted(samples)[max(0, ceil(share * len(samples)) - 1)]


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Send pings, and then wait."""
    turn = Ping(setting.sized(SAMPLES, least=20), IDLE)
    reports = take_all(turn, setting.folder, setting.turns(REPEAT), "latency")
    yield _figure(setting, reports)


def _figure(setting: Setting, reports: Sequence[Report]) -> Figure:
    same = [second * 1e3 for report in reports for second in report.same]
    other = [second * 1e3 for report in reports for second in report.other]
    p50, p99, p50_other = percentile(same, 0.5), percentile(same, 0.99), percentile(other, 0.5)
    idle_cpu = max(report.idle_cpu for report in reports)
    return Figure(
        name=NAME,
        value=p50,
        unit="ms until a lone task begins (p50)",
        better="less",
        ratios={},
        durability={"latency": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            "p50_ms_same at most 5, p99_ms_same at most 50, p50_ms_other at most 25, idle_cpu under 0.01 of a core",
            p50 <= 5 and p99 <= 50 and p50_other <= 25 and idle_cpu < 0.01,
        ),
        more={
            "p50_ms_same": significant(p50),
            "p99_ms_same": significant(p99),
            "p50_ms_other": significant(p50_other),
            "p99_ms_other": significant(percentile(other, 0.99)),
            "idle_cpu": significant(idle_cpu),
            "samples": len(same),
        },
    )


SUITE = Suite({NAME: "a lone task on an idle engine: time until it begins, and what idling costs"}, measure)
