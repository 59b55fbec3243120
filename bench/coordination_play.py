"""A crowd of tasks in lanes, with and without limits of the whole store: what the turns of `limit-lanes` play.

The kinds are declared when a turn is played, so that no other turn has a limit in its store.
"""

from __future__ import annotations

from typing import Any

from bench.frontier_tasks import engine
from bench.frontier_turn import LaneCrowd
from ramify import Call, Spawns, Task

_members: list[Task[[int], None, Any]] = []


def member(number: int) -> None:
    """Nothing at all."""


def beside(number: int) -> None:
    """Nothing, and nobody calls it."""


@engine.task
def lane_crowd(count: int, lanes: int) -> Spawns[None]:
    """The root of `count` tasks, which take the lanes in turn."""
    (one,) = _members
    for number in range(count):
        yield one.of(number).lane(str(number % lanes)) if lanes else one.of(number)


def lane_crowd_of(turn: LaneCrowd) -> Call[None]:
    """The root of a turn; the kind of its members is declared for it."""
    _members[:] = [engine.task(member) if turn.most is None else engine.task(max_running=turn.most, per="lane")(member)]
    if turn.beside:
        engine.task(max_running=1)(beside)
    return lane_crowd.of(turn.count, turn.lanes)
