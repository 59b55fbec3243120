"""Plays many small runs: each is started with `engine.start`, and workers of the same program work them off.

First all are started, one by one, while nobody works; then workers come and work them off. Two clocks: around the
starts, and from before the workers come until the last run has ended. Leaving `engine.working()` is off them.

`mixed`, the workers are there before the first start, as in a program that serves requests, and both clocks begin with
it. Starts and steps then share one interpreter and the store's one writer, so each is slower for what the other gets.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from bench.frontier_tasks import engine, step
from bench.frontier_turn import Small
from ramify import Run
from ramify.model.run import RunState


def start_all(turn: Small) -> tuple[float, float]:
    """The seconds in which all runs were started, and those until all had ended."""
    # A start says on a terminal that it began; thousands of lines are not what is measured here.
    engine._runtime.say = lambda text: None
    with ExitStack() as workers:
        if turn.mixed:
            workers.enter_context(engine.working())
        began = time.monotonic()
        runs = [engine.start(step.of(number, turn.steps - 1)) for number in range(turn.runs)]
        starting = time.monotonic() - began
        if not turn.mixed:
            began = time.monotonic()
            workers.enter_context(engine.working())
        # The youngest first: it ends late, and the others have mostly ended by then.
        for run in reversed(runs):
            run.wait()
        seconds = time.monotonic() - began
    for run in runs:
        _check(run, turn)
    return starting, seconds


def _check(run: Run[Any], turn: Small) -> None:
    counts = run.counts
    if run.state is not RunState.DONE or counts.added != turn.steps or counts.done != turn.steps:
        raise AssertionError(f"{run} has {counts}; {turn.steps} steps were to be done")
