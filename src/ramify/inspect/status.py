"""One run at one moment: its state and phase, its counts by kind, and what its round waits for.

Counts come from counters, so they cost the same for a hundred tasks and for a hundred million. Phases:

    pulling         there is work to claim, and no live process holds any of it at this moment
    running         live processes hold tasks
    waiting         nothing can be claimed now: due later, behind a join, a gate or a limit, paused, or behind another
                    run; or a queue has no jobs
    round complete  this round has no work left and a later one has; somebody will open it
    exhausted       no work is left
    unattended      there is work left, and no live process works on this store: whoever did was stopped or killed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from ramify.inspect.find import title
from ramify.inspect.held_up import HeldUp, held_up
from ramify.inspect.limits import BusyLimit, busy_limits
from ramify.inspect.live import Amounts, Live, at_work, look, rows_of
from ramify.inspect.reason import reason_of
from ramify.inspect.unknown import unknown_among
from ramify.inspect.words import moment
from ramify.model.event import ENDS, Status, Tally
from ramify.model.policy import SECOND
from ramify.model.process import Process
from ramify.model.run import Order, RunState, StoredRun
from ramify.store.contract import Store
from ramify.store.reads import Reads


class Phase(StrEnum):
    """The current activity of a run."""

    PULLING = "pulling"
    RUNNING = "running"
    WAITING = "waiting"
    ROUND_COMPLETE = "round complete"
    EXHAUSTED = "exhausted"
    UNATTENDED = "unattended"


class Counts(msgspec.Struct, frozen=True):
    """The numbers of tasks by how they ended; `retries` and `deferrals` count attempts, not tasks.

    A task that was `replaced`, because the task that made it ran again, counts as nothing else.
    """

    added: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    quarantined: int = 0
    retries: int = 0
    deferrals: int = 0
    duplicates: int = 0
    replaced: int = 0

    @property
    def ended(self) -> int:
        """The number of tasks that have ended."""
        return self.done + self.failed + self.cancelled + self.skipped + self.quarantined

    @property
    def pending(self) -> int:
        """The number of tasks that have not ended."""
        return self.added - self.ended

    @property
    def failures(self) -> int:
        """The number of tasks that failed or were quarantined."""
        return self.failed + self.quarantined

    @classmethod
    def of(cls, counters: Mapping[int, int]) -> Counts:
        """Make it of the counters of one kind."""
        *ends, replaced = (counters.get(status, 0) for status in ENDS)
        rest = [counters.get(what, 0) for what in (Status.RETRYING, Status.DEFERRED, Tally.DUPLICATE)]
        return cls(*[counters.get(Tally.ADDED, 0) - replaced, *ends, *rest, replaced])

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = msgspec.structs.asdict(self), msgspec.structs.asdict(other)
        return Counts(**{name: value + theirs[name] for name, value in mine.items()})


class RunStatus(msgspec.Struct, frozen=True):
    """A run at one moment. `at` is the store's time.

    `unknown` are kinds with tasks left that no live process knows, `held_up` is what keeps processes from writing,
    `draining` are live processes that take nothing more, `limits` those that keep tasks of it from starting.
    """

    run: StoredRun
    title: str
    phase: Phase
    total: Counts
    kinds: Mapping[str, Counts]
    live: Live
    at: int
    gated_by: StoredRun | None = None
    unknown: Mapping[str, int] = {}
    held_up: Sequence[HeldUp] = ()
    draining: Sequence[Process] = ()
    limits: Sequence[BusyLimit] = ()

    @property
    def seconds(self) -> float:
        """How long the run has been there, until it ended or until now."""
        return max(0, (self.at if self.run.ended is None else self.run.ended) - self.run.created) / SECOND

    @property
    def has_rounds(self) -> bool:
        """True if rounds are a barrier in this run."""
        return self.run.order is Order.ROUNDS


def counts_of(reads: Reads, run: int) -> dict[str, Counts]:
    """Counts by kind."""
    return {kind: Counts.of(counters) for kind, counters in reads.counts(run).items()}


def status_of(store: Store, run: int) -> RunStatus:
    """Look at one run; UnknownRun when there is none."""
    reads, now = store.reads, store.now()
    # Counters before the state: a run seen as ended then has counts that are a little old at worst, never too new.
    kinds = counts_of(reads, run)
    found = reads.run(run)
    unknown: Mapping[str, int] = {}
    in_the_way: Sequence[HeldUp] = ()
    draining: Sequence[Process] = ()
    full: Sequence[BusyLimit] = ()
    if found.state.is_end:
        kinds = counts_of(reads, run)
        found = msgspec.structs.replace(found, reason=reason_of(reads, found))
        live = Live(Amounts(), Amounts())
    else:
        processes = reads.processes()
        working = at_work(processes)
        live = look(reads, found, now, working)
        draining = [process for process in working if process.draining is not None]
        unknown = unknown_among(reads, [found], working)
        in_the_way = tuple(held_up(processes))
        if live.run.limited:
            held = (row for process in processes if not process.reaped for row in rows_of(reads, owner=process.id))
            full = busy_limits(reads, held, processes, now, kinds.keys())
    total = sum(kinds.values(), Counts())
    leader = leader_in_the_way(reads, found, live)
    phase = _phase(found, live, leader)
    return RunStatus(found, title(found), phase, total, kinds, live, now, leader, unknown, in_the_way, draining, full)


def leader_in_the_way(reads: Reads, run: StoredRun, live: Live) -> StoredRun | None:
    """The run that this one follows and that has not gone far enough for its next round."""
    if run.follows is None or run.state is not RunState.OPEN or live.round.total or not live.run.gated:
        return None
    leader = reads.run(run.follows.run)
    # The next round is at least one further; only the store knows which, and it decides.
    behind = not leader.state.is_end and leader.round <= run.round + 1 + run.follows.lead
    return leader if behind else None


def waits_in_words(status: RunStatus, due_in: str | None = None) -> str | None:
    """Return what the run, or its round, waits for, in one line; None when there is nothing to say."""
    run, live = status.run, status.live
    if run.state.is_end:
        return None
    if run.state is RunState.PAUSED:
        told = "paused" if run.decision is None else str(run.decision)
        return f"{told}; `ramify resume` lets it continue" + (
            f" ({live.run.held:,} still held)" if live.run.held else ""
        )
    if status.gated_by is not None:
        leader = f"waits for run {title(status.gated_by)}, which is at round {status.gated_by.round}"
        return leader if live.workers else f"{leader}; {nobody_in_words([run])}"
    amounts = live.round
    joining = [f"{live.run.joining:,} behind joins"] if live.run.joining and not live.run.gated else []
    words = [] if amounts.total else joining
    words += [
        f"{count:,} {what}"
        for count, what in (
            (amounts.held, "held"),
            (amounts.stranded, "held by the dead"),
            (amounts.ready, "ready"),
            (amounts.suspect, "suspect (they run apart)"),
            (amounts.later, "due later" + (f" (next {due_in})" if due_in else "")),
            (amounts.asking, f"open gate{'s' * (amounts.asking > 1)} (`ramify gates` says what for)"),
            (amounts.limited, "limited (`ramify limits` says by what)"),
            (amounts.gated, "gated"),
        )
        if count
    ]
    counted = ("at least " if words and not live.complete else "") + ", ".join(words)
    is_missed = not live.workers and (live.run.total or not run.endless)
    return "; ".join(filter(None, (counted, nobody_in_words([run]) if is_missed else None))) or None


def nobody_in_words(runs: Sequence[StoredRun]) -> str:
    """Say that no worker runs on the store of these unfinished runs, and what to do about it."""
    one, what = ("it", "line") if len(runs) == 1 else ("them", "lines")
    if all(run.endless for run in runs):
        return f"nobody is working on {one}; start a worker: `ramify worker FILE:ENGINE`"
    return f"nobody is working on {one}; start {one} again with the same {what}"


def bounds_in_words(status: RunStatus) -> str | None:
    """Return what the run may not go beyond, in one line; None when it has no bounds."""
    run = status.run
    words = [
        None if run.max_running is None else f"at most {run.max_running:,} tasks at a time",
        None if run.max_tasks is None else f"at most {run.max_tasks:,} tasks in all",
        None if run.deadline is None else f"until {moment(run.deadline)}",
    ]
    return ", ".join(filter(None, words)) or None


def _phase(run: StoredRun, live: Live, leader: StoredRun | None) -> Phase:
    if live.run.held:
        return Phase.RUNNING
    if run.state.is_end or not live.run.total:
        return Phase.WAITING if run.endless and not run.state.is_end else Phase.EXHAUSTED
    if run.state is RunState.PAUSED:
        return Phase.WAITING
    if not live.workers:
        return Phase.UNATTENDED
    if leader is not None:
        return Phase.WAITING
    if live.run.ready or live.run.suspect or live.run.stranded:
        return Phase.PULLING
    if run.order is Order.ROUNDS and live.run.gated and not live.round.total:
        return Phase.ROUND_COMPLETE
    return Phase.WAITING
