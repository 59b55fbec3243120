"""Awaiting other runs: whether a run that has nothing left to do by itself may still go on.

Pure but for the questions to the store, which are arguments. A task may wait for one of another run; then its run is
not stalled as long as that other task can still end. Runs that wait for each other in a circle wait for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ramify.model.segment import SegmentState


@dataclass(frozen=True, slots=True)
class AwaitingQuestions:
    """The questions to a store: the tasks that joins of a run wait for and that may not have ended; the run
    and the state of the row that a task is in, None when it has ended; whether a run has rows that can be worked off;
    and the run that it follows.
    """

    awaited: Callable[[int], Iterable[int]]
    row: Callable[[int], tuple[int, SegmentState] | None]
    works: Callable[[int], bool]
    follows: Callable[[int], int | None]


def awaits_others(run: int, ask: AwaitingQuestions, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether a join of this run waits for an unfinished task of another run; `seen` are those that wait."""
    seen |= {run}
    for task in ask.awaited(run):
        where = ask.row(task)
        if where is None or where[0] in seen:
            continue
        other, state = where
        if state in (SegmentState.READY, SegmentState.CLAIMED):
            return True
        # What is gated may be so for ever, and what waits may wait in vain, if that run itself waits for this one.
        if not _is_behind(other, seen, ask) and (
            state is SegmentState.GATED or ask.works(other) or awaits_others(other, ask, seen)
        ):
            return True
    return False


def _is_behind(run: int, seen: frozenset[int], ask: AwaitingQuestions) -> bool:
    """Return whether a run follows, directly or not, one of those that wait for it."""
    leader = ask.follows(run)
    passed = {run}
    while leader is not None and leader not in passed:
        if leader in seen:
            return True
        passed.add(leader)
        leader = ask.follows(leader)
    return False
