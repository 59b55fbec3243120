"""Locks: what it costs to hold one that nobody else wants, and how soon the next in line has one that was released.

`coordination/lock-pairs`     a lock acquired and released again and again in one thread, against bare durable
                              transactions of one row (`bare.py`). Beside it, redis-py's Lock on a Redis that syncs its
                              log with every command, as it is acquired and released in the same way
`coordination/lock-handover`  from just before a release in one process until the block of the next one begins in
                              another, which has waited for some time. It holds the commit of the release

The first grant of a name, which takes fences for it, is off the clock.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import bare, redis_locks, rivals
from bench.contest import Contender, Rates, hold, say
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_latency import percentile
from bench.frontier_turn import environment
from bench.scratch import KEEPS, folder_in
from ramify import Engine
from ramify.inspect.locks import locks

PAIRS, HANDOVER = "coordination/lock-pairs", "coordination/lock-handover"
COUNT, SAMPLES, REPEAT = 2_000, 200, 5
LEAST, AIM, MOST_MS = 0.15, 0.3, 10
OURS, BARE, REDIS = "lock pairs", "bare transactions", "redis-py lock"
PAUSE = (0.05, 0.25)
PATIENCE = 30.0
NAME = "report"
SEED = 7


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Measure those that are wanted."""
    if PAIRS in wanted:
        count, missing = setting.sized(COUNT, least=50), list[str]()
        contenders: dict[str, Contender] = {
            OURS: partial(pairs, count, setting.folder),
            BARE: partial(transactions, count, setting.folder),
        }
        try:
            rivals.python()
            rival = rivals.Rival("bench.redis_locks", redis_locks.Job(count), "one connection", redis_locks.KEEPS)
            contenders[REDIS] = partial(rival.run, count, setting.folder)
        except rivals.Missing as why:
            missing.append(f"{REDIS}: {why}")
        yield of_pairs(setting, hold(contenders, setting.turns(REPEAT)), count, missing)
    if HANDOVER in wanted:
        say("handover of locks")
        yield of_handover(setting, handovers(setting.sized(SAMPLES, least=10), setting.folder))


def pairs(count: int, folder: Path) -> float:
    """Acquire and release a lock so often; how often a second."""
    with folder_in(folder) as place:
        engine = Engine(place / "bench.db")
        lock = engine.lock(NAME)
        with lock as held:
            first = held.fence
        began = time.monotonic()
        for _ in range(count):
            with lock as held:
                pass
        seconds = time.monotonic() - began
        if held.fence < first + count:
            raise AssertionError(f"{held.fence - first} grants of {count}")
        engine.close()
    return count / seconds


def transactions(count: int, folder: Path) -> float:
    """Bare durable transactions a second."""
    with folder_in(folder) as place:
        return count / bare.run(place / "bare.db", count, warm=True)


def handovers(samples: int, folder: Path) -> list[float]:
    """Milliseconds from a release here to the grant in another process, which waits."""
    chance, found = random.Random(SEED), list[float]()
    with folder_in(folder) as place:
        file = place / "bench.db"
        engine = Engine(file)
        lock = engine.lock(NAME, wait=PATIENCE)
        command = [sys.executable, "-m", "bench.coordination_locks", str(file)]
        with lock:
            pass
        other = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdin is not None
        assert other.stdout is not None
        for _ in range(samples):
            with lock:
                print("go", file=other.stdin, flush=True)
                until = time.monotonic() + PATIENCE
                while not any(row.state.waiters for row in locks(engine._runtime.store)):
                    if time.monotonic() > until:
                        raise AssertionError("the other process does not wait")
                    time.sleep(0.005)
                time.sleep(chance.uniform(*PAUSE))
                released = time.monotonic_ns()
            found.append((int(other.stdout.readline()) - released) / 1e6)
            other.stdout.readline()
        other.communicate()
        engine.close()
    return found


def of_pairs(setting: Setting, rates: Rates, count: int, missing: list[str]) -> Figure:
    """The figure that follows from the turns."""
    share = rates.ratio(OURS, BARE)
    sides = [name for name in (BARE, REDIS) if name in rates.turns]
    return Figure(
        name=PAIRS,
        value=rates.middle(OURS),
        unit="locks acquired and released/s",
        ratios={other: rates.ratio(OURS, other) for other in sides},
        durability={OURS: KEEPS["power"], BARE: KEEPS["power"]}
        | ({REDIS: redis_locks.KEEPS} if REDIS in sides else {}),
        scale=setting.scale,
        repeat=len(rates.turns[OURS]),
        bar=Bar(f"at least {LEAST} of bare transactions (aim {AIM})", share.median >= LEAST),
        more={"pairs": count} | {f"{name.split()[0]}_per_s": significant(rates.middle(name)) for name in sides},
        missing=missing,
    )


def of_handover(setting: Setting, samples: list[float]) -> Figure:
    """The figure that follows from the samples."""
    p50 = percentile(samples, 0.5)
    return Figure(
        name=HANDOVER,
        value=p50,
        unit="ms from a release to the next grant (p50)",
        better="less",
        ratios={},
        durability={OURS: KEEPS["power"]},
        scale=setting.scale,
        repeat=1,
        bar=Bar(f"p50 under {MOST_MS} ms", p50 < MOST_MS),
        more={"p99_ms": significant(percentile(samples, 0.99)), "samples": len(samples)},
    )


def wait_for_locks(file: str) -> None:
    """Be the other process: for each line, wait for the lock and say when it was granted."""
    engine = Engine(file)
    for _ in sys.stdin:
        with engine.lock(NAME, wait=PATIENCE):
            print(time.monotonic_ns(), flush=True)
        print("released", flush=True)
    engine.close()


SUITE = Suite(
    {
        PAIRS: "a lock acquired and released, against bare transactions and redis-py's Lock",
        HANDOVER: "from a release to the next grant in another process",
    },
    measure,
)

if __name__ == "__main__":
    wait_for_locks(sys.argv[1])
