"""The engine over the tree, all settings default: against the deque, a pool of threads, Huey, and two processes of it.

`frontier/one-process`        `engine.run(node.of(0, 6))` in one process, every commit synced to disk
`frontier/two-processes`      the same with `processes=2`
`frontier/two-processes-cpu`  20,000 tasks of 1 ms of processor time each, one process against two

The clock is around `engine.run`, which opens the store and starts and ends the worker processes. Huey runs a smaller
tree and is compared by its rate; see `frontier_rivals.py`. Every turn is a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_rivals import SETTINGS, Huey, at_its_best
from bench.frontier_turn import Compute, Deque, Grow, Pool, Turns, levels, rate
from bench.rivals import Missing
from bench.scratch import KEEPS
from bench.tree import Tree

REPEAT = 5
ONE, TWO, CPU = "frontier/one-process", "frontier/two-processes", "frontier/two-processes-cpu"
HUEY_SHARE = 0.01
CPU_TASKS = 20_000
LIKE_OURS = "huey, default"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Race only those whose figures are wanted, and whom these are compared with."""
    if wanted & {ONE, TWO}:
        yield from _trees(setting, wanted)
    if CPU in wanted:
        yield _cpu(setting)


def _trees(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    depth, small = levels(setting.scale), Tree(max(2, levels(setting.scale * HUEY_SHARE)))
    turns: dict[str, Turns] = {"deque": Deque(depth), "one process": Grow(depth)}
    hueys: dict[str, Huey] = {}
    missing: tuple[str, ...] = ()
    if ONE in wanted:
        turns["pool"] = Pool(depth)
        try:
            hueys = {name: at_its_best(fsync, setting.folder) for name, (fsync, _) in SETTINGS.items()}
        except Missing as reason:
            missing = (f"huey: {reason}",)
    if TWO in wanted:
        turns["two processes"] = Grow(depth, processes=2)
    contenders: dict[str, Contender] = {name: partial(rate, turn, setting.folder) for name, turn in turns.items()}
    contenders |= {name: partial(huey.run, small, setting.folder) for name, huey in hueys.items()}
    rates = hold(contenders, setting.turns(REPEAT))
    tasks = Tree(depth).count
    if ONE in wanted:
        yield _one(setting, rates, tasks, small.count, hueys, missing)
    if TWO in wanted:
        yield _two(setting, rates, tasks)


def _one(
    setting: Setting, rates: Rates, tasks: int, huey_tasks: int, hueys: dict[str, Huey], missing: tuple[str, ...]
) -> Figure:
    ratios = {name: rates.ratio("one process", name) for name in ("deque", "pool", *hueys)}
    beats_huey = LIKE_OURS in ratios and ratios[LIKE_OURS].median >= 25
    return Figure(
        name=ONE,
        value=rates.middle("one process"),
        unit="tasks/s",
        ratios=ratios,
        durability={
            "one process": KEEPS["power"],
            "deque": KEEPS["none"],
            "pool": KEEPS["none"],
            **{name: SETTINGS[name][1] for name in hueys},
        },
        scale=setting.scale,
        repeat=len(rates.turns["one process"]),
        bar=Bar(
            "at least 0.10 of the deque (aim 1/6), 2 x the pool, 25 x Huey with an fsync per commit as here",
            ratios["deque"].median >= 0.10 and ratios["pool"].median >= 2 and beats_huey,
        ),
        more={
            "tasks": tasks,
            "rates": {name: significant(rates.middle(name)) for name in ratios},
            "huey_tasks": huey_tasks,
            "huey_workers": {name: huey.crew for name, huey in hueys.items()},
        },
        missing=missing,
    )


def _two(setting: Setting, rates: Rates, tasks: int) -> Figure:
    gain, share = rates.ratio("two processes", "one process"), rates.ratio("two processes", "deque")
    return Figure(
        name=TWO,
        value=rates.middle("two processes"),
        unit="tasks/s",
        ratios={"one process": gain, "deque": share},
        durability={"two processes": KEEPS["power"], "one process": KEEPS["power"], "deque": KEEPS["none"]},
        scale=setting.scale,
        repeat=len(rates.turns["two processes"]),
        bar=Bar("at least 1.15 x one process, or 0.14 of the deque", gain.median >= 1.15 or share.median >= 0.14),
        more={"tasks": tasks},
    )


def _cpu(setting: Setting) -> Figure:
    count = setting.sized(CPU_TASKS, least=100)
    contenders = {
        "one process": partial(rate, Compute(count), setting.folder),
        "two processes": partial(rate, Compute(count, processes=2), setting.folder),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    gain = rates.ratio("two processes", "one process")
    return Figure(
        name=CPU,
        value=rates.middle("two processes"),
        unit="tasks/s",
        ratios={"one process": gain},
        durability=dict.fromkeys(contenders, KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns["two processes"]),
        bar=Bar("at least 1.7 x one process", gain.median >= 1.7),
        more={"tasks": count, "one_process": significant(rates.middle("one process"))},
    )


SUITE = Suite(
    {
        ONE: "the engine in one process over the tree, against the deque, a pool of threads and Huey",
        TWO: "the engine in two processes over the same tree",
        CPU: "20,000 tasks of 1 ms of processor time: two processes against one",
    },
    measure,
)
