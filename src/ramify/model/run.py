"""Runs: one named body of work, its states, its rounds, and what `advance` may answer.

    open      claims are granted                       -> paused, draining, done, failed
    paused    claims are not granted                   -> open (resume), draining (cancel)
    draining  cancelled or stopped; claims in flight finish, nothing new starts   -> cancelled or halted (advance)
    done, failed, cancelled, halted    ended           -> open (reopen), forgotten (forget)
    forgotten  its work is gone, or is just going; what stays is how it ended, in its reason

A run that was drained and opened again is cancelled or halted as before when it ends with cancelled tasks in it. One
that is open past its deadline is drained and ends as failed, once: whoever opens it again means it.
`round` never decreases. In a run with `order="rounds"` a round opens only when no live work of an earlier one is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from ramify.errors import BadPayload, RunEnded
from ramify.model.decision import Decision
from ramify.model.policy import SECOND
from ramify.model.task import Appended, check_name


class RunState(StrEnum):
    """The state of a run."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HALTED = "halted"
    FORGOTTEN = "forgotten"

    @property
    def is_end(self) -> bool:
        """True if the run has ended: it has no live tasks and does not continue by itself."""
        return self in RUN_ENDS


NAMED_TASKS = 10
_STALLED = "stalled: "
RUN_ENDS = frozenset({RunState.DONE, RunState.FAILED, RunState.CANCELLED, RunState.HALTED, RunState.FORGOTTEN})


class Order(StrEnum):
    """In which order a run's segments may be claimed."""

    ROUNDS = "rounds"  #: a barrier between rounds
    ANY = "any"  #: no barrier
    DEPTH_FIRST = "depth-first"  #: no barrier, deepest first: a bounded frontier


class Follows(msgspec.Struct, frozen=True):
    """Round n opens only when run `run` has passed round n + `lead`, or has ended in any way."""

    run: int
    lead: int = 1


class Tolerance(StrEnum):
    """Which failures of its tasks a run puts up with and still ends as done."""

    NONE = "none"
    ANY = "any"


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The program that began a run. `stays` when it does the work itself, and does not leave it to others."""

    host: str
    boot: str
    pid: int
    began: str
    stays: bool = True
    pids: str = ""


class NewRun(msgspec.Struct, frozen=True, gc=False):
    """A run to be started. `id` is reserved by the caller, so that starting it twice is starting it once.

    An `endless` run (a queue of jobs) does not end when it runs empty. `shape` is a name for people, `definition` that
    of the DAG or the pipeline it is a run of, `shown` what it was started with, in words, and `digest` what tells that
    from other starts.

    At most `max_running` of its tasks are claimed at a time, over all processes. With more than `max_tasks` it is
    halted. Open past its `deadline` (store time) it fails. When tasks failed that it does not tolerate, it ends as
    `fails_as`: failed or halted.
    """

    id: int
    name: str | None = None
    generation: int = 1
    shape: str = ""
    order: Order = Order.ROUNDS
    follows: Follows | None = None
    endless: bool = False
    params: bytes | None = None
    digest: bytes | None = None
    shown: str = ""
    owner: Owner | None = None
    max_running: int | None = None
    max_tasks: int | None = None
    deadline: int | None = None
    fails_as: RunState = RunState.FAILED
    tolerates: Tolerance = Tolerance.NONE
    definition: str | None = None


class StoredRun(NewRun, frozen=True, kw_only=True, gc=False):
    """A run as stored: all it was started with, and where it stands. `round` is -1 until its first round opens.

    `reason` is why it drains or ended so; of one that is open again, why it had been cancelled. A tail that begins at
    `since` finds its start, then all of its events. `decision` is the last one that somebody made about it.
    """

    state: RunState
    round: int
    reason: str | None
    created: int
    ended: int | None
    since: int
    decision: Decision | None = None

    @property
    def decisions(self) -> int:
        """How many decisions were made about it: what the next one comes after."""
        return 0 if self.decision is None else self.decision.n


def check_takes_tasks(run: int, state: RunState) -> None:
    """Refuse tasks from outside for a run that has ended, or is on its way to."""
    if state.is_end or state is RunState.DRAINING:
        raise RunEnded(f"run {run} is {state.value} and takes no more tasks. Retry its tasks, or start another run")


def check_run(new: NewRun) -> None:
    """Refuse a run that no store could keep, or that could never go on."""
    if new.name is not None:
        check_name("run name", new.name)
    if new.definition is not None:
        check_name("definition", new.definition)
    if new.follows is not None and new.follows.run == new.id:
        raise BadPayload(f"run {new.id} cannot follow itself")
    for bound in ("max_running", "max_tasks"):
        value: int | None = getattr(new, bound)
        if value is not None and value < 1:
            raise BadPayload(f"run {new.id}: {bound}={value}; give at least 1, or leave it out for no bound")
    if new.fails_as not in (RunState.FAILED, RunState.HALTED):
        raise BadPayload(f"run {new.id}: a run whose tasks failed ends as failed or halted, not {new.fails_as.value}")


def ends_as(run: NewRun, bound_for: RunState, *, failures: int, cancelled: int, stuck: int) -> RunState:
    """How an open run without live work ends. `bound_for` is what it was last drained into; DONE if it never was.

    A run that was cancelled stays so until nothing of it is cancelled, however many of its tasks were tried again. A
    task that was cancelled by itself is no reason: somebody chose to go without it. Tasks that could never run are
    tolerated by nobody.
    """
    if bound_for is not RunState.DONE and cancelled:
        return bound_for
    if stuck:
        return RunState.FAILED
    return run.fails_as if failures and run.tolerates is Tolerance.NONE else RunState.DONE


def too_late(deadline: int | None, bound_for: RunState, now: int) -> str | None:
    """Why an open run must not go on: its deadline has passed. None when it may.

    A deadline strikes once. A run that it ended and that somebody opened again goes on to its end.
    """
    if deadline is None or now < deadline or bound_for is RunState.FAILED:
        return None
    return f"its deadline passed ({datetime.fromtimestamp(deadline // SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC)"


def seconds_left(deadline: int | None, bound_for: RunState, now: int) -> float | None:
    """How long until the deadline of an open run; None without one, or when it has struck."""
    return None if deadline is None or bound_for is RunState.FAILED else (deadline - now) / SECOND


def too_many(run: NewRun, tasks: int) -> str | None:
    """Why a run with so many tasks must not go on; None when it may."""
    return (
        None
        if run.max_tasks is None or tasks <= run.max_tasks
        else f"max_tasks={run.max_tasks} exceeded ({tasks} tasks)"
    )


def stalled(tasks: Sequence[int]) -> str:
    """Why a run ended although these tasks never ran."""
    named = ", ".join(map(str, tasks[:NAMED_TASKS])) + (", …" if len(tasks) > NAMED_TASKS else "")
    return f"{_STALLED}{len(tasks)} tasks wait for joins that can never fill: {named}"


def is_stalled(run: StoredRun) -> bool:
    """Return whether a run ended for that."""
    return run.state is RunState.FAILED and (run.reason or "").startswith(_STALLED)


class Started(msgspec.Struct, frozen=True):
    """The run that now exists under the id or name, whether this call created it, and what then became of its tasks."""

    run: StoredRun
    created: bool
    added: Appended = Appended()


class Advanced(msgspec.Struct, frozen=True):
    """Where the run stands after `advance`: `moved` if this call changed it; `gated_by` the run it has to wait for.

    `time_left` is in seconds until its deadline, while it is open and has one.
    """

    state: RunState
    round: int
    moved: bool = False
    gated_by: int | None = None
    time_left: float | None = None
