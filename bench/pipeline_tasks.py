"""The tasks and pipelines of the pipeline figures, and the engine they belong to.

The store is `bench.db` in the folder the process was started in; all settings are the defaults. `quick` is the same
without an fsync per commit, for what is prepared off the clock.

`prepared` and `arrivals` belong to the process that runs the tasks.
"""

from __future__ import annotations

import time
from queue import SimpleQueue

from ramify import Engine, Stream, Tasks, steps

STORE = "bench.db"
STEPS = 5
GATE = "approval"

tasks = Tasks()
engine = Engine(STORE, include=[tasks])
quick = Engine(STORE, include=[tasks], durability="process")

#: One for each run that is about to reach its gate.
prepared: SimpleQueue[int] = SimpleQueue()

#: How long after its answer was sent each step behind a gate began, in seconds.
arrivals: SimpleQueue[float] = SimpleQueue()


@tasks.task
def numbers(count: int) -> list[int]:
    """What is expanded."""
    return list(range(count))


@tasks.task
def same(element: int) -> int:
    """The one step of an element."""
    return element


@tasks.task
def total(elements: Stream[int]) -> int:
    """What is collapsed, element by element."""
    return sum(elements)


@tasks.task
def increase(number: int) -> int:
    """One step of five."""
    return number + 1


@tasks.task
def prepare(number: int) -> int:
    """The step before a gate."""
    prepared.put(number)
    return number


@tasks.task
def decide(number: int, sent: int) -> None:
    """The step behind a gate, whose answer is when it was sent, in nanoseconds of the monotonic clock."""
    arrivals.put((time.monotonic_ns() - sent) / 1e9)


expanding = engine.pipeline("expanding", steps(numbers).expand(same).collapse(total))
small = engine.pipeline("small", steps(increase).chain(increase).chain(increase).chain(increase).chain(increase))
gated = engine.pipeline("gated", steps(prepare).gate(GATE, int).chain(decide))
