"""Plays runs that wait at a gate: what waiting costs the process that serves them, and how soon an answer is followed.

    python -m bench.pipeline_gate prepare RUNS      starts the runs and brings each to its gate
    python -m bench.pipeline_gate answer SAMPLES    answers, and waits for a line on its input before the next

Preparing is off the clock, without an fsync per commit, and in a process of its own, so that the one that is measured
has done nothing else. An answer is given after a pause of random length, in which the engine has nothing to do, and
only when the one before was followed. Its time runs from just before `run.answer(...)` until the next step begins, so
it holds the checks of the answer, the fsync that makes it durable, the waking of the engine, the claim and the
hand-out.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from bench.frontier_turn import Gates, Report, environment
from bench.pipeline_tasks import GATE, arrivals, engine, gated, prepared, quick
from ramify import RunState

SEED = 5
#: A process that has just come looks through the runs twice.
SETTLE = 5.0
PAUSE = (0.05, 0.25)
PATIENCE = 30.0
PREPARING = 3600.0
PROGRAM = (sys.executable, "-m", "bench.pipeline_gate")


def play_gates(turn: Gates) -> Report:
    """Wait at the gates, and then answer some of them."""
    engine._runtime.say = lambda text: None
    preparing = subprocess.run([*PROGRAM, "prepare", str(turn.runs)], env=environment(), timeout=PREPARING)
    if preparing.returncode:
        raise RuntimeError(f"preparing ended with exit code {preparing.returncode}")
    began = time.monotonic()
    with engine.working():
        time.sleep(min(SETTLE, turn.idle))
        busy, since = time.process_time(), time.monotonic()
        time.sleep(turn.idle)
        idle_cpu = (time.process_time() - busy) / (time.monotonic() - since)
        same = _from_here(turn.samples)
        other = _from_another(turn.samples)
        seconds = time.monotonic() - began
    left = sum(1 for _ in engine.runs(RunState.OPEN))
    if left != turn.runs - 2 * turn.samples:
        raise AssertionError(f"{left} runs are open; {turn.runs} were to be at their gates, less two for each sample")
    return Report(2 * turn.samples, seconds, 0.0, same=same, other=other, idle_cpu=idle_cpu)


def prepare(runs: int) -> None:
    """Start so many runs, and bring each of them to its gate."""
    quick._runtime.say = lambda text: None
    for number in range(runs):
        quick.start(gated.of(number))
    # Leaving waits for the commits of those that are done.
    with quick.working():
        for _ in range(runs):
            prepared.get(timeout=PREPARING)
    quick.close()


class Answering:
    """Answers gates that are open, each after a pause."""

    def __init__(self, count: int) -> None:
        self._runs = list(islice(engine.runs(RunState.OPEN), count))
        self._chance = random.Random(SEED)

    def each(self) -> Iterator[None]:
        """Answer one at a time."""
        for run in self._runs:
            time.sleep(self._chance.uniform(*PAUSE))
            run.answer(GATE, time.monotonic_ns())
            yield

    def wait(self) -> None:
        """Until all of them have ended."""
        for run in self._runs:
            run.wait(PATIENCE)


def _from_here(samples: int) -> list[float]:
    answering = Answering(samples)
    taken = [arrivals.get(timeout=PATIENCE) for _ in answering.each()]
    answering.wait()
    return taken


def _from_another(samples: int) -> list[float]:
    other = subprocess.Popen([*PROGRAM, "answer", str(samples)], env=environment(), stdin=subprocess.PIPE, text=True)
    assert other.stdin is not None
    taken = []
    try:
        for _ in range(samples):
            taken.append(arrivals.get(timeout=PATIENCE))
            other.stdin.write("followed\n")
            other.stdin.flush()
        other.stdin.close()
        if other.wait(PATIENCE):
            raise RuntimeError(f"the other process ended with exit code {other.returncode}")
    finally:
        other.kill()
        other.wait()
    return taken


def main(argv: Sequence[str]) -> None:
    """One of the other processes."""
    what, count = argv[0], int(argv[1])
    if what == "prepare":
        prepare(count)
        return
    answering = Answering(count)
    for _ in answering.each():
        sys.stdin.readline()
    answering.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
