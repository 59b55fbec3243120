"""Many small runs: what a run costs that is hardly more than its start and its end.

5,000 runs of five steps each, where a step makes the next; `frontier_small.py` says what is inside the clock. The steps
are those of runs that all wait, and the starts those of a program in which nobody works. Steps against the tree of
`frontier/one-process`, whose one run has all tasks, and starts against durable transactions of one row (`bare.py`),
because a start is durable too before it returns. Both at a time, in one program, are told beside it, without a bar:
that measures how two threads share an interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Bare, Grow, Report, Small, levels, rate
from bench.scratch import KEEPS

NAME = "frontier/small-runs"
RUNS, STEPS = 5_000, 5
REPEAT = 3
LEAST_STEPS, LEAST_SHARE, LEAST_STARTS = 5_000, 0.02, 0.25

STEPPING, STARTING, ONE, BARE = "small runs", "starts", "one process", "bare transactions"
MIXED, MIXED_STARTING = "mixed", "mixed starts"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The four in turns; the starts are those of the small runs."""
    runs = setting.sized(RUNS, least=20)
    reports: list[Report] = []
    mixed: list[Report] = []
    contenders: dict[str, Contender] = {
        STEPPING: partial(rate, Small(runs, STEPS), setting.folder, reports),
        MIXED: partial(rate, Small(runs, STEPS, mixed=True), setting.folder, mixed),
        ONE: partial(rate, Grow(levels(setting.scale)), setting.folder),
        BARE: partial(rate, Bare(runs), setting.folder),
    }
    turns = hold(contenders, setting.turns(REPEAT)).turns
    starts = {STARTING: reports, MIXED_STARTING: mixed}
    rates = {name: [runs / report.starting for report in some] for name, some in starts.items()}
    yield figure(setting, Rates({**turns, **rates}), runs)


def figure(setting: Setting, rates: Rates, runs: int) -> Figure:
    """The figure that follows from the rates of all six."""
    steps, share, starts = rates.middle(STEPPING), rates.ratio(STEPPING, ONE), rates.ratio(STARTING, BARE)
    is_quick = steps >= LEAST_STEPS or share.median >= LEAST_SHARE
    return Figure(
        name=NAME,
        value=steps,
        unit="steps/s",
        ratios={ONE: share, f"{BARE}: starts": starts},
        durability=dict.fromkeys((STEPPING, ONE, BARE), KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns[STEPPING]),
        bar=Bar(
            f"at least {LEAST_STEPS:,} steps/s or {LEAST_SHARE} of one process; starts at least {LEAST_STARTS} of bare "
            "transactions",
            is_quick and starts.median >= LEAST_STARTS,
        ),
        more={
            "runs": runs,
            "steps": runs * STEPS,
            "starts_per_s": significant(rates.middle(STARTING)),
            "mixed_steps_per_s": significant(rates.middle(MIXED)),
            "mixed_starts_per_s": significant(rates.middle(MIXED_STARTING)),
            "bare_per_s": significant(rates.middle(BARE)),
            "one_process": significant(rates.middle(ONE)),
        },
    )


SUITE = Suite({NAME: "5,000 runs of five steps each: steps, and starts against bare transactions"}, measure)
