"""A program with two schedules, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.schedule_program

It is told what to do as `program.py` is. One schedule starts jobs and the other one runs; both have `SLOTS` slots of
`EVERY` microseconds, from the moment in the file `start` beside the store on, and catch up with all that they miss.
Each begun slot is a line of the file WITNESS. Options: `point` and `at` (kill itself there, the n-th time) and
`threads`. Verbs of the store have points of their own: `before-append`, `after-append`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from ramify import Engine, current
from ramify.kernel.settings import Settings
from ramify.shapes.cron.timetable import Timetable
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.job_program import Disturbed
from tests.crash.engine.programs import arm, options_of, saying, serve

#: More often than people may ask for: a test does not wait for seconds.
EVERY, SLOTS = 20_000, 30
NAMES = ("jobs", "runs")
START = "start"

engine = Engine("store.db", durability="process")
heard: list[Callable[[str], None]] = [lambda text: None]


@engine.task(max_crashes=None)
def beat(schedule: str) -> str:
    """Say at which slot it is."""
    slot = current().slot
    assert slot is not None
    heard[0](f"{schedule} {slot.at.isoformat()}")
    return slot.at.isoformat()


dag = engine.dag("beats")
dag.add(beat.of("runs"))

engine.schedule(lambda slot: beat.of("jobs"), name="jobs", every=1, catch_up="all", max_catch_up=9, overlap="queue")
engine.schedule(lambda slot: dag.of(), name="runs", every=1, catch_up="all", max_catch_up=9, overlap="allow")


def times_from(start: int) -> Timetable:
    """The slots of both schedules."""
    return Timetable(every=EVERY, start=start, end=start + (SLOTS - 1) * EVERY)


def open_at(file: Path, reach: Callable[[str], None] = lambda name: None) -> None:
    """Put the engine on a store, with slots from the moment on that is written beside it."""
    times = times_from(int(file.with_name(START).read_text()))
    for schedule in engine._schedules.values():
        schedule.declaration = msgspec.structs.replace(schedule.declaration, times=times, max_catch_up=SLOTS)
    engine._runtime.use(cast(Store, Disturbed(SqliteStore(file, durability="process"), reach)))


def is_over() -> bool:
    """Whether every slot has come and all that they started has ended."""
    reads = engine._runtime.store.reads
    return not reads.segments().rows and all(run.ended for run in engine.runs() if run.name and "runs/" in run.name)


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Work until all is over."""
    options = options_of(given)
    open_at(Path(file), arm(options))
    heard[0] = saying(witness)
    kernel = engine._runtime.kernel(Settings(threads=int(options.get("threads", "1")), beat_every=0.02))
    kernel.start()
    while not is_over():
        threading.Event().wait(0.005)
    kernel.stop()
    kernel.join()
    engine.close()


if __name__ == "__main__":
    serve("tests.crash.engine.schedule_program")
