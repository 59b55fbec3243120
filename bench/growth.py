"""Growth: does the rate hold, and how large is the file, when the log has grown to millions of tasks?

100 rounds of equal width; every task has one child, so the first and the last task cost the same and whatever changes
between them comes from the log. The figure compares the last fifth of the tasks with the first fifth of the same run.
Size is that of the closed file (with anything left beside it) divided by the tasks; arguments are about 10 bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.contest import Rates, say
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.scratch import KEEPS, bytes_of, folder_in
from bench.store_loop import Session, check_done, drain, start
from bench.tree import Chains
from ramify.store.open import open_store

NAME = "store/growth"
TASKS = 5_000_000
ROUNDS = 100
REPEAT = 3

Steps = Sequence[tuple[int, float]]


def fifths(steps: Steps, began: float) -> list[float]:
    """The rates of five equal shares of the tasks, from (tasks done, time) after each commit."""
    total = steps[-1][0]
    times = [began, *(_reached(steps, began, total * part / 5) for part in range(1, 6))]
    return [total / 5 / (after - before) for before, after in pairwise(times)]


def _reached(steps: Steps, began: float, wanted: float) -> float:
    done, at = 0, began
    for next_done, next_at in steps:
        if next_done >= wanted:
            return at + (next_at - at) * (wanted - done) / (next_done - done)
        done, at = next_done, next_at
    return at


def chains(setting: Setting, tasks: int) -> Chains:
    """Chains of `ROUNDS` tasks that add up to about `tasks` at this scale."""
    return Chains(setting.sized(tasks // ROUNDS), ROUNDS)


def fifths_figure(
    setting: Setting,
    name: str,
    runs: Sequence[Sequence[float]],
    sizes: Sequence[float],
    durability: str,
    bar: bool = False,
) -> Figure:
    """The figure of some runs, from the rates of their fifths and their bytes a task."""
    ratio = Rates({"first": [run[0] for run in runs], "last": [run[-1] for run in runs]}).ratio("last", "first")
    size = median(sizes)
    target = "last fifth at least 0.9 x the first, at most 200 bytes a task"
    return Figure(
        name=name,
        value=median(5 / sum(1 / rate for rate in run) for run in runs),
        unit="tasks/s",
        ratios={"first fifth": ratio},
        durability={name.removeprefix("store/"): durability},
        scale=setting.scale,
        repeat=len(runs),
        bar=Bar(target, ratio.median >= 0.9 and size <= 200) if bar else None,
        more={
            "bytes_per_task": significant(size),
            "fifths": [significant(median(rates)) for rates in zip(*runs, strict=True)],
        },
    )


def grow(work: Chains, folder: Path) -> tuple[list[float], float]:
    """The rates of the fifths of one run on SQLite, and the bytes a task in its closed file."""
    with folder_in(folder) as place:
        path = place / "bench.db"
        store = open_store(path)
        try:
            session = Session(store)
            began = time.monotonic()
            run = start(store, work)
            drained = drain(store, session, run, work)
            check_done(store, run, work)
            store.leave(session.process)
        finally:
            store.close()
        return fifths(drained.steps, began), bytes_of(path) / work.count


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Grow a few times."""
    work = chains(setting, TASKS)
    runs, sizes = [], []
    for turn in range(setting.turns(REPEAT)):
        say(f"growth ({turn + 1} of {setting.turns(REPEAT)}): {work.count:,} tasks")
        rates, size = grow(work, setting.folder)
        runs.append(rates)
        sizes.append(size)
    yield fifths_figure(setting, NAME, runs, sizes, KEEPS["power"], bar=True)


SUITE = Suite({NAME: "5 M tasks: the last fifth against the first, and bytes a task"}, measure)
