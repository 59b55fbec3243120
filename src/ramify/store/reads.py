"""Reads: pages and counts for people, handlers and checks. Bounded, keyset-paginated; no verb of the work is decided
by them.

Three classes, and each read says which it is:

    exact   every commit that matters is in: claimed ranges, results of a full join, anything about an ended run
    page    a snapshot of an open run: rows committed later with smaller ids may be missed; `more` is about now
    tail    a cursor over the commit table: follows an open run and misses nothing

A page is asked for with the cursor of the previous one and holds at most `limit` rows (at most `PAGE_LIMIT`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ramify.errors import BadPayload
from ramify.model.context import ContextValue
from ramify.model.decision import Decision
from ramify.model.event import Event, History, Status
from ramify.model.join import Join
from ramify.model.log import StoredLine
from ramify.model.process import Process
from ramify.model.run import Owner, RunState, StoredRun
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import Row
from ramify.model.topic import StoredPublication, TopicNumbers
from ramify.model.value import Key, StoredValue
from ramify.store.error_groups import ErrorSummary

PAGE_LIMIT = 10_000
#: The most live rows that are counted; beyond that it says so.
LIVE_SCAN = 1_000_000

T = TypeVar("T")


def page_size(limit: int) -> int:
    """How many rows a page may hold; BadPayload for a limit that makes no page."""
    if limit < 1:
        raise BadPayload(f"a page of {limit} rows; ask for 1 to {PAGE_LIMIT}")
    return min(limit, PAGE_LIMIT)


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some rows in order, the cursor that continues after them, and whether there was more when it was read."""

    rows: Sequence[T]
    after: int
    more: bool


class Span(msgspec.Struct, frozen=True):
    """The permanent record of tasks appended together: the range, and what its tasks share."""

    first: int
    last: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    priority: int
    due: int | None
    join: int | None = None
    slot: int = 0


class Sweep(msgspec.Struct, frozen=True):
    """The tasks that the cancel of a run ended in one stroke."""

    run: int
    first: int
    last: int
    left: int | None
    seq: int

    def covers(self, task: int) -> bool:
        """Return whether `task` is one of them."""
        return self.first <= task <= self.last and (self.left is None or bool(self.left >> (task - self.first) & 1))


class RunStart(msgspec.Struct, frozen=True):
    """A run, and its place in the log."""

    run: int
    seq: int


class RunDecision(msgspec.Struct, frozen=True):
    """A decision about a run, and its place in the log."""

    run: int
    seq: int
    decision: Decision


class TaskStanding(msgspec.Struct, frozen=True):
    """Where a task stands: how it ended, with which value and in which commit; or the live row in which it is set."""

    row: Row
    ended: Status | None = None
    value: bytes | None = None
    seq: int | None = None
    segment: Segment | None = None

    @property
    def due(self) -> int | None:
        """The time before which it does not start; None when it has none, or has ended."""
        return None if self.segment is None else self.segment.due


class LiveCount(msgspec.Struct, frozen=True):
    """Unfinished tasks of a run whose rows are alike: how many, and of those due at a time to come (`later`) the first
    such time. `ahead` are of a round that has not opened yet.
    """

    state: SegmentState
    kind: str
    owner: int | None
    apart: bool
    later: bool
    ahead: bool
    tasks: int
    next_due: int | None = None


class LiveCounts(msgspec.Struct, frozen=True):
    """The unfinished work of a run, counted. `complete` is False when only `LIVE_SCAN` of its rows were looked at."""

    counts: Sequence[LiveCount]
    complete: bool


class CommitRow(msgspec.Struct, frozen=True):
    """One applied commit: who, its number, when, and how many events it wrote.

    So is the start of a run, by no process and without events, unless a commit or a swap opened the run; and so are
    decisions about runs.
    """

    seq: int
    process: int
    n: int
    at: int
    events: int


class Tail(msgspec.Struct, frozen=True):
    """The events, sweeps, starts of runs and decisions about them in whole commits after a cursor. `after` continues;
    nothing in between is ever missed.

    A run that began took its first tasks with it: `tasks` finds them.
    """

    commits: Sequence[CommitRow]
    events: Sequence[Event]
    sweeps: Sequence[Sweep]
    starts: Sequence[RunStart]
    decisions: Sequence[RunDecision]
    after: int


class KindTotals(msgspec.Struct, frozen=True):
    """Tasks of one kind in one queue: how often each `Status` and `Tally` ever happened, and how many are pending."""

    kind: str
    queue: str
    ever: Mapping[int, int]
    pending: int


class Totals(msgspec.Struct, frozen=True):
    """All that ever happened in a store: to tasks, and to the processes that work on them.

    `starts` and `deaths` are those of processes that do tasks, and `redelivered` the tasks that such deaths left.
    `refused` are the parts of commits that came too late.
    """

    kinds: Sequence[KindTotals]
    starts: int = 0
    deaths: int = 0
    redelivered: int = 0
    refused: int = 0


class Refusal(msgspec.Struct, frozen=True):
    """A late commit that was refused: whose, which part, how many outcomes it held, and when."""

    process: int
    n: int
    token: bytes
    tasks: int
    at: int


class Result(msgspec.Struct, frozen=True):
    """How one task ended."""

    task: int
    status: Status
    value: bytes | None


class Table(msgspec.Struct, frozen=True):
    """The rows that answer an SQL query, on stores that take one."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


class Reads(Protocol):
    """The reads every store offers."""

    def run(self, run: int) -> StoredRun:
        """One run (exact); UnknownRun when there is none."""

    def find_run(self, name: str) -> StoredRun | None:
        """The newest generation under a name (exact)."""

    def runs(
        self,
        *,
        state: RunState | None = None,
        prefix: str = "",
        newest_first: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> Page[StoredRun]:
        """Runs by id (page), from the first on, or from the newest back; `after=0` begins at either end.

        With a `prefix`, those whose names begin with it; then its price grows with those alone.
        """

    def runs_at(self, runs: Sequence[int]) -> Mapping[int, StoredRun]:
        """Return those of these runs that exist, by id, in one read (exact)."""

    def owners(self, digest: bytes) -> Sequence[Owner]:
        """Return the owners of unfinished runs without a name that have this digest (exact), each owner once."""

    def unnamed(self, digest: bytes, owner: Owner, *, after: int = 0, limit: int = 100) -> Page[StoredRun]:
        """Return those of one owner, by id (page)."""

    def decisions(self, run: int, *, after: int = 0, limit: int = 100) -> Page[Decision]:
        """Return the decisions about a run by number, also about one that was forgotten (exact)."""

    def counts(self, run: int | None) -> Mapping[str, Mapping[int, int]]:
        """Counters by kind: `Status` and `Tally` to number (page; exact once the run ended). O(kinds), not O(tasks).

        With None: those of all runs that have not ended, together; then for each such run.
        """

    def totals(self) -> Totals:
        """All that ever happened, by kind and queue (exact). O(kinds) and open runs, not O(tasks).

        No verb lowers any of it but `pending`: not what is forgotten, revived or replaced, nor the end of a process.
        """

    def task(self, task: int) -> Row | None:
        """One task of the log (exact)."""

    def tasks(
        self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
    ) -> Page[Row]:
        """Published tasks of a run by id (page), from the first on, or from the newest back."""

    def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
        """Published tasks whose parent is `task`, by id (page; exact once it has ended)."""

    def segment(self, task: int) -> Segment | None:
        """The live row in which a task is set; None when it has ended, or was never published (page)."""

    def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
        """Where published tasks stand, all at one moment and sweeps included (exact); those that are not there, or were
        forgotten, are left out, and so is the id of no possible task. Its price grows with how many are asked for.
        """

    def find_tasks(self, run: int, kind: str, key: bytes, *, limit: int = 100) -> Sequence[int]:
        """Published tasks of that run and kind with that key, oldest first (page). Replaced ones have lost theirs."""

    def holder(self, kind: str, key: bytes) -> int | None:
        """Return the unfinished task of that kind that holds a UNIQUE key, whichever run it is in."""

    def events(self, first: int, last: int) -> Sequence[Event]:
        """Events of tasks `first..last` by task and number (exact for claimed ranges and ended runs)."""

    def history(self, task: int) -> History:
        """Return what the events of one task add up to, sweeps included (exact for ended tasks)."""

    def results(
        self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
    ) -> Page[Result]:
        """Ended tasks of a run by id (page; exact once the run has ended)."""

    def members(self, join: int, *, after: int = -1, limit: int = 1000) -> Page[tuple[int, int]]:
        """Members of a join as `(slot, task)` in slot order (exact once it is full)."""

    def errors(self, run: int | None) -> ErrorSummary:
        """Failed and quarantined tasks of a run, grouped (page; exact once the run has ended).

        With None: those of all runs that were not forgotten, together; then the newest are those with the largest ids.
        """

    def tail(self, after: int, *, limit: int = 100) -> Tail:
        """The next whole commits after a cursor (tail); start with 0. At most `limit` commits."""

    def head(self) -> int:
        """Where a tail that has read everything up to now stands: begun here, it sees all that comes (tail)."""

    def spans(self, *, run: int | None = None, after: int = 0, limit: int = 1000) -> Page[Span]:
        """The permanent record of what was appended, by first id (page)."""

    def segments(
        self, *, run: int | None = None, owner: int | None = None, after: int = 0, limit: int = 1000
    ) -> Page[Segment]:
        """Rows of the segment table, staged and garbage ones included, by their id (page).

        With an `owner`, those that this process has claimed; their price is what it holds, not what there is.
        """

    def due_tasks(self, kind: str, *, run: int | None = None, after: int = 0, limit: int = 100) -> Page[TaskStanding]:
        """Tasks of a kind, of one run or of all, that have a due time and that nobody holds, by id (page).

        Its price grows with the rows of that kind that have one and with those behind gates; of one run, with its rows.
        """

    def fired_at(self, tasks: Sequence[int]) -> Mapping[int, int]:
        """When these tasks could begin: the last end of those that arrive at their join, or their own reopening if that
        came later (page; exact for a join that has fired). One that has neither is left out. Its price grows with how
        many arrive.
        """

    def live_counts(self, run: int, now: int) -> LiveCounts:
        """Published tasks of a run that have not ended, counted by what their rows have in common at a time (page)."""

    def in_line(self, *, limit: int = 100) -> Sequence[Segment]:
        """Ready rows that come first, by rank: of each kind and queue `limit` by rank and `limit` of those with a due
        time by that, and `limit` of the suspects (page). Its price grows with kinds and queues, not with rows.
        """

    def sweeps(self, run: int) -> Sequence[Sweep]:
        """Return what the cancel of a run ended (exact once the run has ended)."""

    def joins(self, run: int, *, fired: bool | None = None, after: int = 0, limit: int = 100) -> Page[Join]:
        """Joins of a run by id (page)."""

    def context(self, run: int, *, after: str = "", limit: int = 100) -> Sequence[ContextValue]:
        """Return what the tasks of a run have set in its context, by name (page); the next ones come `after` the last
        name.
        """

    def context_value(self, run: int, name: str) -> ContextValue | None:
        """Return what stands under one name of it; None for nothing (page; exact once the run has ended)."""

    def value(self, space: str, name: str) -> StoredValue | None:
        """Return one value as it is stored (exact); one that has expired may be there or not."""

    def values(self, *, space: str | None = None, after: Key = ("", ""), limit: int = 100) -> Sequence[StoredValue]:
        """Return values by space and name (page), of one space or of all; expired ones may be among them.

        The next ones come `after` the key of the last one.
        """

    def publications(self, topic: str, *, after: int = 0, limit: int = 100) -> Sequence[StoredPublication]:
        """Return the next publications of a topic by number (tail); of one that nobody published to, none.

        The next ones come after the number of the last one, and none that is committed later has a smaller number.
        Those that have expired may be there or not.
        """

    def topics(self, *, prefix: str = "", after: str = "", limit: int = 100) -> Sequence[TopicNumbers]:
        """Return topics to which something was published, by name (page), or those whose names begin with a `prefix`.

        The next ones come `after` the name of the last one. Its price grows with how many it returns.
        """

    def logs(
        self, run: int, *, task: int | None = None, level: int = 0, after: int = 0, limit: int = 1000
    ) -> Page[StoredLine]:
        """Return what a run logged, or one task of it, at `level` or above, in order of arrival (tail).

        A follower that goes on with the cursor of its last page misses nothing, also of lines that come in late.
        """

    def processes(self) -> Sequence[Process]:
        """Sessions, the living and the recently dead (page). How long ago something was is told in seconds, by the
        store's clock.
        """

    def refusals(self, *, limit: int = 100) -> Sequence[Refusal]:
        """The newest refused parts (page)."""

    def damage(self) -> Sequence[str]:
        """Return what the store finds wrong with its own bytes, having read all of them; nothing when they are whole
        (exact).

        Damage so bad that it cannot be told is StoreBroken.
        """
