"""Plays the turns of the pipeline figures that are worked off, for `frontier_player.py`.

The clock of an expansion is around the one call that a user would write, `engine.run(...)`: opening the store and the
start are inside. Small runs are all started before anybody works on them; their clock runs from entering
`engine.working()` until the last of them has ended. A run of which a step did not end well, or which gave something
else than it should, is an error and not a figure.
"""

from __future__ import annotations

import time
from importlib import import_module

from bench.frontier_turn import Expand, Report, Steps
from bench.pipeline_tasks import STEPS, engine, expanding, increase, small, total
from ramify import Run, RunState

# Importing is off the clock, and these are imported when they are first needed.
for _late in ("ramify.kernel.kernel", "ramify.store.sqlite"):
    import_module(_late)

#: How often it is asked whether runs are left.
LOOK = 0.01


def play_expand(turn: Expand) -> Report:
    """Expand into elements, and collapse them."""
    began = time.monotonic()
    run = engine.run(expanding.of(turn.count))
    seconds = time.monotonic() - began
    # The list, what expands it, what gathers it, what collapses it, and the end.
    _check(run, turn.count + 5)
    wanted = sum(range(turn.count))
    if list(run.results(total)) != [wanted]:
        raise AssertionError(f"the elements did not add up to {wanted}")
    return Report(turn.count, seconds, 0.0)


def play_steps(turn: Steps) -> Report:
    """Start runs one by one, and work them off."""
    # A start says on a terminal that it began; thousands of lines are not what is measured here.
    engine._runtime.say = lambda text: None
    began = time.monotonic()
    runs = [engine.start(small.of(number)) for number in range(turn.runs)]
    starting = time.monotonic() - began
    began = time.monotonic()
    with engine.working():
        # Asked once: whoever waits for each of them one by one takes time from those who work.
        while next(engine.runs(RunState.OPEN), None) is not None:
            time.sleep(LOOK)
        seconds = time.monotonic() - began
    for number, run in enumerate(runs):
        _check(run, STEPS + 1)
        if max(run.results(increase)) != number + STEPS:
            raise AssertionError(f"{run} did not give {number + STEPS}")
    return Report(turn.runs * STEPS, seconds, 0.0, starting=starting)


def _check(run: Run[object], count: int) -> None:
    counts = run.counts
    if run.state is not RunState.DONE or counts.added != count or counts.done != count:
        raise AssertionError(f"the run is {run.state} with {counts}; {count} tasks were to be done")
