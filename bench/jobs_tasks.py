"""The tasks of the job figures, and the engine they belong to, on `bench.db` in the folder the process was started in.

All settings are the defaults, and so is durability: a power cut loses nothing.
"""

from __future__ import annotations

import time

from ramify import Engine, Tasks

tasks = Tasks()


@tasks.task(name="nothing")
def nothing(number: int) -> None:
    """Nothing at all."""


@tasks.task(name="busy")
def busy(number: int) -> None:
    """A tenth of a millisecond of processor time."""
    end = time.thread_time() + 1e-4
    while time.thread_time() < end:
        pass


@tasks.task(name="heavy", queue="warming")
def heavy(text: str) -> None:
    """Something that takes room in the log."""


engine = Engine("bench.db", include=[tasks])
