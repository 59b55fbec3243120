"""Working off a queue of jobs that do nothing and are all there before: against Huey, RQ and Dramatiq.

`jobs/drain`   500,000 jobs in one process, with an fsync per commit

What is inside our clock is said in `jobs_play.py`, and inside theirs in `huey_jobs.py`, `rq_jobs.py` and
`dramatiq_jobs.py`. They are played with fewer jobs and compared by rate; `rivals.py` says how.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from bench import rivals
from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Drain, Report, rate
from bench.jobs_rivals import RIVALS, TRIAL
from bench.rivals import Rival
from bench.scratch import KEEPS

NAME = "jobs/drain"
JOBS, RIVAL_JOBS = 500_000, 5_000
REPEAT = 3
TIMES = {"huey": 50, "rq": 30, "dramatiq": 30}

OURS = "jobs"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """All in turns, or ours alone where the rivals cannot be installed."""
    jobs, fewer = setting.sized(JOBS, least=1_000), setting.sized(RIVAL_JOBS, least=100)
    reports: list[Report] = []
    contenders: dict[str, Contender] = {OURS: partial(rate, Drain(jobs), setting.folder, reports)}
    found: dict[str, Rival] = {}
    missing: tuple[str, ...] = ()
    try:
        found = {name: rivals.at_its_best(each, TRIAL, setting.folder) for name, each in RIVALS.items()}
    except rivals.Missing as reason:
        missing = (f"{', '.join(RIVALS)}: {reason}",)
    contenders |= {name: partial(rival.run, fewer, setting.folder) for name, rival in found.items()}
    rates = hold(contenders, setting.turns(REPEAT))
    yield figure(setting, rates, reports, fewer, found, missing)


def figure(
    setting: Setting,
    rates: Rates,
    reports: list[Report],
    fewer: int,
    found: Mapping[str, Rival],
    missing: tuple[str, ...],
) -> Figure:
    """The figure that follows from the rates of all."""
    ratios = {name: rates.ratio(OURS, name) for name in found}
    return Figure(
        name=NAME,
        value=rates.middle(OURS),
        unit="jobs/s",
        ratios=ratios,
        durability={OURS: KEEPS["power"]} | {name: rival.keeps for name, rival in found.items()},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"at least {', '.join(f'{times} x {name}' for name, times in TIMES.items())}",
            not missing and all(ratios[name].median >= times for name, times in TIMES.items()),
        ),
        more={
            "jobs": reports[0].tasks,
            "enqueued_per_s": significant(max(report.tasks / report.starting for report in reports)),
            "rates": {name: significant(rates.middle(name)) for name in found},
            "rival_jobs": fewer,
            "rival_settings": {name: rival.chosen for name, rival in found.items()},
            "peak_mb": significant(max(report.peak_mb for report in reports)),
        },
        missing=missing,
    )


SUITE = Suite({NAME: "500,000 jobs that do nothing, worked off, against Huey, RQ and Dramatiq"}, measure)
