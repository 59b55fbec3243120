"""How a run goes on: the judgement behind `advance` and `movable`, made once for every store.

A store says where a run stands and what of its live work is left, seen in one statement; `next_move` says what follows.
Pure but for one question to the store, which is an argument: whether a run without work of its own awaits another one.
Nothing is moved here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ramify.model.run import NewRun, Order, RunState, too_late
from ramify.model.task import NewTasks


class RunStanding(NamedTuple):
    """Where a run stands, with all of its live work that matters, at one moment.

    `bound_for` is what it was last drained into; DONE if it never was. `leader_round` is that of the run it follows,
    None when it follows none or that one has ended. `lowest` is the lowest round with work that is not done, `gated`
    the lowest with rows behind the gate. Only of a draining run: whether some of it is `held` and some `loose`.
    `waits`: nothing of it can run, and some of it waits for joins.
    """

    run: int
    state: RunState
    round: int
    bound_for: RunState
    order: Order
    endless: bool
    deadline: int | None
    leader: int | None
    lead: int | None
    leader_round: int | None
    lowest: int | None
    gated: int | None
    held: bool = False
    loose: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing changes; perhaps because another run must get further first."""

    gated_by: int | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """Sweep what nobody holds, and end it when nothing is held. `late`: it drains into FAILED from now on, and why."""

    late: str | None = None


@dataclass(frozen=True, slots=True)
class Ungate:
    """Offer the rows behind the gate that are of open rounds."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open this round."""

    round: int


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is left that could ever run: end it."""


Move = Stay | Drain | Ungate | Open | End


def next_move(at: RunStanding, now: int, awaits_others: Callable[[int], bool]) -> Move:
    """Return what a run does next."""
    if at.state is RunState.DRAINING:
        return Stay() if at.held and not at.loose else Drain()
    if at.state is not RunState.OPEN:
        return Stay()
    if (late := too_late(at.deadline, at.bound_for, now)) is not None:
        return Drain(late)
    if at.endless and at.round < 0 and at.order is not Order.ROUNDS and at.leader is None:
        # It has begun before its first task is there: who works off one task after the other would find it unbegun.
        return Open(0)
    has_barrier = at.order is Order.ROUNDS or at.round < 0
    if not has_barrier and (at.endless or at.lowest is not None):
        return Stay() if at.gated is None else Ungate()
    if at.lowest is None:
        return Stay() if at.endless or (at.waits and awaits_others(at.run)) else End()
    if at.lowest <= at.round:
        return Stay() if at.gated is None or at.gated > at.round else Ungate()
    if at.leader_round is not None and at.leader_round <= at.lowest + (at.lead or 0):
        return Stay(at.leader)
    return Open(at.lowest)


def begins_at(new: NewRun, tasks: Sequence[NewTasks], now: int) -> int:
    """The round at which a new run stands once these tasks are there; -1 when that must be seen then.

    Tasks that wait may be published at once, and those with keys be dropped; a run that follows another is held back.
    """
    if new.follows is not None or not any(some.bodies and some.keys is None and not some.waits for some in tasks):
        return -1
    at = RunStanding(
        new.id,
        RunState.OPEN,
        -1,
        RunState.DONE,
        new.order,
        new.endless,
        new.deadline,
        None,
        None,
        None,
        lowest=0,
        gated=0,
    )
    move = next_move(at, now, lambda run: False)
    return move.round if isinstance(move, Open) else -1
