"""The tasks of the recovery figures that the frontier figures do not have. Every process of a program imports this.

The store is `bench.db` in the folder the process was started in, and all settings are the defaults, as in
`frontier_tasks`. The engine is another one, so that those who race there have no handlers but theirs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

from ramify import AsyncSpawns, Engine, Spawns

#: A killer adds a byte to this file, beside the store, each time it begins.
STARTS = "starts"
AFTER = 0.005
VICTIM_SECONDS = 0.002
LANE_RATE = 2

engine = Engine("bench.db")


@engine.task
def waves(width: int, length: int, ms: int) -> Spawns[None]:
    """The root of `width` chains of `length` tasks that wait."""
    for _ in range(width):
        yield wave.of(length - 1, ms)


@engine.task
async def wave(left: int, ms: int) -> AsyncSpawns[None]:
    """Wait on the event loop, and have one child that does the same."""
    await asyncio.sleep(ms / 1e3)
    if left:
        yield wave.of(left - 1, ms)


@engine.task(rate=f"{LANE_RATE}/s")
async def call(number: int) -> None:
    """Nothing; its lane says how often."""


def lanes(count: int, each: int) -> Spawns[None]:
    """The roots: as many calls in each lane."""
    for number in range(each):
        for lane in range(count):
            yield call.of(number).lane(f"lane {lane}")


ENDS: dict[str, Callable[[], object]] = {
    "crash": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSEGV),
    "exit": lambda: os._exit(9),
    "after": lambda: threading.Timer(AFTER, ENDS["crash"]).start(),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@engine.task
def victim(number: int, end: str) -> None:
    """Wait a moment, so that commits are far apart: a killer whose end is recorded before it kills is done. Or kill."""
    if end:
        with open(STARTS, "ab", buffering=0) as file:
            file.write(b".")
        ENDS[end]()
    else:
        time.sleep(VICTIM_SECONDS)
