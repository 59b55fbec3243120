"""The engine and millions of tasks: does the rate hold, and does memory stay bounded by the window, not by the backlog?

`frontier/growth`  5 M tasks in 100 rounds of equal width (`tree.py`'s chains), the last fifth against the first. The
                   first chain comes first in each round and writes down when that was; fifths are read off these times.
`frontier/wide`    one task with 1 M children, which are no-ops

`rss_mb` is the peak of the process that runs everything, from its start, Python and imports included. It is judged at
full size only in name: at a small scale it says what the engine needs at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from bench.contest import Rates
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Chain, Report, Turns, Widen, take_all
from bench.growth import chains, fifths
from bench.scratch import KEEPS

GROWTH, WIDE = "frontier/growth", "frontier/wide"
TASKS = 5_000_000
CHILDREN = 1_000_000
REPEAT = 3
MOST_MB = 300


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Grow, and widen, a few times."""
    if GROWTH in wanted:
        work = chains(setting, TASKS)
        yield _growth(setting, work.width, _turns(setting, GROWTH, Chain(work.width, work.length)))
    if WIDE in wanted:
        yield _wide(setting, _turns(setting, WIDE, Widen(setting.sized(CHILDREN))))


def _turns(setting: Setting, name: str, turn: Turns) -> list[Report]:
    return take_all(turn, setting.folder, setting.turns(REPEAT), name)


def shares(report: Report, width: int) -> list[float]:
    """The rates of five equal shares of the chains' tasks."""
    if len(report.marks) * width + 1 != report.tasks:
        raise AssertionError(f"{len(report.marks)} rounds of {width} tasks and a root are not {report.tasks} tasks")
    steps = [(1 + number * width, at) for number, at in enumerate(report.marks)]
    return fifths([*steps, (report.tasks, report.began + report.seconds)], report.began)


def _growth(setting: Setting, width: int, reports: Sequence[Report]) -> Figure:
    runs = [shares(report, width) for report in reports]
    ratio = Rates({"first": [run[0] for run in runs], "last": [run[-1] for run in runs]}).ratio("last", "first")
    peak = max(report.peak_mb for report in reports)
    return Figure(
        name=GROWTH,
        value=median(report.rate for report in reports),
        unit="tasks/s",
        ratios={"first fifth": ratio},
        durability={"growth": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"last fifth at least 0.85 x the first, rss_mb at most {MOST_MB}", ratio.median >= 0.85 and peak <= MOST_MB
        ),
        more={
            "tasks": reports[0].tasks,
            "rss_mb": significant(peak),
            "fifths": [significant(median(rates)) for rates in zip(*runs, strict=True)],
        },
    )


def _wide(setting: Setting, reports: Sequence[Report]) -> Figure:
    peak = max(report.peak_mb for report in reports)
    return Figure(
        name=WIDE,
        value=median(report.rate for report in reports),
        unit="tasks/s",
        ratios={},
        durability={"wide": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(f"rss_mb at most {MOST_MB}", peak <= MOST_MB),
        more={"tasks": reports[0].tasks, "rss_mb": significant(peak)},
    )


SUITE = Suite(
    {
        GROWTH: "the engine over 5 M tasks: the last fifth against the first, and peak memory",
        WIDE: "one task with 1 M children: peak memory",
    },
    measure,
)
