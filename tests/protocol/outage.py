"""The store was away for longer than dead_after: who reaps whom when it is back? (P10)

Three processes beat once a tick; the store goes away and comes back; each process notices that at its own moment, a
little later than the first. Checked: F no live process is reaped, L a dead one is.

Limits: a live process is back within dead_after of the first one (one that is not is taken for dead, rightly, and its
token fences it); one outage of any length, one crash; frozen processes are in `core` and `beat`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

from tests.protocol.checker import Case, Label

PROCESSES, DEAD, LATEST = 3, 4, 3


class Process(NamedTuple):
    silent: int = 0  #: age of its last beat, by the store
    clean: int = DEAD  #: how long it has itself beaten without a gap
    back_in: int = 0  #: ticks until it notices that the store is back
    alive: bool = True
    reaped: bool = False


class Cluster(NamedTuple):
    processes: tuple[Process, ...] = (Process(),) * PROCESSES
    away: bool = False
    outages: int = 1
    crashes: int = 1


@dataclass(frozen=True)
class Outage:
    clean_window: bool

    def start(self) -> Cluster:
        return Cluster()

    def moves(self, now: Cluster) -> Iterator[tuple[Label, bool, Cluster]]:
        yield Label("a tick passes"), False, now._replace(processes=tuple(tick(p, now.away) for p in now.processes))
        if now.away:
            for delays in product(range(LATEST + 1), repeat=PROCESSES):
                back = tuple(p._replace(back_in=delay) for p, delay in zip(now.processes, delays, strict=True))
                label = Label(f"the store is back; noticed after {delays} ticks")
                yield label, False, now._replace(away=False, processes=back)
        elif now.outages:
            yield Label("the store goes away"), True, now._replace(away=True, outages=now.outages - 1)
        for i, process in enumerate(now.processes):
            if process.alive and now.crashes:
                dead = replaced(now, i, process._replace(alive=False, clean=0, back_in=0))
                yield Label("is killed", i), True, dead._replace(crashes=now.crashes - 1)
            if process.silent > DEAD and not process.reaped and self.somebody_may_reap(now):
                yield Label("is reaped", i), False, replaced(now, i, process._replace(reaped=True))

    def somebody_may_reap(self, now: Cluster) -> bool:
        """A reaper reaches the store, and (the rule) has itself beaten without a gap for dead_after."""
        return not now.away and any(
            p.alive and not p.back_in and (p.clean >= DEAD or not self.clean_window) for p in now.processes
        )

    def canonical(self, now: Cluster) -> Cluster:
        return now._replace(processes=tuple(sorted(now.processes)))

    def wrong(self, now: Cluster) -> str:
        mistaken = any(p.alive and p.reaped for p in now.processes)
        return "F a live process was reaped for the store's absence" if mistaken else ""

    def ended(self, now: Cluster) -> bool:
        return all(p.alive or p.reaped for p in now.processes)


def tick(p: Process, away: bool) -> Process:
    if p.alive and not away and not p.back_in:
        return p._replace(silent=0, clean=min(p.clean + 1, DEAD))
    return p._replace(silent=min(p.silent + 1, DEAD + 1), clean=0, back_in=max(p.back_in - 1, 0))


def replaced(now: Cluster, i: int, process: Process) -> Cluster:
    return now._replace(processes=(*now.processes[:i], process, *now.processes[i + 1 :]))


CASES = (
    Case(
        "outage/clean-window",
        partial(Outage, True),
        "A process may reap only after beating without a gap for dead_after.",
    ),
    Case(
        "outage/at-once",
        partial(Outage, False),
        "Reap whoever is silent, as soon as the store is back: the first to return reaps all the others.",
        "F",
    ),
)
