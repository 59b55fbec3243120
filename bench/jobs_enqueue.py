"""Enqueuing: what it costs to have a job on disk before `enqueue` returns.

`jobs/enqueue-one`      5,000 jobs, one by one in one thread, against bare durable transactions of one row (`bare.py`)
`jobs/enqueue-threads`  20,000 jobs, one by one in each of 8 threads, against one thread; transactions a job
`jobs/enqueue-many`     500,000 jobs, 50,000 a call, against `store/sqlite-core`

What is inside the clock is said in `jobs_play.py`. The write-ahead log is warm on all sides but that of the store's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Bare, Enqueue, Report, rate
from bench.race import sqlite_core
from bench.scratch import KEEPS
from bench.tree import tree

REPEAT = 5
ONE, THREADS, MANY = "jobs/enqueue-one", "jobs/enqueue-threads", "jobs/enqueue-many"
SINGLE, TOGETHER, AT_ONCE = 5_000, 500_000, 50_000
CREW, EACH = 8, 2_500
LEAST_ONE, AIM_ONE, LEAST_MANY = 0.5, 0.7, 0.5
LEAST_GAIN, PER_COMMIT = 2, 4

ALONE, CROWD, BARE, BATCH, CORE = "one thread", "8 threads", "bare transactions", "many", "sqlite-core"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Only those whose figures are wanted, and whom these are compared with."""
    single, repeat = setting.sized(SINGLE, least=50), setting.turns(REPEAT)
    crowd: list[Report] = []
    contenders: dict[str, Contender] = {}
    if wanted & {ONE, THREADS}:
        contenders[ALONE] = partial(rate, Enqueue(single), setting.folder)
    if ONE in wanted:
        contenders[BARE] = partial(rate, Bare(single, warm=True), setting.folder)
    if THREADS in wanted:
        turn = Enqueue(CREW * setting.sized(EACH, least=50), threads=CREW)
        contenders[CROWD] = partial(rate, turn, setting.folder, crowd)
    if MANY in wanted:
        batch = Enqueue(setting.sized(TOGETHER, least=1_000), many=setting.sized(AT_ONCE, least=500))
        contenders[BATCH] = partial(rate, batch, setting.folder)
        contenders[CORE] = partial(sqlite_core, tree(setting.scale), setting.folder)
    rates = hold(contenders, repeat)
    if ONE in wanted:
        yield one(setting, rates, single)
    if THREADS in wanted:
        yield threads(setting, rates, crowd)
    if MANY in wanted:
        yield many(setting, rates, batch)


def one(setting: Setting, rates: Rates, jobs: int) -> Figure:
    """One thread against bare transactions."""
    share = rates.ratio(ALONE, BARE)
    bar = Bar(f"at least {LEAST_ONE} of bare transactions (aim {AIM_ONE})", share.median >= LEAST_ONE)
    return _figure(setting, rates, ONE, ALONE, BARE, bar, {"jobs": jobs, "bare_per_s": significant(rates.middle(BARE))})


def threads(setting: Setting, rates: Rates, reports: list[Report]) -> Figure:
    """Eight threads against one; the turn with the most transactions counts."""
    gain = rates.ratio(CROWD, ALONE)
    per_commit = min(report.tasks / report.commits for report in reports)
    bar = Bar(
        f"at most one commit for {PER_COMMIT} jobs, and at least {LEAST_GAIN} x one thread",
        per_commit >= PER_COMMIT and gain.median >= LEAST_GAIN,
    )
    more = {
        "jobs": reports[0].tasks,
        "jobs_a_commit": significant(per_commit),
        "commits": [report.commits for report in reports],
        "one_thread": significant(rates.middle(ALONE)),
    }
    return _figure(setting, rates, THREADS, CROWD, ALONE, bar, more)


def many(setting: Setting, rates: Rates, turn: Enqueue) -> Figure:
    """Many in a call against the store's own loop."""
    share = rates.ratio(BATCH, CORE)
    bar = Bar(f"at least {LEAST_MANY} of store/sqlite-core", share.median >= LEAST_MANY)
    more = {"jobs": turn.count, "jobs_a_call": turn.many, "sqlite_core": significant(rates.middle(CORE))}
    return _figure(setting, rates, MANY, BATCH, CORE, bar, more)


def _figure(
    setting: Setting, rates: Rates, name: str, ours: str, other: str, bar: Bar, more: Mapping[str, Any]
) -> Figure:
    return Figure(
        name=name,
        value=rates.middle(ours),
        unit="jobs/s",
        ratios={other: rates.ratio(ours, other)},
        durability=dict.fromkeys((ours, other), KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns[ours]),
        bar=bar,
        more=more,
    )


SUITE = Suite(
    {
        ONE: "jobs enqueued one by one in one thread, against bare transactions",
        THREADS: "jobs enqueued one by one in each of 8 threads, against one thread",
        MANY: "50,000 jobs a call, against store/sqlite-core",
    },
    measure,
)
