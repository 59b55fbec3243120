"""Changes: what a verb has decided, as values that a backend writes in one go.

Nothing here is read back by the verb that made it, but for its place in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ramify.model.arrivals import Standing
from ramify.model.claim import Want
from ramify.model.commit import NO_TIMES
from ramify.model.context import ContextValue
from ramify.model.decision import Decision
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins
from ramify.model.limit import Limit
from ramify.model.mark import Mark
from ramify.model.run import RunState, StoredRun
from ramify.model.task import NewTasks
from ramify.model.topic import Publication
from ramify.model.value import Key, StoredValue
from ramify.store.answers import Answer
from ramify.store.rows import SegmentRow, SpanRow

#: The run, kind, queue and what is counted.
Counted = tuple[int, str, str, Status | Tally]


class Events(NamedTuple):
    """An event for each of some tasks: number and status are one for all, or one each."""

    tasks: Sequence[int]
    numbers: int | Sequence[int]
    statuses: Status | Sequence[Status]
    values: Sequence[bytes | None] | None = None
    took: Mapping[int, int] = NO_TIMES


class Revived(NamedTuple):
    """A run that had ended and is open again; the reason that it keeps."""

    run: int
    reason: str | None


class Placed(NamedTuple):
    """New tasks with ids from `first` on: all of a group, or those at the `chosen` positions."""

    first: int
    tasks: NewTasks
    chosen: Sequence[int] | None = None


class Waiters(NamedTuple):
    """As columns: the end of a task is an arrival at a slot of a join."""

    tasks: Sequence[int]
    joins: Sequence[int]
    slots: Sequence[int]


class RunDrained(NamedTuple):
    """A run that drains from now on, into what and why."""

    run: int
    into: RunState
    reason: str | None


class RunEnd(NamedTuple):
    """A run that is over, as what and why."""

    run: int
    state: RunState
    reason: str | None


class RunDecided(NamedTuple):
    """A run about which somebody decided, and its state after that."""

    run: int
    state: RunState
    decision: Decision


class AskAfter(NamedTuple):
    """The questions whose answers go back with that of a verb, as of the end of its transaction.

    The claims under some `tokens`, with all that goes along; what is left of a `want`, and when more is due of it than
    was due when it was `looked` at; and the marks that a `process` is told.
    """

    tokens: Sequence[bytes] = ()
    want: Want | None = None
    looked: int | None = None
    process: int | None = None


class TailRow(NamedTuple):
    """A live row that a single task may extend, and its span."""

    span: SpanRow
    row: SegmentRow


class Believed(NamedTuple):
    """Facts that an earlier verb of this client has left: `run` is the newest of its name, in that state and round; the
    ids from `first` to `last` are reserved and free. The one new task extends the `tail` while that is as it is here,
    and gets a row of its own otherwise.
    """

    run: StoredRun
    first: int
    last: int
    tail: TailRow | None = None


@dataclass(slots=True)
class Changes:
    """The decisions of a verb. A backend writes all of them in one go, in this order, whichever verb made them."""

    process: int
    n: int
    now: int
    is_logged: bool = False  #: it has a place in the log, with events or without
    seq: int = 0  #: that place, once some of it is written
    told: int = 0  #: how many events it has
    added: Counter[int] = field(default_factory=Counter)  #: how many tasks were added to runs, by what is written
    revived: list[Revived] = field(default_factory=list)  #: before anything of them is counted
    replaced: list[tuple[SpanRow, int, int]] = field(default_factory=list)  #: an edition, by its spans
    context: dict[tuple[int, str], ContextValue] = field(default_factory=dict)
    values: dict[Key, StoredValue | None] = field(default_factory=dict)  #: swapped; None for one that is deleted
    events: list[Events] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)  #: in which all events lie
    runs: list[StoredRun] = field(default_factory=list)  #: new ones; each is written with its place in the log
    counts: Counter[Counted] = field(default_factory=Counter)
    lowered: Counter[Counted] = field(default_factory=Counter)  #: counters that fall, which totals never do
    marks: list[Mark] = field(default_factory=list)
    unmarked: list[tuple[int, int]] = field(default_factory=list)  #: run and task: what people wanted of it is over
    timely: list[tuple[int, int]] = field(default_factory=list)  #: run and task: that it ran out of time is over
    freed: list[tuple[bytes, int]] = field(default_factory=list)  #: digests, with the task that lets go
    kept: list[tuple[int, bytes, int]] = field(default_factory=list)  #: until when, the digest and its task
    once: dict[bytes, int] = field(default_factory=dict)  #: digests that are held for ever, with their task
    unique: dict[bytes, int] = field(default_factory=dict)  #: digests that are held until their task ends
    labels: list[tuple[bytes, int]] = field(default_factory=list)
    new_joins: list[tuple[int, NewJoins]] = field(default_factory=list)  #: with their run
    spans: list[SpanRow] = field(default_factory=list)
    tasks: list[Placed] = field(default_factory=list)
    late: list[Placed] = field(default_factory=list)  #: of a span that is older than they are
    longer: list[SpanRow] = field(default_factory=list)  #: spans to which tasks were added
    published: list[SpanRow] = field(default_factory=list)
    waiters: list[Waiters] = field(default_factory=list)
    behind: dict[int, int] = field(default_factory=dict)  #: by task, the last one behind it
    disowned: list[tuple[int, int, int]] = field(default_factory=list)  #: who waits no more: task, join and slot
    reset: list[Standing] = field(default_factory=list)  #: joins that forgot members, or fire once more
    joins: list[Standing] = field(default_factory=list)  #: settled
    small: list[tuple[int, int, bool]] = field(default_factory=list)  #: of small joins: who arrived, and if it fired
    swept: list[SegmentRow] = field(default_factory=list)  #: all of their tasks end as cancelled
    unstaged: list[bytes] = field(default_factory=list)  #: tokens: nobody will publish what was staged under them
    garbage: list[SegmentRow] = field(default_factory=list)  #: ranges that nobody will publish
    dropped: list[SegmentRow] = field(default_factory=list)
    masked: list[SegmentRow] = field(default_factory=list)  #: `left` and `attempt` changed
    grown: list[SegmentRow] = field(default_factory=list)  #: `last` changed
    offered: list[SegmentRow] = field(default_factory=list)  #: `state` and `rank` changed, and nobody holds them
    cut: list[SegmentRow] = field(default_factory=list)  #: `first` and `left` changed
    lined: list[SegmentRow] = field(default_factory=list)  #: `state`, `due` and `line` changed
    claimed: list[SegmentRow] = field(default_factory=list)
    segments: list[SegmentRow] = field(default_factory=list)  #: new
    decided: list[RunDecided] = field(default_factory=list)  #: each is written with its place in the log
    drained: list[RunDrained] = field(default_factory=list)
    relimited: list[tuple[str, Limit | None]] = field(default_factory=list)  #: limits that are others now, or none
    gated: list[int] = field(default_factory=list)  #: runs that are paused
    opened: list[tuple[int, int]] = field(default_factory=list)  #: round and run
    ungated: list[tuple[int, int]] = field(default_factory=list)  #: a run, and the last round that is open
    ended: list[RunEnd] = field(default_factory=list)
    refused: list[tuple[bytes, int]] = field(default_factory=list)  #: tokens that were void, with how many tasks
    #: Numbered when they are written, after all else of the verb: the last number of a topic is locked until the end.
    publications: list[Publication] = field(default_factory=list)
    has_left: bool = False  #: the session of the process ends
    has_died: bool = False  #: as that of a worker that died
    offered_again: int = 0  #: how many of its tasks are offered again
    answer: Answer | None = None
    after: AskAfter | None = None  #: what will be asked once it is written

    @property
    def puts_in_line(self) -> bool:
        """True if a claim that took nothing has put rows in line, or taken some apart."""
        return bool(self.lined or self.segments)

    def begin(self, run: StoredRun) -> None:
        """Add a new run, whose start is in the log."""
        self.is_logged = True
        self.runs.append(run)

    def decide(self, decided: RunDecided) -> None:
        """Add a decision about a run, which is in the log."""
        self.is_logged = True
        self.decided.append(decided)

    def tell(self, tasks: Sequence[int], bounds: tuple[int, int], numbers: int | Sequence[int], *rest: object) -> None:
        """Add an event for each of some tasks."""
        self.told += len(tasks)
        self.ranges.append(bounds)
        self.events.append(Events(tasks, numbers, *rest))  # type: ignore[arg-type]

    def extend(self, tail: TailRow) -> None:
        """Let the one new task of these changes extend a row instead of beginning one."""
        (mine,), (placed,) = self.spans, self.tasks
        tail.span.grow(mine)
        tail.row.last = mine.last
        self.late, self.longer = [placed], [tail.span]
        self.spans, self.tasks, self.segments = [], [], []

    def all_added(self) -> Counter[int]:
        """How many tasks are added to each run, with what is written already."""
        grown = Counter(self.added)
        for (run, _, _, what), many in self.counts.items():
            if what is Tally.ADDED:
                grown[run] += many
        return grown

    def go_on(self) -> None:
        """All of it is written: what follows has the same place in the log."""
        kept = {name: getattr(self, name) for name in ("is_logged", "seq", "told", "ranges")}
        after = Changes(self.process, self.n, self.now, added=self.all_added(), **kept)
        for name in self.__slots__:
            setattr(self, name, getattr(after, name))
