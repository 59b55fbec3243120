"""Turns of the frontier figures: each in a process and a folder of its own, so that no turn inherits memory or threads.

A turn is a value. It goes to `python -m bench.frontier_player` as JSON, and a `Report` comes back the same way. Every
contender is treated so, the deque included. Starting Python and importing are off the clock.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec

from bench.contest import say
from bench.scratch import folder_in
from bench.tree import DEPTH

ROOT = Path(__file__).parent.parent
PATIENCE = 1800.0


class Turn(msgspec.Struct, frozen=True, tag=True):
    """Something to run and measure."""


class Deque(Turn, frozen=True):
    """The yardstick over a tree of this depth."""

    depth: int


class Pool(Turn, frozen=True):
    """`ThreadPoolExecutor.map` over a tree of this depth."""

    depth: int


class Grow(Turn, frozen=True):
    """The engine over a tree of this depth. Without threads it decides itself how many."""

    depth: int
    threads: int | None = None
    processes: int = 0


class Compute(Turn, frozen=True):
    """The engine over tasks of one millisecond of processor time."""

    count: int
    processes: int = 0


class Chain(Turn, frozen=True):
    """The engine over chains; the report has the time at which each round began."""

    width: int
    length: int


class Widen(Turn, frozen=True):
    """The engine over one task with very many children."""

    count: int


class Nap(Turn, frozen=True):
    """The engine over tasks that wait `ms`; without `ms`, over short waits with a few long ones among them."""

    count: int
    ms: int | None
    threads: int | None = None
    processes: int = 0


class Turned(Turn, frozen=True):
    """The engine over tasks of which a tenth is turned away once: they defer themselves, or fail and are retried."""

    count: int
    defers: bool


class Lanes(Turn, frozen=True):
    """The engine over tasks that do nothing, each in a lane of its own or in none; `limited` to one in each lane."""

    count: int
    own: bool
    limited: bool = False


class LaneCrowd(Turn, frozen=True):
    """The engine over tasks that do nothing, in so many lanes in turn; `most` of each run at a time in all processes.

    `beside`: the program has a limit, which covers none of them.
    """

    count: int
    lanes: int
    most: int | None = None
    beside: bool = False


class Forks(Turn, frozen=True):
    """The engine over tasks that fork into eight, so many levels deep, and add up what came of the level below."""

    depth: int


class Small(Turn, frozen=True):
    """Many runs of few steps in one process: first all are started, then worked off; `mixed`: both at a time."""

    runs: int
    steps: int
    mixed: bool = False


class Nodes(Turn, frozen=True):
    """The engine over a DAG of this shape (`graph.py`), of about so many nodes; with `starts` it is only started."""

    shape: Literal["layers", "chain", "diamonds"]
    count: int
    starts: bool = False


class FanIn(Turn, frozen=True):
    """The engine over maps of so many items, whose results are added up."""

    count: int


class Expand(Turn, frozen=True):
    """A pipeline that expands into so many elements of one step each, and collapses them."""

    count: int


class Steps(Turn, frozen=True):
    """So many runs of a pipeline of five steps, all started before anybody works on them."""

    runs: int


class Gates(Turn, frozen=True):
    """So many runs at a gate: an idle stretch of `idle` s, then answers from the same process and from another."""

    runs: int
    samples: int
    idle: float


class Bare(Turn, frozen=True):
    """Durable transactions of one small row each, on a file with the settings of the store.

    `warm`: the write-ahead log has its size before, and is written from its beginning again.
    """

    count: int
    warm: bool = False


class Ping(Turn, frozen=True):
    """Lone tasks on an idle engine, from the same process and from another, and then an idle stretch of `idle` s.

    They are tasks of one run, or `jobs`.
    """

    samples: int
    idle: float
    jobs: bool = False


class Enqueue(Turn, frozen=True):
    """So many jobs, one by one in each of so many threads, with a warm log; with `many`, so many in each call."""

    count: int
    threads: int = 1
    many: int = 1


class Drain(Turn, frozen=True):
    """So many jobs that are all there before anybody works on them."""

    count: int


class Waiting(Turn, frozen=True):
    """Enqueue and claim with so many jobs waiting and with none, in turns."""

    count: int
    samples: int


class Retain(Turn, frozen=True):
    """So many jobs with work in them, beside so many that ended two days ago, which are forgotten meanwhile or not."""

    count: int
    old: int
    forgets: bool


class Schedules(Turn, frozen=True):
    """So many schedules: an idle stretch of `idle` s, then a slot of each, spread over `seconds` and at one moment."""

    count: int
    seconds: float
    idle: float


Turns = (
    Deque
    | Pool
    | Grow
    | Compute
    | Chain
    | Widen
    | Nap
    | Turned
    | Lanes
    | LaneCrowd
    | Forks
    | Nodes
    | FanIn
    | Small
    | Expand
    | Steps
    | Gates
    | Bare
    | Ping
    | Enqueue
    | Drain
    | Waiting
    | Retain
    | Schedules
)


class Report(msgspec.Struct, frozen=True):
    """What came of a turn. What it does not measure is left empty. `peak_mb` is the most memory of the process itself.

    `tasks` and `seconds` are what the rate is made of. `working` is the time from the first start of a waiting task to
    the last end, without the starting of worker processes, and `shared` how many each process ran. `starting` is the
    time in which runs were started. `same` and `other` are in seconds. `defining` is the time in which a DAG was
    defined, and `defined_kb` the memory that it took. `commits` is how many transactions there were, `samples` are
    seconds by what was sampled, and `forgotten` is how many jobs went meanwhile.
    """

    tasks: int
    seconds: float
    peak_mb: float
    began: float = 0.0
    marks: list[float] = []
    working: float = 0.0
    shared: list[int] = []
    starting: float = 0.0
    same: list[float] = []
    other: list[float] = []
    idle_cpu: float = 0.0
    defining: float = 0.0
    defined_kb: float = 0.0
    commits: int = 0
    samples: dict[str, list[float]] = {}
    forgotten: int = 0

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds


def take(turn: Turns, folder: Path) -> Report:
    """Play one turn in a fresh folder below `folder`."""
    with folder_in(folder) as place:
        command = [sys.executable, "-m", "bench.frontier_player", msgspec.json.encode(turn).decode()]
        done = subprocess.run(
            command, cwd=place, env=environment(), stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{turn} ended with exit code {done.returncode}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Report)


def take_all(turn: Turns, folder: Path, repeat: int, what: str) -> list[Report]:
    """Play it a few times; whoever watches is told of each."""
    reports = []
    for number in range(1, repeat + 1):
        say(f"{what} ({number} of {repeat})")
        reports.append(take(turn, folder))
    return reports


def rate(turn: Turns, folder: Path, reports: list[Report] | None = None) -> float:
    """How fast one turn went; its report is added to `reports`."""
    report = take(turn, folder)
    if reports is not None:
        reports.append(report)
    return report.rate


def environment() -> dict[str, str]:
    """What a process needs to find this package from another folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def levels(scale: float) -> int:
    """The depth of the tree nearest in size to `scale` times the full one; here trees are cut by whole levels.

    A handler knows nothing but its arguments, and those are the same on all sides.
    """
    return max(1, DEPTH + round(math.log10(scale)))
