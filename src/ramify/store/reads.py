"""Reads: pages and counts for people, handlers and checks. Bounded, keyset-paginated; no verb of the work is decided
by them.

Three classes, and each read says which it is:

    exact   every commit that matters is in: claimed ranges, results of a full join, anything about an ended run
    page    a snapshot of an open run: rows committed later with smaller ids may be missed; `more` is about now
    tail    a cursor over the commit table: follows an open run and misses nothing

A page is asked for with the cursor of the previous one and holds at most `limit` rows (at most `PAGE_LIMIT`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ramify.errors import BadPayload
from ramify.model.context import ContextValue
from ramify.model.event import Event, History, Status
from ramify.model.fingerprint import fingerprint
from ramify.model.join import Join
from ramify.model.log import StoredLine
from ramify.model.mark import Mark
from ramify.model.outcome import Failure
from ramify.model.process import Process
from ramify.model.run import Owner, RunState, StoredRun
from ramify.model.segment import Segment
from ramify.model.task import Row

PAGE_LIMIT = 10_000
#: The most failed tasks an error summary looks at; beyond that it says so.
GROUP_SCAN = 100_000
#: The most groups of errors that are told apart; twice as many while they are counted.
MOST_GROUPS = 500
EXAMPLES = 3

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
        """Whether `task` is one of them."""
        return self.first <= task <= self.last and (self.left is None or bool(self.left >> (task - self.first) & 1))


class TaskStanding(msgspec.Struct, frozen=True):
    """Where a task stands: how it ended, with which value and in which commit; or the live row in which it is set."""

    row: Row
    ended: Status | None = None
    value: bytes | None = None
    seq: int | None = None
    segment: Segment | None = None


class CommitRow(msgspec.Struct, frozen=True):
    """One applied commit: who, its number, when, and how many events it wrote."""

    seq: int
    process: int
    n: int
    at: int
    events: int


class Tail(msgspec.Struct, frozen=True):
    """The events and sweeps of whole commits after a cursor. `after` continues; nothing in between is ever missed."""

    commits: Sequence[CommitRow]
    events: Sequence[Event]
    sweeps: Sequence[Sweep]
    after: int


class ErrorGroup(msgspec.Struct, frozen=True):
    """Failed tasks that look alike: kind, error type and text, how many, a few of them, and when they failed.

    `text` is what all of them say, or their fingerprint when they differ in numbers, names or paths; `example` is what
    the first of `examples` said. `first` and `last` are times of the store's clock.
    """

    kind: str
    type: str
    text: str
    count: int
    examples: tuple[int, ...]
    example: str = ""
    first: int = 0
    last: int = 0

    @property
    def error(self) -> str:
        """The error the way Python shows one."""
        return f"{self.type}: {self.text}" if self.text else self.type


class ErrorSummary(msgspec.Struct, frozen=True):
    """Error groups, largest first, at most `MOST_GROUPS`; `others` failures are in none of them.

    `complete` is False when only the newest `GROUP_SCAN` failures were looked at.
    """

    groups: Sequence[ErrorGroup]
    complete: bool
    others: int = 0

    @property
    def looked_at(self) -> int:
        """How many failures that makes."""
        return sum(group.count for group in self.groups) + self.others


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
    """The answer to a question in SQL, on stores that take one."""

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

    def owners(self, digest: bytes) -> Sequence[Owner]:
        """Who began the runs without a name that have this digest and have not ended (exact), each owner once."""

    def unnamed(self, digest: bytes, owner: Owner, *, after: int = 0, limit: int = 100) -> Page[StoredRun]:
        """Those of one owner, by id (page)."""

    def counts(self, run: int | None) -> Mapping[str, Mapping[int, int]]:
        """Counters by kind: `Status` and `Tally` to number (page; exact once the run ended). O(kinds), not O(tasks).

        With None: those of all runs that have not ended, together; then for each such run.
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

    def events(self, first: int, last: int) -> Sequence[Event]:
        """Events of tasks `first..last` by task and number (exact for claimed ranges and ended runs)."""

    def history(self, task: int) -> History:
        """What the events of one task add up to, sweeps included (exact for ended tasks)."""

    def results(
        self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
    ) -> Page[Result]:
        """Ended tasks of a run by id (page; exact once the run has ended)."""

    def members(self, join: int, *, after: int = -1, limit: int = 1000) -> Page[tuple[int, int]]:
        """Members of a join as `(slot, task)` in slot order (exact once it is full)."""

    def errors(self, run: int) -> ErrorSummary:
        """Failed and quarantined tasks of a run, grouped (page; exact once the run has ended)."""

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

    def in_line(self, *, limit: int = 100) -> Sequence[Segment]:
        """Ready rows that come first, by rank: of each kind and queue `limit` by rank and `limit` of those with a due
        time by that, and `limit` of the suspects (page). Its price grows with kinds and queues, not with rows.
        """

    def sweeps(self, run: int) -> Sequence[Sweep]:
        """What the cancel of a run ended (exact once the run has ended)."""

    def marks(self, run: int) -> Sequence[Mark]:
        """Marks of a run (page)."""

    def joins(self, run: int, *, fired: bool | None = None, after: int = 0, limit: int = 100) -> Page[Join]:
        """Joins of a run by id (page)."""

    def context(self, run: int, *, after: str = "", limit: int = 100) -> Sequence[ContextValue]:
        """What the tasks of a run have set in its context, by name (page); the next ones come `after` the last name."""

    def context_value(self, run: int, name: str) -> ContextValue | None:
        """What stands under one name of it; None for nothing (page; exact once the run has ended)."""

    def logs(
        self, run: int, *, task: int | None = None, level: int = 0, after: int = 0, limit: int = 1000
    ) -> Page[StoredLine]:
        """What a run logged, or one task of it, at `level` or above, in order of arrival (tail).

        A follower that goes on with the cursor of its last page misses nothing, also of lines that come in late.
        """

    def processes(self) -> Sequence[Process]:
        """Sessions, the living and the recently dead (page)."""

    def refusals(self, *, limit: int = 100) -> Sequence[Refusal]:
        """The newest refused parts (page)."""

    def damage(self) -> Sequence[str]:
        """What the store finds wrong with its own bytes, having read all of them; nothing when they are whole (exact).

        Damage so bad that it cannot be told is StoreBroken.
        """


class _Alike:
    """Failures with one fingerprint, as they are met: the newest first."""

    def __init__(self, text: str, at: int) -> None:
        self.count = 0
        self.text: str | None = text
        self.example = text
        self.examples: deque[int] = deque(maxlen=EXAMPLES)
        self.first = self.last = at

    def add(self, task: int, text: str, at: int) -> None:
        """One more."""
        self.count += 1
        self.example = text
        self.text = self.text if self.text == text else None
        self.examples.appendleft(task)
        self.first, self.last = min(self.first, at), max(self.last, at)

    def group(self, kind: str, type: str, folded: str) -> ErrorGroup:
        """All of them as one group."""
        text = folded if self.text is None else self.text
        return ErrorGroup(kind, type, text, self.count, tuple(self.examples), self.example, self.first, self.last)


def group_errors(failures: Iterable[tuple[int, str, bytes | None, int]]) -> ErrorSummary:
    """Group `(task, kind, value, at)` of failed tasks, the newest first, by kind, type and fingerprint.

    At most the first `GROUP_SCAN` are looked at. Memory is bounded however many differ: when there are too many groups,
    the smaller half of them is only counted from then on, as `others`.
    """
    found: dict[tuple[str, str, str], _Alike] = {}
    rest = iter(failures)
    others = 0
    for task, kind, value, at in islice(rest, GROUP_SCAN):
        failure = Failure.decode(value)
        name = (kind, failure.type, fingerprint(failure.text))
        alike = found.get(name)
        if alike is None:
            if len(found) >= 2 * MOST_GROUPS:
                found, few = _largest(found)
                others += few
            alike = found[name] = _Alike(failure.text, at)
        alike.add(task, failure.text, at)
    # To its end, so that no statement stays open over a snapshot.
    complete = sum(1 for _ in rest) == 0
    found, few = _largest(found)
    groups = [each.group(*name) for name, each in found.items()]
    return ErrorSummary(groups, complete, others + few)


def _largest(found: dict[tuple[str, str, str], _Alike]) -> tuple[dict[tuple[str, str, str], _Alike], int]:
    """The `MOST_GROUPS` largest groups in order, and how many failures are in those left out."""
    order = sorted(found, key=lambda name: (-found[name].count, name))
    few = sum(found[name].count for name in order[MOST_GROUPS:])
    return {name: found[name] for name in order[:MOST_GROUPS]}, few
