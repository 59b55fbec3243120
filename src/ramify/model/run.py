"""Runs: one named body of work, its states, its rounds, and what `advance` may answer.

    open      claims are granted                       -> paused, draining, done, failed
    paused    claims are not granted                   -> open (resume), draining (cancel)
    draining  cancelled or stopped; claims in flight finish, nothing new starts   -> cancelled or halted (advance)
    done, failed, cancelled, halted    ended           -> open (reopen)

A run that was drained and opened again is cancelled or halted as before when it ends with cancelled tasks in it.
`round` never decreases. In a run with `order="rounds"` a round opens only when no live work of an earlier one is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from ramify.model.task import Appended


class RunState(StrEnum):
    """Where a run stands."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HALTED = "halted"

    @property
    def is_end(self) -> bool:
        """True when the run has no live work and will not move by itself."""
        return self in RUN_ENDS


NAMED_TASKS = 10
RUN_ENDS = frozenset({RunState.DONE, RunState.FAILED, RunState.CANCELLED, RunState.HALTED})


class Order(StrEnum):
    """In which order a run's segments may be claimed."""

    ROUNDS = "rounds"  #: a barrier between rounds
    ANY = "any"  #: no barrier
    DEPTH_FIRST = "depth-first"  #: no barrier, deepest first: a bounded frontier


class Follows(msgspec.Struct, frozen=True):
    """Round n opens only when run `run` has passed round n + `lead`, or has ended in any way."""

    run: int
    lead: int = 1


class NewRun(msgspec.Struct, frozen=True):
    """A run to be started. `id` is reserved by the caller, so that starting it twice is starting it once.

    An `endless` run (a queue of jobs) does not end when it runs empty.
    """

    id: int
    name: str | None = None
    generation: int = 1
    shape: str = "frontier"
    order: Order = Order.ROUNDS
    follows: Follows | None = None
    endless: bool = False
    params: bytes | None = None
    roots: bytes | None = None


class Run(msgspec.Struct, frozen=True):
    """A run as stored. `round` is -1 until its first round opens.

    `reason` is why it drains or ended so; of one that is open again, why it had been cancelled.
    """

    id: int
    name: str | None
    generation: int
    shape: str
    order: Order
    follows: Follows | None
    endless: bool
    params: bytes | None
    roots: bytes | None
    state: RunState
    round: int
    reason: str | None
    created: int
    ended: int | None


def ends_as(bound_for: RunState, *, failures: int, cancelled: int, stuck: int) -> RunState:
    """How an open run without live work ends. `bound_for` is what it was last drained into; DONE if it never was.

    A run that was cancelled stays so until nothing of it is cancelled, however many of its tasks were tried again. A
    task that was cancelled by itself is no reason: somebody chose to go without it.
    """
    if bound_for is not RunState.DONE and cancelled:
        return bound_for
    return RunState.FAILED if failures or stuck else RunState.DONE


def stalled(tasks: Sequence[int]) -> str:
    """Why a run ended although these tasks never ran."""
    named = ", ".join(map(str, tasks[:NAMED_TASKS])) + (", …" if len(tasks) > NAMED_TASKS else "")
    return f"stalled: {len(tasks)} tasks wait for joins that can never fill: {named}"


class Started(msgspec.Struct, frozen=True):
    """The run that now exists under the id or name, whether this call created it, and what then became of its tasks."""

    run: Run
    created: bool
    added: Appended = Appended()


class Advanced(msgspec.Struct, frozen=True):
    """Where the run stands after `advance`: `moved` if this call changed it; `holding` tasks are what it waits for."""

    state: RunState
    round: int
    moved: bool = False
    holding: int = 0
    gated_by: int | None = None
