"""Why is this task not running? One cause, with the facts behind it, and what to do about it.

The answer is a snapshot: by the time it is read, the task may have moved on. The live row that covers the task tells
nearly everything; who could run it is told by what processes said of themselves when they entered. Where the store
does not know, the answer says so instead of guessing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from ramify.inspect.find import title, typed
from ramify.inspect.folding import asking
from ramify.inspect.gates import answer_line, asks_for, gate_of
from ramify.inspect.history import task_row
from ramify.inspect.limits import place_in_the_way, place_in_words
from ramify.inspect.live import in_words, rows_of, width, workers
from ramify.inspect.show import because
from ramify.inspect.words import plural
from ramify.model import decision
from ramify.model.event import Status, fold
from ramify.model.gate import GATE
from ramify.model.join import AHEAD, BEFORE, Join, Rule
from ramify.model.policy import PARKED, SECOND
from ramify.model.process import Process
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import Row
from ramify.shapes.cron.declaration import schedule_of
from ramify.store.contract import Store
from ramify.store.reads import Reads

_TELLING = (Status.CANCELLED, Status.SKIPPED, Status.DECIDED)


class Cause(StrEnum):
    """The reason why a task is not running."""

    ENDED = "ended"
    HELD = "held"
    HELD_BY_THE_DEAD = "held by the dead"
    NOBODY_WORKS = "nobody works"
    KIND_UNKNOWN = "kind unknown"
    QUEUE_UNSERVED = "queue unserved"
    READY = "ready"
    PAUSED = "paused"
    DRAINING = "draining"
    ROUND = "round"
    FOLLOWS = "follows"
    DUE = "due"
    PARKED = "parked"
    ANSWER = "answer"
    SUSPECT = "suspect"
    NO_ROOM = "no room"
    LIMIT = "limit"
    JOIN = "join"
    UNKNOWN = "unknown"


class Why(msgspec.Struct, frozen=True):
    """The answer: the cause, in words, and what a person can do. `until` is a time by the store's clock."""

    task: int
    cause: Cause
    text: str
    advice: str | None = None
    until: int | None = None


def why(store: Store, task: int) -> Why:
    """Why a task is not running; UnknownTask when it does not exist or is not published yet."""
    reads = store.reads
    row = task_row(reads, task)
    run = reads.run(row.run)
    segment = reads.segment(task)
    if segment is None:
        return _without_a_row(reads, row, run)
    match segment.state:
        case SegmentState.CLAIMED:
            return _held(reads, task, segment)
        case SegmentState.WAITING:
            return _waiting(reads, task, run)
        case SegmentState.GATED:
            return _gated(reads, task, run, segment)
        case SegmentState.LIMITED:
            return _limited(store, task, segment) or Why(
                task, Cause.LIMIT, "it waits in the line of a limit that has room; its turn comes next", "ask again"
            )
        case SegmentState.READY:
            return _ready(store, task, run, segment)
        case SegmentState.STAGED | SegmentState.GARBAGE:
            return Why(task, Cause.UNKNOWN, f"its row is {segment.state.name.lower()}: it is not published")


def _without_a_row(reads: Reads, row: Row, run: StoredRun) -> Why:
    ended = reads.history(row.id).ended
    if ended is None:
        return Why(
            row.id,
            Cause.UNKNOWN,
            "it has not ended, and no live row covers it; it may have moved while it was looked at",
            "ask again; if it stays so, `ramify doctor --full` says whether it is lost",
        )
    advice = {
        Status.FAILED: f"`ramify events {row.id}` shows its attempts; `ramify retry` begins a new life",
        Status.QUARANTINED: f"`ramify events {row.id}` shows why; `ramify retry` begins a new life",
        Status.CANCELLED: "`ramify retry` begins a new life",
        Status.REPLACED: "the task that made it has made others instead. Give the node or the item to see its state",
    }.get(ended)
    how = f"{ended.name.lower()}{_why_ended(reads, row.id)}"
    return Why(row.id, Cause.ENDED, f"it ended as {how} (run {title(run)} is {run.state.value})", advice)


def _why_ended(reads: Reads, task: int) -> str:
    """Return who wanted that and why, where somebody did: the end tells, or, of a result, the event before it."""
    told = [event for event in reads.events(task, task)[-2:] if event.status in _TELLING]
    return because(told[-1].value) if told else ""


def _held(reads: Reads, task: int, segment: Segment) -> Why:
    owner = next((process for process in reads.processes() if process.id == segment.owner), None)
    neighbours = width(segment)
    if owner is None or not owner.is_alive:
        name = "a process" if owner is None else in_words(owner)
        return Why(
            task,
            Cause.HELD_BY_THE_DEAD,
            f"{name} claimed it and is dead",
            "the next process that works on this store offers it again; start one",
        )
    rest = f" together with {neighbours - 1:,} others of its row" if neighbours > 1 else ""
    return Why(
        task,
        Cause.HELD,
        f"{in_words(owner)} holds it{rest}, and runs it or is about to",
        "whether it runs at this moment only that process knows",
    )


def _waiting(reads: Reads, task: int, run: StoredRun) -> Why:
    join = _join_of(reads, run.id, task)
    if join is None:
        return Why(task, Cause.JOIN, "it waits for a join that was not found; ask again")
    if join.rule is Rule.BEHIND:
        return Why(task, Cause.JOIN, _behind(reads, task))
    return Why(
        task,
        Cause.JOIN,
        f"it waits for {plural(join.needs, 'task')} to end, and {join.arrived:,} of them have"
        + (f" ({join.broken:,} not as done)" if join.broken else ""),
    )


def _behind(reads: Reads, task: int) -> str:
    members = dict(reads.members(task).rows)
    ahead, before = members[AHEAD[0]], members[BEFORE]
    if before == ahead or reads.history(ahead).ended is None:
        return f"it starts after job {ahead}, once that one is done"
    return f"it is behind job {ahead}, and waits for job {before} to end, which came before it"


def _join_of(reads: Reads, run: int, task: int) -> Join | None:
    # The join of a task has the task's id.
    page = reads.joins(run, after=task - 1, limit=1)
    return page.rows[0] if page.rows and page.rows[0].id == task else None


def _gated(reads: Reads, task: int, run: StoredRun, segment: Segment) -> Why:
    match run.state:
        case RunState.PAUSED:
            return Why(
                task, Cause.PAUSED, f"its run {title(run)} is paused{_decided(run)}", f"ramify resume {typed(run)}"
            )
        case RunState.DRAINING:
            return Why(task, Cause.DRAINING, f"its run {title(run)} is being cancelled{_decided(run)}; it will not run")
        case _:
            pass
    if run.follows is not None:
        leader = reads.run(run.follows.run)
        if not leader.state.is_end and leader.round <= segment.round + run.follows.lead:
            return Why(
                task,
                Cause.FOLLOWS,
                f"round {segment.round} of its run opens when run {title(leader)} has passed round "
                f"{segment.round + run.follows.lead}; that is at round {leader.round}",
            )
    if run.order is Order.ROUNDS and segment.round > run.round:
        gate = _before(reads, run)
        held = "by nothing any more; the next process to look opens it" if not gate else f"by {gate:,} tasks"
        return Why(
            task, Cause.ROUND, f"it is of round {segment.round}; its run is at round {run.round}, held there {held}"
        )
    return Why(task, Cause.ROUND, "its round is about to open", "ask again")


def _before(reads: Reads, run: StoredRun) -> int:
    states = (SegmentState.READY, SegmentState.GATED, SegmentState.CLAIMED, SegmentState.LIMITED)
    return sum(width(row) for row in rows_of(reads, run.id) if row.round <= run.round and row.state in states)


def _claimed(reads: Reads, run: StoredRun) -> int:
    return sum(width(row) for row in rows_of(reads, run.id) if row.state is SegmentState.CLAIMED)


def _ready(store: Store, task: int, run: StoredRun, segment: Segment) -> Why:
    now = store.now()
    if segment.kind == GATE and segment.due is not None and segment.due > now:
        return _asking(store.reads, task, run, segment.due)
    if segment.due is not None and segment.due >= PARKED:
        return Why(task, Cause.PARKED, "it is parked: it waits for a person or for another run, not for a time")
    if segment.line is not None and segment.due is not None and segment.due > now:
        found = _limited(store, task, segment)
        if found is not None:
            return found
    if segment.due is not None and segment.due > now:
        seconds = (segment.due - now) / SECOND
        return Why(task, Cause.DUE, f"it is due in {seconds:,.1f} s{_after(store.reads, task)}", until=segment.due)
    there = workers(store.reads)
    nobody = nobody_for(segment, there)
    if nobody is not None:
        cause, text, advice = nobody
        return Why(task, cause, f"it is ready, and {text}", advice)
    alive = takers(there)
    if segment.deaths.apart:
        return Why(
            task,
            Cause.SUSPECT,
            f"processes died {segment.deaths.count} times over it, so it runs apart: it waits for a process "
            "that holds nothing else",
        )
    if run.max_running is not None and _claimed(store.reads, run) >= run.max_running:
        return Why(
            task,
            Cause.NO_ROOM,
            f"its run {title(run)} has {run.max_running:,} tasks claimed, as many as it may have (max_running)",
        )
    if (limited := _limited(store, task, segment)) is not None:
        return limited
    silent = sum(process.kinds is None for process in alive)
    doubt = f"; {silent} of them did not say which kinds they know" if silent else ""
    return Why(
        task,
        Cause.READY,
        f"it is ready, and waits for its turn with {len(alive)} live {_noun(alive)}{doubt}",
        "`concurrency` or `rate` of its kind, or work that came before it, may hold it back",
    )


def _limited(store: Store, task: int, segment: Segment) -> Why | None:
    """The limit that keeps a task from starting, if one does."""
    found = place_in_the_way(store, segment)
    if found is None:
        return None
    text = place_in_words(found, store.reads.processes(), store.now())
    name = shlex.quote(found.place.limit.name)
    return Why(task, Cause.LIMIT, text, f"`ramify limits set {name} NUMBER` changes it", found.opens)


def _asking(reads: Reads, task: int, run: StoredRun, due: int) -> Why:
    gate = gate_of(reads, task, due)
    text = f"it is a gate, and {asking(asks_for(gate.spec), gate.since, gate.until)}"
    return Why(task, Cause.ANSWER, text, answer_line(run, gate.gate), until=gate.until)


def takers(there: Sequence[Process]) -> list[Process]:
    """Return those of the processes at work that take more."""
    return [process for process in there if process.draining is None]


def nobody_for(segment: Segment, there: Sequence[Process]) -> tuple[Cause, str, str] | None:
    """Why none of the processes at work will take a ready row, and what to do; None when one may.

    One that did not say what it does may do anything.
    """
    alive = takers(there)
    if not alive:
        nobody_else = f" but {len(there)} that drain and take nothing more" if there else ""
        return Cause.NOBODY_WORKS, f"no process works on this store{nobody_else}", "start one"
    knowing = [process for process in alive if process.kinds is None or segment.kind in process.kinds]
    if not knowing and (schedule := schedule_of(segment.kind)) is not None:
        return (
            Cause.KIND_UNKNOWN,
            f"none of {len(alive)} live {_noun(alive)} declares the schedule {schedule!a}",
            f"declare it, or remove it: `ramify crons remove {shlex.quote(schedule)}`",
        )
    if not knowing:
        return (
            Cause.KIND_UNKNOWN,
            f"none of {len(alive)} live {_noun(alive)} knows the kind {segment.kind!a}",
            "start a program that has this task, or give the renamed one `aliases=`",
        )
    if any(process.queues is None or segment.queue in process.queues for process in knowing):
        return None
    return (
        Cause.QUEUE_UNSERVED,
        f"no live process that knows {segment.kind!a} serves the queue {segment.queue!a}",
        "start one with that queue",
    )


def _after(reads: Reads, task: int) -> str:
    events = reads.events(task, task)
    if events and events[-1].status is Status.DEFERRED:
        return f", when it looks again{because(events[-1].value)}"
    attempts = fold(events).attempts
    return f", for another try after {attempts} failed" if attempts else ""


def is_undeclared(segment: Segment, cause: Cause) -> bool:
    """Return whether a ready row waits for a worker that declares its schedule."""
    return cause in (Cause.NOBODY_WORKS, Cause.KIND_UNKNOWN) and schedule_of(segment.kind) is not None


def _noun(alive: Sequence[Process]) -> str:
    return "process" if len(alive) == 1 else "processes"


def _decided(run: StoredRun) -> str:
    return "" if run.decision is None else decision.in_words(run.decision.by, run.decision.reason)
