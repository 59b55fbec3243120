"""A program that enqueues creations and operations behind them, and works on both, to be killed at any moment.

    python -m tests.crash.engine.operation_program

It is told what to do as `job_program.py` is. There are `many` creations, of which every tenth fails and one is
cancelled; `each` operations are asked for behind each of them, some of which fail, and one of which is cancelled while
it waits. Two programs with different `names` may ask for operations behind the same creations. What it asks for, what
it is answered, and the start of each attempt are lines of the file WITNESS.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

from ramify import Backoff, Engine, Fatal, Job, current
from ramify.kernel.settings import Settings
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.job_program import Disturbed, answers
from tests.crash.engine.programs import arm, options_of, saying, serve

QUEUES = ("default", "changes")
ENQUEUERS = 3
#: Every so many-th of the creations fails; the number of the one that is cancelled.
FAILS, CANCELLED = 10, 3
#: The number of an operation that fails, of one that is tried twice, and of one that is cancelled while it waits.
FAILED, TWICE, LEAVES = 1, 2, 3

engine = Engine("store.db", durability="process")
heard: list[Callable[[str], None]] = [lambda text: None]


def fails(creation: int) -> bool:
    """Whether it does."""
    return creation % FAILS == FAILS - 1


@engine.task(max_crashes=None)
def create(number: int) -> int:
    """Create something, or fail to."""
    heard[0](f"run {current().task}")
    if fails(number):
        raise Fatal("there is none")
    return number


@engine.task(queue="changes", retries=1, backoff=Backoff(first=0.002, jitter=False), max_crashes=None)
def change(number: int, name: str, at: int) -> str:
    """Change what was created."""
    heard[0](f"run {current().task}")
    if at == FAILED:
        raise Fatal("not this one")
    if at == TWICE and current().attempt == 1:
        raise RuntimeError("not this time")
    return name


class Script:
    """What a program asks for, under a name of its own."""

    def __init__(self, name: str, each: int, known: dict[str, list[int]]) -> None:
        self._name, self._each, self._known = name, each, known

    def play(self, number: int) -> None:
        """Ask for one creation and the operations behind it, or for what is left of them."""
        creation = self._ask(
            f"{number}/{self._name}",
            lambda: engine.enqueue(create.of(number).unique(f"{number}").delay(0.02)),
        )
        if number == CANCELLED:
            creation.cancel("not needed")
        jobs: list[Job[Any]] = []
        for at in range(self._each):
            call = change.of(number, self._name, at)
            # Some in the queue of the creation. What was perhaps added before a kill is found by its key.
            call = call.queue("default") if at % 3 == 0 else call
            question = f"{number}/{self._name}.{at}"
            jobs.append(self._ask(question, partial(engine.enqueue, call.unique(question), after=creation)))
        if len(jobs) > LEAVES:
            jobs[LEAVES].cancel("not needed")

    def _ask(self, question: str, enqueue: Callable[[], Job[Any]]) -> Job[Any]:
        if question in self._known:
            return engine.job(self._known[question][0])
        heard[0](f"ask {question}")
        job = enqueue()
        heard[0](f"got {question} {job.id}")
        return job


def pending() -> int:
    """How many jobs have not ended."""
    return sum(engine.queue(name).pending for name in QUEUES)


def open_at(file: str | Path, reach: Callable[[str], None] = lambda name: None) -> None:
    """Put the engine on a store."""
    engine._runtime.use(cast(Store, Disturbed(SqliteStore(file, durability="process"), reach)))


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work."""
    options = options_of(given)
    open_at(file, arm(options))
    heard[0] = saying(witness)
    script = Script(options.get("name", "a"), int(options.get("each", "5")), answers(Path(witness)))
    kernel = engine._runtime.kernel(Settings(threads=int(options.get("threads", "2")), beat_every=0.02))
    kernel.start()
    with ThreadPoolExecutor(1 if "point" in options else ENQUEUERS) as pool:
        list(pool.map(script.play, range(int(options.get("many", "12")))))
    while pending():
        threading.Event().wait(0.002)
    kernel.stop()
    kernel.join()
    engine.close()


if __name__ == "__main__":
    serve("tests.crash.engine.operation_program")
