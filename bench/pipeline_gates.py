"""Runs that wait at a gate: what a hundred thousand of them cost while nobody answers, and how soon an answer is felt.

`pipeline/gates`   100,000 runs at their gates; what is inside a sample is said in `pipeline_gate.py`

Percentiles are over the samples of all turns. `idle_cpu` is the processor time of the process that serves the store
by the second, in shares of a core, the worst of the turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_latency import percentile
from bench.frontier_turn import Gates, Report, take_all
from bench.scratch import KEEPS

NAME = "pipeline/gates"
RUNS = 100_000
SAMPLES = 100
#: As long as a process waits at most before it looks through all runs once more, so that such a look is among it.
IDLE = 60.0
REPEAT = 1
MOST_MS, MOST_CPU = 10, 0.01


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Wait, and then answer."""
    samples = setting.sized(SAMPLES, least=20)
    turn = Gates(setting.sized(RUNS, least=2 * samples), samples, IDLE)
    reports = take_all(turn, setting.folder, setting.turns(REPEAT), "gates")
    yield figure(setting, reports, turn.runs)


def figure(setting: Setting, reports: Sequence[Report], runs: int) -> Figure:
    """The figure that follows from what was sampled."""
    same = [second * 1e3 for report in reports for second in report.same]
    other = [second * 1e3 for report in reports for second in report.other]
    p50, p50_other = percentile(same, 0.5), percentile(other, 0.5)
    idle_cpu = max(report.idle_cpu for report in reports)
    return Figure(
        name=NAME,
        value=p50,
        unit="ms from an answer to the next step (p50)",
        better="less",
        ratios={},
        durability={"answers": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"p50_ms_same and p50_ms_other under {MOST_MS}, idle_cpu under {MOST_CPU} of a core",
            p50 < MOST_MS and p50_other < MOST_MS and idle_cpu < MOST_CPU,
        ),
        more={
            "runs": runs,
            "p50_ms_same": significant(p50),
            "p99_ms_same": significant(percentile(same, 0.99)),
            "p50_ms_other": significant(p50_other),
            "p99_ms_other": significant(percentile(other, 0.99)),
            "idle_cpu": significant(idle_cpu),
            "samples": len(same),
            "peak_mb": significant(max(report.peak_mb for report in reports)),
        },
    )


SUITE = Suite({NAME: "100,000 runs at a gate: what idling costs, and from an answer to the next step"}, measure)
