"""The tasks of the frontier figures, and the engine they belong to. Every process of a turn imports this module.

The store is `bench.db` in the folder the process was started in, so a turn is given its store by being started in a
fresh folder; worker processes inherit the folder. All settings are the defaults, and so is durability: a power cut
loses nothing.

`marks`, `arrivals` and `turned_away` belong to the process that runs the tasks; turns that read them use one process.
"""

from __future__ import annotations

import os
import random
import time
from queue import SimpleQueue

from bench.tree import FAN_OUT
from ramify import Backoff, Defer, Engine, Spawns, Stream, current

SEED = 3
FORK = 8
SHORT_MS, LONG_MS, LONG_SHARE = 1, 1000, 0.01
CALL_MS, AWAY_SECONDS = 50, 1.0

engine = Engine("bench.db")

#: When each round of `chains` began, on the monotonic clock.
marks: list[float] = []

#: The tasks that were turned away once.
turned_away: set[int] = set()

#: How long after it was sent each `ping` began, in seconds.
arrivals: SimpleQueue[float] = SimpleQueue()


@engine.task
def node(path: int, depth: int) -> Spawns[None]:
    """A task of `bench/tree.py`, with nothing to do but have children."""
    if depth:
        depth -= 1
        first = path * FAN_OUT + 1
        for child in range(first, first + FAN_OUT):
            yield node.of(child, depth)


@engine.task
def chains(width: int, length: int) -> Spawns[None]:
    """The root of `width` chains of `length` tasks."""
    for path in range(1, width + 1):
        yield chain.of(path, length - 1)


@engine.task
def chain(path: int, left: int) -> Spawns[None]:
    """One task of a chain. The first chain, which comes first in every round, writes down when that was."""
    if path == 1:
        marks.append(time.monotonic())
    if left:
        yield chain.of(path, left - 1)


@engine.task
def wide(count: int) -> Spawns[None]:
    """One task with very many children."""
    for number in range(count):
        yield leaf.of(number)


@engine.task
def leaf(number: int) -> None:
    """Nothing at all."""


@engine.task
def crowd(count: int) -> Spawns[None]:
    """The root of `count` tasks that compute."""
    for number in range(count):
        yield busy.of(number)


@engine.task
def busy(number: int) -> None:
    """Compute for one millisecond of this thread's own processor time."""
    until = time.thread_time_ns() + 1_000_000
    while time.thread_time_ns() < until:
        pass


@engine.task
def naps(count: int, ms: int) -> Spawns[None]:
    """The root of `count` tasks that wait equally long."""
    for number in range(count):
        yield nap.of(number, ms)


@engine.task
def mixed(count: int) -> Spawns[None]:
    """The root of short waits with a few long ones among them, in the same random places every time."""
    long = frozenset(random.Random(SEED).sample(range(count), round(count * LONG_SHARE)))
    for number in range(count):
        yield nap.of(number, LONG_MS if number in long else SHORT_MS)


@engine.task
def nap(number: int, ms: int) -> tuple[int, float, float]:
    """Wait. The result: the process, and from when until when on the monotonic clock, which processes share."""
    began = time.monotonic()
    time.sleep(ms / 1e3)
    return os.getpid(), began, time.monotonic()


@engine.task
def calls(count: int, defers: bool) -> Spawns[None]:
    """The root of `count` tasks that wait, of which every tenth is turned away the first time."""
    for number in range(count):
        yield call.of(number, defers)


@engine.task(backoff=Backoff(first=AWAY_SECONDS, jitter=False))
def call(number: int, defers: bool) -> None:
    """Wait; every tenth then defers itself, or fails and is retried after as long."""
    time.sleep(CALL_MS / 1e3)
    if number % 10 == 0 and number not in turned_away:
        turned_away.add(number)
        raise Defer(AWAY_SECONDS) if defers else ConnectionError


@engine.task
def scatter(count: int, own: bool, limited: bool) -> Spawns[None]:
    """The root of `count` tasks that do nothing, each in a lane of its own if told to."""
    kind = alone if limited else leaf
    for number in range(count):
        yield kind.of(number).lane(str(number)) if own else kind.of(number)


@engine.task(concurrency=1)
def alone(number: int) -> None:
    """Nothing at all, one at a time in each lane."""


@engine.task
def step(run: int, left: int) -> Spawns[None]:
    """One step of a small run, which makes the next."""
    if left:
        yield step.of(run, left - 1)


@engine.task
def ping(sent: int) -> None:
    """Tell how long ago it was sent; `sent` is in nanoseconds of the monotonic clock."""
    arrivals.put((time.monotonic_ns() - sent) / 1e9)


@engine.task
def fork(depth: int) -> int:
    """A task that waits for eight of its kind, or for nobody at the bottom."""
    if depth:
        current().spawn(*(fork.of(depth - 1) for _ in range(FORK)), then=add_up.of())
        return 0
    return 1


@engine.task
def add_up(parts: Stream[int] = Stream()) -> int:
    """What came of the eight together."""
    return sum(parts)
