"""Many runs of a small pipeline: started one by one while nobody works, and then worked off.

`pipeline/small`   10,000 runs of five steps each, against DBOS and against chains of jobs on Procrastinate

The clock is around the working off, in one process (`pipeline_play.py`); starts are told as well. The rivals are played
with fewer runs and compared by rate; `rivals.py` says how.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from bench import rivals
from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Report, Steps, rate
from bench.pipeline_rivals import RIVALS, TRIAL
from bench.pipeline_tasks import STEPS
from bench.rivals import Rival
from bench.scratch import KEEPS

NAME = "pipeline/small"
RUNS, RIVAL_RUNS = 10_000, 500
REPEAT = 3
LEAST, AIM, TIMES = 5_000, 10_000, 10

OURS, STARTS = "pipelines", "starts"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """All in turns, or ours alone where the rivals cannot be installed."""
    runs, fewer = setting.sized(RUNS, least=20), setting.sized(RIVAL_RUNS, least=20)
    reports: list[Report] = []
    contenders: dict[str, Contender] = {OURS: partial(rate, Steps(runs), setting.folder, reports)}
    found: dict[str, Rival] = {}
    missing: tuple[str, ...] = ()
    try:
        found = {name: rivals.at_its_best(each, TRIAL, setting.folder) for name, each in RIVALS.items()}
    except rivals.Missing as reason:
        missing = (f"{' and '.join(RIVALS)}: {reason}",)
    contenders |= {name: partial(rival.run, fewer, setting.folder) for name, rival in found.items()}
    turns = hold(contenders, setting.turns(REPEAT)).turns
    rates = Rates({**turns, STARTS: [runs / report.starting for report in reports]})
    yield figure(setting, rates, runs, fewer, found, missing)


def figure(
    setting: Setting, rates: Rates, runs: int, fewer: int, found: Mapping[str, Rival], missing: tuple[str, ...]
) -> Figure:
    """The figure that follows from the rates of all."""
    steps = rates.middle(OURS)
    ratios = {name: rates.ratio(OURS, name) for name in found}
    return Figure(
        name=NAME,
        value=steps,
        unit="steps/s",
        ratios=ratios,
        durability={OURS: KEEPS["power"]} | {name: rival.keeps for name, rival in found.items()},
        scale=setting.scale,
        repeat=len(rates.turns[OURS]),
        bar=Bar(
            f"at least {LEAST:,} steps/s (aim {AIM:,}), and {TIMES} x each of {' and '.join(RIVALS)}",
            steps >= LEAST and not missing and all(ratio.median >= TIMES for ratio in ratios.values()),
        ),
        more={
            "runs": runs,
            "steps": runs * STEPS,
            "starts_per_s": significant(rates.middle(STARTS)),
            "rates": {name: significant(rates.middle(name)) for name in rates.turns if name != STARTS},
            "rival_runs": fewer,
            "rival_settings": {name: rival.chosen for name, rival in found.items()},
        },
        missing=missing,
    )


SUITE = Suite({NAME: "10,000 runs of five steps, worked off, against DBOS and chains on Procrastinate"}, measure)
