"""An idle engine: how soon a lone task begins, and what waiting for one costs.

A ping is sent after a pause of random length, in which the engine has nothing to do, and only when the one before has
arrived. Its time runs from just before `run.add(...)` or `engine.enqueue(...)` until its handler begins, so it holds
the fsync that makes the new task durable, the waking of the engine, the claim and the hand-out, and not the commit of
its end.

All pings go into one run, kept open by a task that is due in an hour, or are jobs. As a program (`python -m
bench.frontier_idle TURN`) this module is the other process, which does no work itself: it sends a ping and waits for a
line on its input before the next.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from bench.frontier_tasks import arrivals, engine, ping
from bench.frontier_turn import Ping, environment
from ramify import Call

SEED = 4
SETTLE = 2.0
PAUSE = (0.05, 0.25)
PATIENCE = 30.0
AN_HOUR = 3600.0
NAME = "pings"


class Sender:
    """Sends pings, each after a pause."""

    def __init__(self, turn: Ping) -> None:
        self._add: Callable[[Call[None]], object] = engine.enqueue
        if not turn.jobs:
            self._add = engine.start(ping.of(0).delay(AN_HOUR), name=NAME, order="any").add
        self._chance = random.Random(SEED)

    def send(self) -> None:
        """Send one."""
        time.sleep(self._chance.uniform(*PAUSE))
        self._add(ping.of(time.monotonic_ns()))


def watch(turn: Ping) -> tuple[list[float], list[float], float]:
    """Seconds of pings from here, seconds of pings from another process, and the idle engine's share of a core."""
    with engine.working():
        sender = Sender(turn)
        time.sleep(SETTLE)
        same = [_from_here(sender) for _ in range(turn.samples)]
        other = _from_another(turn)
        time.sleep(SETTLE)
        busy, began = time.process_time(), time.monotonic()
        time.sleep(turn.idle)
        idle_cpu = (time.process_time() - busy) / (time.monotonic() - began)
    return same, other, idle_cpu


def _from_here(sender: Sender) -> float:
    sender.send()
    return arrivals.get(timeout=PATIENCE)


def _from_another(turn: Ping) -> list[float]:
    command = [sys.executable, "-m", "bench.frontier_idle", msgspec.json.encode(turn).decode()]
    other = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, text=True)
    assert other.stdin is not None
    taken = []
    try:
        for _ in range(turn.samples):
            taken.append(arrivals.get(timeout=PATIENCE))
            other.stdin.write("arrived\n")
            other.stdin.flush()
        other.stdin.close()
        if other.wait(PATIENCE):
            raise RuntimeError(f"the other process ended with exit code {other.returncode}")
    finally:
        other.kill()
        other.wait()
    return taken


def main(argv: Sequence[str]) -> None:
    """The other process."""
    turn = msgspec.json.decode(argv[0], type=Ping)
    sender = Sender(turn)
    for _ in range(turn.samples):
        sender.send()
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1:])
