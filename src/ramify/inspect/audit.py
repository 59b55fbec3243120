"""The audit of the log: is any task lost, was any end recorded twice, did any handler run twice?

    tasks           published tasks of the run
    lost            unfinished tasks that no live row covers: nobody will ever run them
    recorded twice  tasks with two ends in one life, or ended ones that a live row still covers
    run twice       starts beyond those the log tells about; the log alone cannot know it, so it is told only when a
                    witness is given: the ids of tasks in the order their handlers were entered

It reads the whole log once, in pieces, so memory does not grow with it. On a run that is being worked on, pages are
read at different moments: what looks wrong is looked at once more before it is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec

from ramify.model.event import Event, Status
from ramify.model.forgetting import check_remembered
from ramify.model.segment import LIVE_STATES, Segment, full, mask_of, tasks_in
from ramify.store.reads import PAGE_LIMIT, Reads, Span, Sweep

#: Tasks looked at together.
PIECE = 4_096
#: How many wrong tasks are named.
NAMED = 5

_ATTEMPTS = (Status.DONE, Status.FAILED, Status.RETRYING, Status.DEFERRED)


class Audit(msgspec.Struct, frozen=True):
    """The findings of an audit. `run_twice` is None without a witness. The tasks named are examples."""

    tasks: int = 0
    ended: int = 0
    left: int = 0
    lost: int = 0
    recorded_twice: int = 0
    run_twice: int | None = None
    lost_tasks: tuple[int, ...] = ()
    twice_tasks: tuple[int, ...] = ()

    @property
    def clean(self) -> bool:
        """True if the promises held: nothing lost, nothing recorded twice."""
        return not self.lost and not self.recorded_twice

    def __add__(self, other: Audit) -> Audit:
        told = [n for n in (self.run_twice, other.run_twice) if n is not None]
        return Audit(
            self.tasks + other.tasks,
            self.ended + other.ended,
            self.left + other.left,
            self.lost + other.lost,
            self.recorded_twice + other.recorded_twice,
            sum(told) if told else None,
            (self.lost_tasks + other.lost_tasks)[:NAMED],
            (self.twice_tasks + other.twice_tasks)[:NAMED],
        )


def in_words(audit: Audit) -> str:
    """The audit as one line."""
    words = [
        f"{audit.tasks:,} tasks",
        f"{audit.lost:,} lost",
        f"{audit.recorded_twice:,} recorded twice",
    ]
    if audit.run_twice is not None:
        words.append(f"{audit.run_twice:,} run twice")
    return ", ".join(words)


class Witness:
    """How often the handler of each task was entered, from a stream of task ids. One byte per id, at most 255 each."""

    def __init__(self, starts: Iterable[int]) -> None:
        self._counts = bytearray()
        for task in starts:
            if task >= len(self._counts):
                self._counts.extend(bytes(max(task + 1 - len(self._counts), PIECE)))
            self._counts[task] = min(255, self._counts[task] + 1)

    @classmethod
    def of_counts(cls, counts: bytes) -> Witness:
        """The same from one byte per id: how often each handler was entered."""
        witness = cls(())
        witness._counts = bytearray(counts)
        return witness

    def beyond(self, first: int, last: int, recorded: dict[int, int]) -> int:
        """How many starts of a range of tasks are more than the log tells of."""
        seen = self._counts[first : last + 1].ljust(last - first + 1, b"\0")
        if seen.count(1) + seen.count(0) == len(seen) and not any(n != 1 for n in recorded.values()):
            # The common case without a Python step per task: each started once at most, each told of once.
            told = sum(seen[task - first] for task in recorded)
            return max(0, seen.count(1) - told)
        return sum(max(0, n - recorded.get(first + i, 0)) for i, n in enumerate(seen) if n)


def audit(reads: Reads, run: int, witness: Witness | None = None) -> Audit:
    """Audit one run; exact when it has ended or nobody works on it. RunForgotten when nothing is left."""
    check_remembered(reads.run(run))
    cover = Cover(_live_rows(reads, run))
    sweeps = reads.sweeps(run)
    total = Audit(run_twice=None if witness is None else 0)
    for span in _spans(reads, run):
        for first in range(span.first, span.last + 1, PIECE):
            last = min(span.last, first + PIECE - 1)
            total += _Piece(reads, first, last, cover, sweeps).audit(witness)
    return total


class Cover:
    """Live rows, found by the tasks they stand for."""

    def __init__(self, rows: Iterable[Segment]) -> None:
        self._rows = sorted(rows, key=lambda row: row.first)
        self._firsts = [row.first for row in self._rows]
        self._reach = list(accumulate((row.last for row in self._rows), max))

    def over(self, first: int, last: int) -> Iterator[Segment]:
        """The rows that reach into a range."""
        place = bisect_right(self._firsts, last) - 1
        while place >= 0 and self._reach[place] >= first:
            if self._rows[place].last >= first:
                yield self._rows[place]
            place -= 1


class _Piece:
    """Some neighbouring tasks: their events against the live rows that cover them, as masks."""

    def __init__(self, reads: Reads, first: int, last: int, cover: Cover, sweeps: Sequence[Sweep]) -> None:
        self._reads, self._first, self._last = reads, first, last
        self._sweeps = [sweep for sweep in sweeps if sweep.first <= last and first <= sweep.last]
        self._covered = 0
        for row in cover.over(first, last):
            self._covered |= self._mask(row.first, row.last, row.left)

    def audit(self, witness: Witness | None) -> Audit:
        ended: set[int] = set()
        twice: set[int] = set()
        recorded: dict[int, int] = {}
        for task, events in self._histories():
            if _ends_twice(events):
                twice.add(task)
            if events[-1].status.is_end:
                ended.add(task)
            recorded[task] = sum(event.status in _ATTEMPTS for event in events)
        over = mask_of(sorted(ended), self._first)
        whole = full(self._last - self._first + 1)
        lost = [task for task in self._tasks(whole & ~over & ~self._covered) if self._is_lost(task)]
        twice.update(task for task in self._tasks(over & self._covered) if self._is_covered_after_its_end(task))
        return Audit(
            self._last - self._first + 1,
            len(ended),
            self._last - self._first + 1 - len(ended) - len(lost),
            len(lost),
            len(twice),
            None if witness is None else witness.beyond(self._first, self._last, recorded),
            tuple(lost[:NAMED]),
            tuple(sorted(twice)[:NAMED]),
        )

    def _histories(self) -> Iterator[tuple[int, list[Event]]]:
        """The events of each task that has any; the end by a sweep in its place, as an event with number 0."""
        events = list(self._reads.events(self._first, self._last))
        for sweep in self._sweeps:
            swept = self._tasks(self._mask(sweep.first, sweep.last, sweep.left))
            events += [Event(task, 0, Status.CANCELLED, None, sweep.seq) for task in swept]
        if self._sweeps:
            events.sort(key=lambda event: (event.task, event.seq, event.n))
        told: list[Event] = []
        for event in events:
            if told and told[-1].task != event.task:
                yield told[-1].task, told
                told = []
            told.append(event)
        if told:
            yield told[-1].task, told

    def _mask(self, first: int, last: int, left: int | None) -> int:
        """The bits of a row that fall into this piece, counted from its first task."""
        low, high = max(first, self._first), min(last, self._last)
        if low > high:
            return 0
        mask = full(high - low + 1)
        if left is not None:
            mask &= left >> (low - first)
        return mask << (low - self._first)

    def _tasks(self, mask: int) -> Sequence[int]:
        return tasks_in(self._first, self._last, mask) if mask else ()

    def _is_lost(self, task: int) -> bool:
        # The end is asked for last: a task that moved between the two looks has ended, or has a row.
        return self._reads.segment(task) is None and self._reads.history(task).ended is None

    def _is_covered_after_its_end(self, task: int) -> bool:
        return self._reads.history(task).ended is not None and self._reads.segment(task) is not None


def _ends_twice(events: Sequence[Event]) -> bool:
    ended: Status | None = None
    for event in events:
        may_follow = ended is not Status.REPLACED and event.status in (Status.REOPENED, Status.REPLACED)
        if ended is not None and not may_follow:
            return True
        ended = event.status if event.status.is_end else None
    return False


def _spans(reads: Reads, run: int) -> Iterator[Span]:
    after, more = 0, True
    while more:
        page = reads.spans(run=run, after=after, limit=PAGE_LIMIT)
        yield from page.rows
        after, more = page.after, page.more


def _live_rows(reads: Reads, run: int) -> list[Segment]:
    rows: list[Segment] = []
    after, more = 0, True
    while more:
        page = reads.segments(run=run, after=after, limit=PAGE_LIMIT)
        rows += [row for row in page.rows if row.state in LIVE_STATES]
        after, more = page.after, page.more
    return rows
