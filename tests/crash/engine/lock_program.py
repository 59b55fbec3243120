"""A program that fights for a lock with others, to be killed or frozen at any moment.

    python -m tests.crash.engine.lock_program

It is told what to do as `program.py` is. It acquires the lock again and again, and does its work in an outside system:
a file that knows the highest fence it has seen, and refuses work under one that is not above it. Lines of the file
WITNESS say what happened, each whole: `grant FENCE`, `done FENCE`, `refused FENCE`, `lost FENCE`,
`slow PROCESS`. It ends when there
is a file OVER beside it. As the work `hold` it only waits for the lock and keeps it.
"""

from __future__ import annotations

import fcntl
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from ramify import Engine, LockLost
from ramify.kernel.settings import Settings
from tests.crash.engine.programs import saying, serve

NAME = "prize"
OVER = "over"
#: A process that is silent for so long counts as dead.
DEAD_AFTER = 0.5
#: Most that it does between its grant and its work.
MOST_STEPS = 20_000
#: One grant in so many is slow, and says so with its process: whoever freezes it then has frozen a holder.
SLOW, LONG_STEPS = 40, 4_000_000


def engine_at(file: str | Path) -> Engine:
    """Return an engine on a store, with little patience."""
    engine = Engine(file, durability="process")
    engine._runtime.guest_settings = Settings(beat_every=0.05, dead_after=DEAD_AFTER)
    return engine


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Fight until it is over, or wait and hold."""
    say, over = saying(witness), Path(witness).with_name(OVER)
    engine, chance = engine_at(file), random.Random(seed)
    lock = engine.lock(NAME, wait=60)
    if work == "hold":
        with lock as held:
            print(held.fence, flush=True)
            sys.stdin.read()
        return
    while not over.exists():
        fence = 0
        try:
            with lock as held:
                fence = held.fence
                say(f"grant {fence}")
                is_slow = chance.randrange(SLOW) == 0
                if is_slow:
                    say(f"slow {os.getpid()}")
                for _ in range(LONG_STEPS if is_slow else chance.randrange(MOST_STEPS)):
                    pass
                outside(outside_of(witness), fence, say)
        except LockLost:
            say(f"lost {fence}")
    engine.close()


def outside(file: Path, fence: int, say: Callable[[str], None]) -> None:
    """Do work in a system that compares fences: it refuses who is not above all that came before."""
    with file.open("a+") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.seek(0)
        highest = int(opened.read().split()[-1:][0]) if os.fstat(opened.fileno()).st_size else 0
        if fence <= highest:
            say(f"refused {fence}")
            return
        opened.write(f"{fence}\n")
        opened.flush()
        say(f"done {fence}")


def outside_of(witness: str | Path) -> Path:
    """The file of the outside system."""
    return Path(witness).with_suffix(".highest")


def grants_in(witness: str | Path) -> int:
    """How many grants there were."""
    return Path(witness).read_text().count("grant")


if __name__ == "__main__":
    serve("tests.crash.engine.lock_program")
