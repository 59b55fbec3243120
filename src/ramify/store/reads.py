"""Reads: pages and counts for people and for checks. Bounded, keyset-paginated; the kernel never calls them.

Three classes, and each read says which it is:

    exact   every commit that matters is in: claimed ranges, results of a full join, anything about an ended run
    page    a snapshot of an open run: rows committed later with smaller ids may be missed; `more` is about now
    tail    a cursor over the commit table: follows an open run and misses nothing

A page is asked for with the cursor of the previous one and holds at most `limit` rows (at most `PAGE_LIMIT`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ramify.errors import BadPayload
from ramify.model.event import Event, History, Status
from ramify.model.join import Join
from ramify.model.log import StoredLine
from ramify.model.mark import Mark
from ramify.model.outcome import Failure
from ramify.model.process import Process
from ramify.model.run import Run, RunState
from ramify.model.segment import Segment
from ramify.model.task import Row

PAGE_LIMIT = 10_000
#: The most failed tasks an error summary looks at; beyond that it says so.
GROUP_SCAN = 100_000
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
    """Failed tasks that look alike: kind, error type and text, how many, and a few of them."""

    kind: str
    type: str
    text: str
    count: int
    examples: tuple[int, ...]


class ErrorSummary(msgspec.Struct, frozen=True):
    """Error groups, largest first; `complete` is False when only the newest `GROUP_SCAN` failures were looked at."""

    groups: Sequence[ErrorGroup]
    complete: bool


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

    def run(self, run: int) -> Run:
        """One run (exact); UnknownRun when there is none."""

    def find_run(self, name: str) -> Run | None:
        """The newest generation under a name (exact)."""

    def runs(
        self, *, state: RunState | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
    ) -> Page[Run]:
        """Runs by id (page), from the first on, or from the newest back; `after=0` begins at either end."""

    def counts(self, run: int) -> Mapping[str, Mapping[int, int]]:
        """Counters by kind: `Status` and `Tally` to number (page; exact once the run ended). O(kinds), not O(tasks)."""

    def task(self, task: int) -> Row | None:
        """One task of the log (exact)."""

    def tasks(self, run: int, *, kind: str | None = None, after: int = 0, limit: int = 100) -> Page[Row]:
        """Published tasks of a run by id (page)."""

    def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
        """Published tasks whose parent is `task`, by id (page; exact once it has ended)."""

    def segment(self, task: int) -> Segment | None:
        """The live row in which a task is set; None when it has ended, or was never published (page)."""

    def find_tasks(self, run: int, kind: str, key: bytes, *, limit: int = 100) -> Sequence[int]:
        """Published tasks of that run and kind with that key, oldest first (page)."""

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

    def segments(self, *, run: int | None = None, after: int = 0, limit: int = 1000) -> Page[Segment]:
        """Rows of the segment table, staged and garbage ones included, by their id (page)."""

    def sweeps(self, run: int) -> Sequence[Sweep]:
        """What the cancel of a run ended (exact once the run has ended)."""

    def marks(self, run: int) -> Sequence[Mark]:
        """Marks of a run (page)."""

    def joins(self, run: int, *, fired: bool | None = None, after: int = 0, limit: int = 100) -> Page[Join]:
        """Joins of a run by id (page)."""

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


def group_errors(failures: Iterable[tuple[int, str, bytes | None]]) -> Sequence[ErrorGroup]:
    """Group `(task, kind, value)` of failed tasks by kind, error type and text; largest first."""
    found: dict[tuple[str, str, str], list[int]] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for task, kind, value in failures:
        failure = Failure.decode(value)
        name = (kind, failure.type, failure.text)
        counts[name] = counts.get(name, 0) + 1
        examples = found.setdefault(name, [])
        if len(examples) < EXAMPLES:
            examples.append(task)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return [ErrorGroup(*name, counts[name], tuple(found[name])) for name in order]
