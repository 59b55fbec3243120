"""Plays many small runs: each is started with `engine.start`, and workers of the same program work them off.

The clock runs from the first start until the last run has ended; entering and leaving `engine.working()` is off it. The
workers are there before the first start, as in a program that serves requests.
"""

from __future__ import annotations

import time

from bench.frontier_tasks import engine, step
from bench.frontier_turn import Small
from ramify.model.run import RunState


def start_all(turn: Small) -> tuple[float, float]:
    """The seconds until all runs were started, and until all had ended."""
    # A start says on a terminal that it began; thousands of lines are not what is measured here.
    engine._inside.say = lambda text: None
    with engine.working():
        began = time.monotonic()
        runs = [engine.start(step.of(number, turn.steps - 1)) for number in range(turn.runs)]
        starting = time.monotonic() - began
        # The youngest first: it ends late, and the others have mostly ended by then.
        for run in reversed(runs):
            run.wait()
        seconds = time.monotonic() - began
    for run in runs:
        counts = run.counts
        if run.state is not RunState.DONE or counts.added != turn.steps or counts.done != turn.steps:
            raise AssertionError(f"{run} has {counts}; {turn.steps} steps were to be done")
    return starting, seconds
