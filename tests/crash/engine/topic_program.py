"""A program that publishes and handles what is published, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.topic_program

It is told what to do as `program.py` is. Several of them work on one store at a time. Tasks of a run publish numbers,
some only at the second try; readers handle each of them, one in order per key, one by hand. Lines of the file WITNESS
say what happened: `ship KEY NUMBER` when an attempt of the ordered reader begins, `ask` and `got` around what is
published outside of tasks. It ends when all is handled. Options: `point` and `at` (kill itself there, the n-th time),
`tasks` (how many publish), `each` (how many numbers each of them publishes) and `threads`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ramify import Backoff, Engine, Published, current
from ramify.inspect.topics import topics
from ramify.kernel.settings import Settings
from ramify.model.job import QUEUES
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.programs import arm, options_of, saying, serve

RUN = "pouring"
KEYS = 7
TICKS = 20
#: Readers that make tasks.
READERS = ("bill", "ship", "sum up")
SOON = Backoff(first=0.002, jitter=False)

engine = Engine("store.db", durability="process")
numbers = engine.topic("numbers.poured", int)
ticks = engine.topic("numbers.ticked", int)
#: How this process says what happened.
says: list[Callable[[str], None]] = []


@engine.task(retries=3, backoff=SOON, max_crashes=None)
def pour(first: int, many: int) -> None:
    """Publish numbers; every fifth time only at the second try."""
    numbers.publish_many(range(first, first + many), key=lambda number: f"{number % KEYS}")
    if first // many % 5 == 3 and current().attempt == 1:
        raise ConnectionError("not yet")


@engine.on(numbers, max_crashes=None)
def bill(number: int) -> None:
    """Handle each number."""


@engine.on(numbers, ordered=True, retries=3, backoff=SOON, max_crashes=None)
def ship(event: Published[int]) -> None:
    """Handle those of a key in order; some only at the second try."""
    for say in says:
        say(f"ship {event.key} {event.number}")
    if event.value % 11 == 5 and current().attempt == 1:
        raise ConnectionError("not yet")


@engine.on("numbers.*", name="sum up", since=0, max_crashes=None)
def sum_up(event: Published[int]) -> None:
    """Handle those of several topics."""


@engine.task(max_crashes=None)
def take_in(most: int) -> list[int]:
    """Read some by hand."""
    taken: list[int] = []
    for each in numbers.read("hand"):
        taken.append(each.number)
        if len(taken) == most:
            break
    return taken


def open_at(file: str | Path) -> None:
    """Put the engine on a store."""
    engine._runtime.use(cast(Store, SqliteStore(file, durability="process")))


def main(given_work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Publish and handle, until all of it is done."""
    options = options_of(given)
    arm(options)
    open_at(file)
    says[:] = [saying(witness)]
    many, each = int(options.get("tasks", "20")), int(options.get("each", "10"))
    settings = Settings(threads=int(options["threads"]), beat_every=0.02, dead_after=0.5)
    kernel = engine._runtime.kernel(settings)
    run = engine.start([pour.of(each * at, each) for at in range(many)] + [take_in.of(7)] * 5, name=RUN, order="any")
    kernel.start()
    pause = threading.Event()
    for at in range(TICKS if given_work == "tick" else 0):
        says[0]("ask")
        ticks.publish(at)
        says[0]("got")
    while not (run.wait(60) and is_through()):
        pause.wait(0.02)
    kernel.stop()
    kernel.join()
    engine.close()


def is_through() -> bool:
    """Return whether nothing is left to be handled."""
    store = engine._runtime.store
    if any(reader.lag for view in topics(store) for reader in view.readers if reader.stored.kind):
        return False
    queue = store.reads.find_run(f"{QUEUES}default")
    return queue is None or not store.reads.segments(run=queue.id, limit=1).rows


if __name__ == "__main__":
    serve("tests.crash.engine.topic_program")
