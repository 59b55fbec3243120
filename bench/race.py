"""The race over the tree: what share of a bare deque's rate is left when every task is kept.

`store/sqlite-core`  one process, a bare loop over the contract, every commit synced to disk
`store/sqlite-two`   two processes on the same file; wall time from the start of the run until both saw its end
`store/memory`       the same loop over the reference store

Time runs from the start of the run until `advance` says that it ended. Opening, entering, leaving and closing (with the
last checkpoint of the file) are outside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import deque
from bench.contest import Contender, Rates, hold
from bench.figure import Bar, Figure, Setting, Suite
from bench.scratch import KEEPS, memory_store, sqlite_store
from bench.store_loop import Session, check_done, drain, start
from bench.store_worker import crew
from bench.tree import Tree, Work, tree
from ramify.store.contract import Store

REPEAT = 5
CORE, TWO, MEMORY = "store/sqlite-core", "store/sqlite-two", "store/memory"


def sqlite_core(work: Work, folder: Path) -> float:
    """Tasks a second of one process on SQLite, durable against a power cut."""
    with sqlite_store(folder) as (store, _):
        return _alone(store, work)


def sqlite_two(work: Tree, folder: Path) -> float:
    """Tasks a second of two processes on one SQLite file."""
    with sqlite_store(folder) as (store, path):
        result = crew(store, path, work, 2)
        check_done(store, result.run, work)
    return work.count / result.seconds


def memory(work: Work) -> float:
    """Tasks a second of one process on the reference store."""
    with memory_store() as store:
        return _alone(store, work)


def _alone(store: Store, work: Work) -> float:
    session = Session(store)
    began = time.monotonic()
    run = start(store, work)
    drain(store, session, run, work)
    seconds = time.monotonic() - began
    check_done(store, run, work)
    store.leave(session.process)
    return work.count / seconds


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Race only those whose figures are wanted, and whom these are compared with."""
    work, repeat = tree(setting.scale), setting.turns(REPEAT)
    contenders: dict[str, Contender] = {"deque": partial(deque.run, work)}
    if wanted & {CORE, TWO}:
        contenders["sqlite-core"] = partial(sqlite_core, work, setting.folder)
    if TWO in wanted:
        contenders["sqlite-two"] = partial(sqlite_two, work, setting.folder)
    if MEMORY in wanted:
        contenders["memory"] = partial(memory, work)
    rates = hold(contenders, repeat)
    if CORE in wanted:
        yield _figure(setting, rates, work, "sqlite-core", ("deque",))
    if TWO in wanted:
        yield _figure(setting, rates, work, "sqlite-two", ("sqlite-core", "deque"))
    if MEMORY in wanted:
        yield _figure(setting, rates, work, "memory", ("deque",))


def _figure(setting: Setting, rates: Rates, work: Work, name: str, rivals: tuple[str, ...]) -> Figure:
    kept = {"deque": KEEPS["none"], "memory": KEEPS["none"]}
    return Figure(
        name=f"store/{name}",
        value=rates.middle(name),
        unit="tasks/s",
        ratios={rival: rates.ratio(name, rival) for rival in rivals},
        durability={side: kept.get(side, KEEPS["power"]) for side in (name, *rivals)},
        scale=setting.scale,
        repeat=len(rates.turns[name]),
        bar=_bar(rates, name),
        more={"tasks": work.count},
    )


def _bar(rates: Rates, name: str) -> Bar:
    share = rates.ratio(name, "deque").median
    match name:
        case "sqlite-core":
            return Bar("at least 0.12 of the deque (aim 0.2)", share >= 0.12)
        case "sqlite-two":
            gain = rates.ratio(name, "sqlite-core").median
            return Bar("at least 1.2 x one process, or 0.18 of the deque", gain >= 1.2 or share >= 0.18)
        case _:
            return Bar("at least 0.25 of the deque", share >= 0.25)


SUITE = Suite(
    {
        CORE: "one process on SQLite, fsync per commit, over the tree",
        TWO: "two processes on one SQLite file over the same tree",
        MEMORY: "one process on the reference store over the same tree",
    },
    measure,
)
