"""The tables of the reference store: plain dictionaries and lists, one lock, nothing that survives the process.

Read this file as the schema. The verbs beside it are functions over a `Tables`; each runs under its lock and checks all
it was given before it changes anything, which is what makes it atomic here.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from threading import Condition, RLock

from ramify.errors import Reaped, StaleStamp, UnknownRun
from ramify.model.arrivals import Standing
from ramify.model.commit import NO_TIMES
from ramify.model.context import ContextValue
from ramify.model.death import NO_DEATHS, Death, Deaths
from ramify.model.decision import Decision, Said
from ramify.model.event import Event, Status, Tally
from ramify.model.key import Hold
from ramify.model.limit import NO_LIMITS, Limits
from ramify.model.log import StoredLine
from ramify.model.mark import Mark
from ramify.model.process import NewProcess, Stamp, counter_slot
from ramify.model.run import NewRun, Order, RunState
from ramify.model.segment import LIVE_STATES, SegmentState
from ramify.model.task import Row
from ramify.model.topic import StoredPublication
from ramify.model.value import Key, StoredValue
from ramify.store.reads import CommitRow, Refusal, RunDecision, Sweep

BEATS_KEPT = 4096


@dataclass
class RunRow:
    """A run; `into` is what it was last drained into, and DONE if it never was."""

    new: NewRun
    state: RunState
    created: int
    since: int
    round: int = -1
    reason: str | None = None
    ended: int | None = None
    into: RunState = RunState.DONE
    decisions: list[RunDecision] = field(default_factory=list)

    @property
    def decision(self) -> Decision | None:
        """The last decision about it."""
        return self.decisions[-1].decision if self.decisions else None

    def state_for(self, round: int) -> SegmentState:
        """Return what a segment of that round is now: claimable, or behind the gate."""
        # Without a barrier all rounds open at once, and at once unless the run follows another.
        free = self.new.order is not Order.ROUNDS and (self.round >= 0 or self.new.follows is None)
        reached = free or round <= self.round
        return SegmentState.READY if reached and self.state is RunState.OPEN else SegmentState.GATED


@dataclass
class MemorySpan:
    """The permanent record of tasks appended together, with their columns. `shift` turns an id into its join slot."""

    first: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    priority: int
    due: int | None
    hold: Hold
    keep: int
    join: int | None
    shift: int
    bodies: list[bytes]
    parents: list[int | None]
    keys: list[bytes | None] | None
    details: list[bytes | None] | None
    lanes: list[str] | None = None
    awaited: bool = False
    published: bool = True
    #: When its tasks were published; `later` are those that were added one by one after that.
    added: int = 0
    later: dict[int, int] = field(default_factory=dict)

    def row(self, task: int) -> Row:
        """One of its tasks, as it is read."""
        i = task - self.first
        lane = self.lanes[i] if self.lanes else self.lane
        return Row(
            task, self.run, self.round, self.kind, self.queue, lane, self.priority, self.due, self.parents[i],
            self.bodies[i], self.keys[i] if self.keys else None, self.details[i] if self.details else None,
            self.later.get(task, self.added),
        )  # fmt: skip

    @property
    def last(self) -> int:
        """The last id of the range."""
        return self.first + len(self.bodies) - 1


@dataclass
class MemorySegment:
    """A live row. `attempt` is the highest event number among its tasks: 0 means none of them was ever tried.

    It is due at `due`, or at the end of the run that it `awaits`. It waits in the `line` of a limit, or is its head.
    """

    id: int
    span: MemorySpan
    lane: str | None
    round: int
    first: int
    last: int
    left: int | None
    rank: int
    due: int | None
    state: SegmentState
    attempt: int = 0
    deaths: Deaths = NO_DEATHS
    owner: int | None = None
    token: bytes | None = None
    awaits: int | None = None
    line: str | None = None

    @property
    def run(self) -> int:
        """The run it belongs to."""
        return self.span.run

    @property
    def count(self) -> int:
        """How many unfinished tasks it stands for."""
        return self.last - self.first + 1 if self.left is None else self.left.bit_count()

    def covers(self, task: int) -> bool:
        """Return whether `task` is one of them."""
        return self.first <= task <= self.last and (self.left is None or bool(self.left >> (task - self.first) & 1))


@dataclass
class KeyRow:
    """The holder of a key, and until when (None: until it is released)."""

    task: int
    hold: Hold
    expires: int | None = None


@dataclass
class SessionRow:
    """One process incarnation. `answer` is what its last numbered verb answered."""

    new: NewProcess
    entered: int
    beats: deque[int]
    last: int = 0
    answer: object = None
    gone_at: int | None = None
    draining: Said | None = None


@dataclass
class MemoryTables:
    """Everything one reference store holds; clients that share it share the store."""

    lock: RLock = field(default_factory=RLock)
    changed: Condition = field(init=False)
    version: int = 0
    #: What dead processes were doing. Here nobody can die alone, so it is filled by whoever pretends that one did.
    records: dict[int, Death] = field(default_factory=dict)
    #: The store's own id.
    id: str = field(default_factory=lambda: token_hex(8))
    next_id: int = 1
    next_segment: int = 1
    sessions: dict[int, SessionRow] = field(default_factory=dict)
    runs: dict[int, RunRow] = field(default_factory=dict)
    names: dict[tuple[str, int], int] = field(default_factory=dict)
    firsts: list[int] = field(default_factory=list)
    spans: dict[int, MemorySpan] = field(default_factory=dict)
    segments: dict[int, MemorySegment] = field(default_factory=dict)
    tokens: dict[bytes, MemorySegment] = field(default_factory=dict)
    events: dict[int, tuple[Event, ...]] = field(default_factory=dict)
    commits: list[tuple[CommitRow, list[Event], list[Sweep]]] = field(default_factory=list)
    #: Those of which nothing is left: they keep their place here, and nobody sees them any more.
    forgotten_commits: set[int] = field(default_factory=set)
    sweeps: dict[int, list[Sweep]] = field(default_factory=lambda: defaultdict(list))
    #: By run, kind, queue, what is counted and slot; and by how much any was ever lowered, by kind, queue and what.
    counters: dict[tuple[int, str, str, int, int], int] = field(default_factory=lambda: defaultdict(int))
    lowered: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    starts: int = 0
    deaths: int = 0
    redelivered: int = 0
    keys: dict[bytes, KeyRow] = field(default_factory=dict)
    labels: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    joins: dict[int, Standing] = field(default_factory=dict)
    waiters: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    #: By task, the last one behind it.
    behind: dict[int, int] = field(default_factory=dict)
    #: The same by join: the task in each slot; and the spans whose tasks are members by their place.
    linked: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    grouped: dict[int, list[MemorySpan]] = field(default_factory=lambda: defaultdict(list))
    marks: dict[int, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    #: By run and name.
    context: dict[int, dict[str, ContextValue]] = field(default_factory=lambda: defaultdict(dict))
    values: dict[Key, StoredValue] = field(default_factory=dict)
    #: Those of them that are limits.
    limits: Limits = NO_LIMITS
    #: By topic and number; the last number of each topic, and when it was given.
    publications: dict[str, dict[int, StoredPublication]] = field(default_factory=lambda: defaultdict(dict))
    topics: dict[str, tuple[int, int]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    lines: list[StoredLine] = field(default_factory=list)
    next_line: int = 1
    noted: set[tuple[int, int]] = field(default_factory=set)

    def latest(self) -> int:
        """The latest time written down: that of the last commit."""
        return self.commits[-1][0].at if self.commits else 0

    def __post_init__(self) -> None:
        self.changed = Condition(self.lock)

    # sessions

    def session(self, process: int) -> SessionRow:
        """The session of a living process; Reaped otherwise."""
        row = self.sessions.get(process)
        if row is None or row.gone_at is not None:
            raise Reaped(f"process {process:x} was reaped or never entered; enter again as a new process")
        return row

    def consumed(self, stamp: Stamp) -> SessionRow | None:
        """None when the stamp is new; the session with its stored answer when it is the last one sent again."""
        session = self.session(stamp.process)
        if stamp.n > session.last:
            return None
        if stamp.n < session.last:
            raise StaleStamp(f"verb {stamp.n} of process {stamp.process:x} is older than its last, {session.last}")
        return session

    def consume(self, stamp: Stamp, answer: object) -> None:
        """Use the stamp up and remember the answer for a repetition."""
        session = self.session(stamp.process)
        session.last, session.answer = stamp.n, answer

    # runs and spans

    def run(self, run: int) -> RunRow:
        """A run; UnknownRun when there is none."""
        try:
            return self.runs[run]
        except KeyError:
            raise UnknownRun(f"there is no run {run} in this store") from None

    def add_span(self, span: MemorySpan) -> None:
        """Put a range into the log."""
        insort(self.firsts, span.first)
        self.spans[span.first] = span
        if span.join is not None:
            self.grouped[span.join].append(span)

    def span_of(self, task: int) -> MemorySpan | None:
        """The range that holds `task`, published or not."""
        at = bisect_right(self.firsts, task)
        span = self.spans[self.firsts[at - 1]] if at else None
        return span if span is not None and task <= span.last else None

    def published(self, task: int) -> MemorySpan | None:
        """The range that holds `task`, when it is published."""
        span = self.span_of(task)
        return span if span is not None and span.published else None

    def is_forgotten(self, task: int) -> bool:
        """Return whether `task` is of a run that was forgotten, and goes with one of the next pages."""
        span = self.span_of(task)
        return span is not None and self.run(span.run).state is RunState.FORGOTTEN

    def kept(self, task: int) -> MemorySpan | None:
        """The range that holds `task`, when it is published and its run was not forgotten."""
        return None if self.is_forgotten(task) else self.published(task)

    def owner(self, first: int, last: int) -> int | None:
        """The run of the tasks that lie in a range of ids, if any do."""
        at = bisect_right(self.firsts, last)
        span = self.spans[self.firsts[at - 1]] if at else None
        return span.run if span is not None and span.last >= first else None

    # segments

    def add_segment(self, span: MemorySpan, **fields: object) -> MemorySegment:
        """A new live row over (part of) a span."""
        row = MemorySegment(id=self.next_segment, span=span, lane=span.lane, **fields)  # type: ignore[arg-type]
        self.next_segment += 1
        self.segments[row.id] = row
        return row

    def copy_segment(self, row: MemorySegment, **changes: object) -> MemorySegment:
        """A new live row that nobody holds, like another but for some changes."""
        new = replace(row, id=self.next_segment, owner=None, token=None, **changes)  # type: ignore[arg-type]
        self.next_segment += 1
        self.segments[new.id] = new
        return new

    def drop_segment(self, row: MemorySegment) -> None:
        """Remove a row that stands for nothing any more."""
        del self.segments[row.id]
        if row.token is not None:
            self.tokens.pop(row.token, None)

    def covering(self, task: int) -> MemorySegment | None:
        """The live row in whose mask `task` is set."""
        live = (row for row in self.segments.values() if row.state in LIVE_STATES)
        return next((row for row in live if row.covers(task)), None)

    def held_by(self, process: int) -> list[MemorySegment]:
        """The rows a process has claimed."""
        return [row for row in self.tokens.values() if row.owner == process]

    # log

    def new_commit(self, process: int, n: int, at: int) -> int:
        """Open the next commit of the log; events are added to it with `write_events`."""
        seq = len(self.commits) + 1
        self.commits.append((CommitRow(seq, process, n, at, 0), [], []))
        return seq

    def write_events(
        self,
        tasks: Iterable[int],
        statuses: Iterable[Status],
        values: Iterable[bytes | None],
        took: Mapping[int, int] = NO_TIMES,
    ) -> int:
        """Add one event each to the newest commit; the highest event number among them."""
        seq, highest = len(self.commits), 0
        wrote, log = self.commits[-1][1], self.events
        for task, status, value in zip(tasks, statuses, values, strict=False):
            known = log.get(task, ())
            n = len(known) + 1
            event = Event(task, n, status, value, seq, took.get(task))
            log[task] = (*known, event)
            wrote.append(event)
            if n > highest:
                highest = n
        return highest

    def write_event(self, task: int, status: Status, value: bytes | None) -> None:
        """Add one event to the newest commit."""
        self.write_events((task,), (status,), (value,))

    def count(self, run: int, kind: str, queue: str, what: Status | Tally, process: int, by: int = 1) -> None:
        """Move a counter; what one is lowered by stays in the totals."""
        self.counters[run, kind, queue, int(what), counter_slot(process)] += by
        self.lowered[kind, queue, int(what)] += max(0, -by)

    def wake(self) -> None:
        """Tell waiting clients that something may have changed."""
        self.version += 1
        self.changed.notify_all()
