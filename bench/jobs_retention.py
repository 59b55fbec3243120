"""Old jobs that go while a worker is busy: how many a second, and what do they cost it?

`jobs/retention`   what is inside a turn is said in `jobs_play.py`

The ratio is that of a worker's rate while it forgets to its rate while it is kept from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

from bench.contest import Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Report, Retain, rate
from bench.scratch import KEEPS

NAME = "jobs/retention"
JOBS, OLD = 50_000, 200_000
REPEAT = 5
FASTEST, COST = 2_500, 0.05

OURS, WITHOUT = "jobs", "forgets nothing"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Both in turns."""
    jobs, old = setting.sized(JOBS, least=1_000), setting.sized(OLD, least=1_000)
    reports: list[Report] = []
    contenders = {
        OURS: partial(rate, Retain(jobs, old, forgets=True), setting.folder, reports),
        WITHOUT: partial(rate, Retain(jobs, old, forgets=False), setting.folder),
    }
    yield figure(setting, hold(contenders, setting.turns(REPEAT)), reports)


def figure(setting: Setting, rates: Rates, reports: Sequence[Report]) -> Figure:
    """The figure that follows from the rates of both."""
    forgotten = median(report.forgotten / report.seconds for report in reports)
    ratio = rates.ratio(OURS, WITHOUT)
    return Figure(
        name=NAME,
        value=forgotten,
        unit="old jobs/s",
        ratios={WITHOUT: ratio},
        durability={OURS: KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"{FASTEST:,} old jobs/s, and the busy worker keeps {1 - COST:.0%} of its rate",
            forgotten >= FASTEST and ratio.median >= 1 - COST,
        ),
        more={"busy_per_s": significant(rates.middle(OURS)), "without_per_s": significant(rates.middle(WITHOUT))},
    )


SUITE = Suite({NAME: "old jobs that a busy worker forgets, and its rate against one that forgets none"}, measure)
