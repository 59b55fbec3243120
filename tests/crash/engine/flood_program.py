"""A program that publishes very much and handles it three times, to be killed at any moment.

    python -m tests.crash.engine.flood_program

It is told what to do as `program.py` is. Several of them work on one store at a time. Options: `tasks` (how many
publish), `each` (how many numbers each of them publishes) and `threads`. It ends when all is handled.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

from ramify import Engine, Published
from ramify.inspect.topics import topics
from ramify.kernel.settings import Settings
from ramify.model.job import QUEUES
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.programs import options_of, serve

RUN = "flood"
READERS = ("one", "two", "three")

engine = Engine("store.db", durability="process")
numbers = engine.topic("numbers", int)


@engine.task(max_crashes=None)
def pour(first: int, many: int) -> None:
    """Publish numbers."""
    numbers.publish_many(range(first, first + many))


@engine.on(numbers, max_crashes=None)
def one(number: int) -> None:
    """Handle each number."""


@engine.on("num*", max_crashes=None, queue="second")
def two(number: int) -> None:
    """Handle each number."""


@engine.on(numbers, max_crashes=None, queue="third")
def three(event: Published[int]) -> None:
    """Handle each number."""


def open_at(file: str | Path) -> None:
    """Put the engine on a store."""
    engine._runtime.use(cast(Store, SqliteStore(file, durability="process")))


def main(given_work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Publish and handle, until all of it is done."""
    options = options_of(given)
    open_at(file)
    many, each = int(options["tasks"]), int(options["each"])
    settings = Settings(threads=int(options["threads"]), beat_every=0.1, dead_after=2.0)
    kernel = engine._runtime.kernel(settings)
    run = engine.start([pour.of(each * at, each) for at in range(many)], name=RUN, order="any")
    kernel.start()
    pause = threading.Event()
    while not (run.wait(60) and is_through()):
        pause.wait(0.2)
    kernel.stop()
    kernel.join()
    engine.close()


def is_through() -> bool:
    """Return whether nothing is left to be handled."""
    store = engine._runtime.store
    if any(reader.lag for view in topics(store) for reader in view.readers):
        return False
    queues = [store.reads.find_run(QUEUES + name) for name in ("default", "second", "third")]
    return all(queue is None or not store.reads.segments(run=queue.id, limit=1).rows for queue in queues)


if __name__ == "__main__":
    serve("tests.crash.engine.flood_program")
