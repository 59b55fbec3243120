"""A program whose tasks change values that all of them share, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.value_program

It is told what to do as `program.py` is. Several of them work on one store at a time. Each task counts itself, moves
something from one account to another and makes children; SEED draws how many. Outside of tasks, a thread counts as
well, and says so in lines of the file WITNESS: before it asks, and when it was answered. Options: `point` and `at`
(kill itself there, the n-th time), `tasks` (roots) and `threads`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ramify import Engine, Spawns, current
from ramify.kernel.settings import Settings
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.programs import arm, options_of, saying, serve

RUN = "counting"
ACCOUNTS = 4
#: The sum of all accounts, whatever is moved.
FUNDS = 1_000

engine = Engine("store.db", durability="process")


@engine.task(retries=0, max_crashes=None)
def count(seed: int, depth: int) -> Spawns[int]:
    """Count oneself; the number is the result."""
    chance = random.Random(seed)
    counters, accounts = current().values("counter", int), current().values("account", int)
    paying, paid = chance.sample(range(ACCOUNTS), 2)
    amount = chance.randrange(5)
    left = accounts.update(f"{paying}", lambda funds: funds - amount, default=FUNDS // ACCOUNTS)
    accounts.update(f"{paid}", lambda funds: funds + amount, default=FUNDS // ACCOUNTS)
    current().context.set(f"{seed}", left)
    for child in range(chance.randrange(3) if depth else 0):
        yield count.of(seed * 10 + child, depth - 1)
    return counters.update("done", lambda done: done + 1, default=0)


@engine.task(retries=0, max_crashes=None)
async def look(seed: int, depth: int) -> list[int]:
    """Look at all accounts, and say that somebody did: what was seen must have been there at one time."""
    accounts = current().values("account", int)
    seen = [accounts.get(f"{at}", FUNDS // ACCOUNTS) for at in range(ACCOUNTS)]
    current().values("look", int).set(f"{seed}", sum(seen))
    return seen


def open_at(file: str | Path) -> None:
    """Put the engine on a store."""
    engine._runtime.use(cast(Store, SqliteStore(file, durability="process")))


def main(given_work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work, until all of it is done."""
    options = options_of(given)
    arm(options)
    open_at(file)
    roots = [(look if at % 5 == 4 else count).of(100 + at, 2) for at in range(int(options.get("tasks", "30")))]
    run = engine.start(roots, name=RUN, order="any")
    is_over = threading.Event()
    outside = threading.Thread(target=tick, args=(saying(witness), is_over))
    outside.start()
    settings = Settings(runs=frozenset({run.id}), until_ended=True, threads=int(options["threads"]), beat_every=0.02)
    kernel = engine._runtime.kernel(settings)
    kernel.start()
    kernel.join()
    is_over.set()
    outside.join()
    engine.close()


def tick(say: Callable[[str], None], is_over: threading.Event) -> None:
    """Count from outside, now and then."""
    ticks = engine.values("counter", int)
    while not is_over.wait(0.02):
        say("ask")
        ticks.update("ticks", lambda before: before + 1, default=0)
        say("got")


if __name__ == "__main__":
    serve("tests.crash.engine.value_program")
