"""The effects of a person's decision about a run or a task. Pure: what only a store can tell comes as an argument.

About a run, a decision that is allowed moves its state and is noted with the next number, even when the state stays as
it is: a `resume` of an open run must be able to overtake a `pause` that is still on its way.

About a task that nobody runs, the decision is its end, written in the same transaction. A task that somebody holds gets
a mark instead, because its holder may end it at the same moment; the next claim honours the mark. One that ended, or
whose life is no longer the one that was meant, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ramify.errors import BadPayload
from ramify.model.decision import Decision, Said, What
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, Settled
from ramify.model.outcome import storable
from ramify.model.run import RUN_ENDS, RunState
from ramify.model.segment import SegmentState
from ramify.model.task import MAX_PAYLOAD

#: How a person may end a task.
SETTLED_AS = frozenset({Status.DONE, Status.SKIPPED, Status.CANCELLED})
#: From which states a decision leads where; from any other state it leads nowhere.
_WAYS = {
    What.PAUSED: {RunState.OPEN: RunState.PAUSED, RunState.PAUSED: RunState.PAUSED},
    What.RESUMED: {RunState.PAUSED: RunState.OPEN, RunState.OPEN: RunState.OPEN},
    What.CANCELLED: {RunState.OPEN: RunState.DRAINING, RunState.PAUSED: RunState.DRAINING},
    What.REOPENED: {RunState.OPEN: RunState.OPEN, RunState.PAUSED: RunState.PAUSED},
    What.FORGOTTEN: dict.fromkeys(RUN_ENDS - {RunState.FORGOTTEN}, RunState.FORGOTTEN),
}


class AfterDecision(msgspec.Struct, frozen=True):
    """The state of a run after a decision, and the decision as it is noted."""

    state: RunState
    decision: Decision


def decide(what: What, state: RunState, last: Decision | None, said: Said, now: int) -> AfterDecision | None:
    """Return what a decision makes of a run; None when it was overtaken, or leads nowhere from where the run is."""
    n = 0 if last is None else last.n
    there = _WAYS[what].get(state)
    # A reopening is numbered itself and is never late, so it is always noted: what was decided before it is over.
    compares = what is not What.REOPENED
    if there is None or (compares and said.after not in (None, n)):
        return None
    return AfterDecision(there, Decision(n + 1, what, storable(said.by), storable(said.reason), now))


def cancelled(before: RunState, after: RunState) -> Settled:
    """The answer to the cancel of a run, by its states before and after."""
    if after.is_end:
        return Settled.ENDED if before.is_end else Settled.CERTAIN
    return Settled.REQUESTED if after is RunState.DRAINING else Settled.OVERTAKEN


def storable_said(said: Said) -> Said:
    """Return who and why, as they can be stored."""
    return Said(storable(said.reason), storable(said.by))


def check_into(into: RunState) -> None:
    """Refuse to drain a run into anything but the ends that a person may choose."""
    if into not in (RunState.CANCELLED, RunState.HALTED):
        raise BadPayload(f"a cancelled run ends as cancelled or halted, not {into.value}")


class Settle(msgspec.Struct, frozen=True):
    """How a person wants a task to end; with `below`, everything it grew or will grow into as well."""

    task: int
    said: Said
    status: Status = Status.CANCELLED
    value: bytes | None = None
    below: bool = False

    def mark(self, run: int) -> Mark:
        """The request, for whoever holds the task."""
        scope = Scope.SUBTREE if self.below else Scope.TASK
        why, who = storable(self.said.reason), storable(self.said.by)
        return Mark(run, scope, self.task, self.status, why, self.value, who)


class Settling(msgspec.Struct, frozen=True):
    """The changes a store writes: a mark, events of the task, and whether the last of them ends it here and now."""

    answer: Settled
    mark: Mark | None = None
    events: tuple[tuple[Status, bytes | None], ...] = ()
    ends: bool = False


def check_settle(ask: Settle) -> Settle:
    """Refuse an end that only a worker can write, and a result that is too large."""
    if ask.status not in SETTLED_AS:
        raise BadPayload(f"task {ask.task} cannot be settled as {ask.status.name}; give DONE, SKIPPED or CANCELLED")
    if ask.value is not None and ask.status is not Status.DONE:
        raise BadPayload(f"task {ask.task} is settled as {ask.status.name} with a result; only DONE has one")
    if ask.value is not None and len(ask.value) > MAX_PAYLOAD:
        raise BadPayload(
            f"the result for task {ask.task} takes {len(ask.value)} bytes; the limit is {MAX_PAYLOAD}. Store it "
            "elsewhere and give a reference"
        )
    return ask


def settling(
    ask: Settle,
    run: int,
    state: RunState,
    *,
    is_here: bool,
    row: SegmentState | None,
    life: Callable[[], int],
    is_marked: Callable[[Mark], bool],
) -> Settling:
    """Return what follows from `ask` in a run and its state. `is_here`: the task is a published one of the run; `row`:
    the state of its live row, None when there is none. A mark that is there was told when it was left, and is not
    again.
    """
    if not is_here:
        return Settling(Settled.UNKNOWN)
    if state.is_end or (row is None and not ask.below) or (ask.said.life is not None and ask.said.life != life()):
        return Settling(Settled.ENDED)
    mark = ask.mark(run)
    new = None if is_marked(mark) else mark
    told = () if new is None else mark.told
    if row is SegmentState.CLAIMED:
        return Settling(Settled.REQUESTED, new, told)
    ends = row is not None
    events = (*told, (mark.status, mark.end_value)) if ends else ()
    if ask.below:
        return Settling(Settled.REQUESTED, new, events, ends)
    return Settling(Settled.CERTAIN, None, events, ends)
