"""Reading what tasks left behind, decoded and page by page: results, failures, the members of a
join, and the context of a run.

Promises: one page is held at a time, whatever the size of the run. Of a run that has ended every result comes once; of
an open one they are followed as commits come in, by the commits' own order, so that none is missed.

Does not wait and does not judge: whoever asks decides when it is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ramify.inspect.show import tree_of
from ramify.kernel.core.handler import Handler
from ramify.model.codec.wire import Wire
from ramify.model.event import Event, Status
from ramify.model.key import key_text
from ramify.model.mark import reason_text
from ramify.model.outcome import Failure, TaskError
from ramify.model.segment import stretches
from ramify.model.task import Row, is_own
from ramify.shapes.dag.own import CLOSE
from ramify.shapes.dag.start import CLOSING
from ramify.store.reads import Reads

PAGE = 1_000
#: Whole commits read at a time; each may hold thousands of outcomes.
COMMITS = 8
SPANS = 100

_anything = Wire(Any)


class Reading:
    """The reads of a store with the codecs of the handlers. A kind that nobody knows is read as plain JSON."""

    def __init__(self, reads: Reads, handlers: Mapping[str, Handler]) -> None:
        self.reads = reads
        self._handlers = handlers

    def result(self, kind: str, raw: bytes | None) -> Any:
        """Return what a handler of that kind returned."""
        if raw is None:
            return None
        handler = self._handlers.get(kind)
        return _anything.read(raw) if handler is None else handler.signature.decode_result(raw)

    def arguments(self, kind: str, body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what a task of that kind was called with."""
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler.signature.decode(body)
        plain = _anything.read(body)
        return ((), plain) if isinstance(plain, dict) else (tuple(plain), {})

    def kinds(self, run: int, kind: str | None) -> list[str]:
        """The kinds a run has; with `kind`, only that one, under all names it has had."""
        found = list(self.reads.counts(run))
        if kind is None:
            return [name for name in found if not is_own(name)]
        handler = self._handlers.get(kind)
        names = {kind} if handler is None else {name for name, each in self._handlers.items() if each is handler}
        return [name for name in found if name in names]

    def results(self, run: int, kind: str | None) -> Iterator[list[Any]]:
        """Pages of results of an ended run, kind by kind, by id."""
        for name in self.kinds(run, kind):
            after, more = 0, True
            while more:
                page = self.reads.results(run, kind=name, after=after, limit=PAGE)
                yield [self.result(name, row.value) for row in page.rows]
                after, more = page.after, page.more

    def errors(self, run: int, statuses: Sequence[Status] = (Status.FAILED, Status.QUARANTINED)) -> Iterator[TaskError]:
        """Tasks that ended badly, by id within each status."""
        for status in statuses:
            for task, value in self.ended(run, status):
                row = self.reads.task(task)
                if row is not None:
                    yield self.error(row, status, value)

    def ended(self, run: int, status: Status, kind: str | None = None) -> Iterator[tuple[int, bytes | None]]:
        """Tasks of a run that ended this way, with the value of their last event."""
        after, more = 0, True
        while more:
            page = self.reads.results(run, kind=kind, status=status, after=after, limit=PAGE)
            yield from ((row.task, row.value) for row in page.rows)
            after, more = page.after, page.more

    def error(self, row: Row, status: Status, value: bytes | None) -> TaskError:
        """A task that ended badly, and why."""
        if status is Status.CANCELLED and value is None:
            # It went with its run, and has no event of its own.
            failure = Failure(status.name.title(), self.reads.run(row.run).reason or "")
        elif status is Status.REPLACED:
            failure = Failure("Replaced", "what made it makes others in its stead")
        elif status in (Status.CANCELLED, Status.SKIPPED):
            failure = Failure(status.name.title(), reason_text(value))
        else:
            failure = Failure.decode(value)
        return TaskError(row.id, row.kind, key_text(row.key), status, self.values(row), failure)

    def values(self, row: Row) -> tuple[Any, ...]:
        """Return what a task was called with, in order; as it is stored, when it no longer fits the function."""
        try:
            args, kwargs = self.arguments(row.kind, row.body)
        except Exception:  # noqa: BLE001  whatever decoding runs into, and types of users run too, the rest must be told
            tree = tree_of(row.body)
            return (
                tuple(tree) if isinstance(tree, list) else tuple(tree.values()) if isinstance(tree, dict) else (tree,)
            )
        return (*args, *kwargs.values())

    def encoded(self, kind: str, result: Any) -> bytes | None:
        """A result of that kind as it is stored; as plain JSON when nobody here knows the kind."""
        if result is None:
            return None
        handler = self._handlers.get(kind)
        return msgspec.json.encode(result) if handler is None else handler.signature.encode_result(result)

    # of an open run

    def tail(self, run: int, kind: str | None, after: int) -> tuple[list[Any], int]:
        """The results in the next commits after a cursor, and the cursor that goes on: the same one when none came."""
        found, came = self.tail_events(run, kind, after)
        return [self.result(name, event.value) for event, name in found], came

    def tail_events(self, run: int, kind: str | None, after: int) -> tuple[list[tuple[Event, str]], int]:
        """The same as stored: what ended well and was not replaced since, each with its kind, by task."""
        tail = self.reads.tail(after, limit=COMMITS)
        names = set(self.kinds(run, kind))
        done = sorted((e for e in tail.events if e.status is Status.DONE), key=lambda e: e.task)
        found = [(event, name) for event, owner, name in self._placed(done) if owner == run and name in names]
        if any(counters.get(Status.REPLACED) for counters in self.reads.counts(run).values()):
            ends = self.reads.standings([event.task for event, _ in found])
            found = [each for each in found if ends[each[0].task].ended is not Status.REPLACED]
        return found, tail.after

    def _placed(self, events: Sequence[Event]) -> Iterator[tuple[Event, int, str]]:
        """Events in order of their tasks, each with its run and kind.

        A commit names tasks, not runs. Spans do not overlap, so from one task whose row is known up to the next span
        everything belongs to the same span; one read of the spans that follow thus places many events.
        """
        position = 0
        while position < len(events):
            first = events[position].task
            row = self.reads.task(first)
            page = self.reads.spans(after=first, limit=SPANS)
            known = [(first, 0, "") if row is None else (first, row.run, row.kind)]
            known += [(span.first, span.run, span.kind) for span in page.rows]
            ends = [start for start, _, _ in known[1:]] + [page.rows[-1].last + 1 if page.more else 2**63]
            at = 0
            while position < len(events) and events[position].task < ends[-1]:
                while events[position].task >= ends[at]:
                    at += 1
                yield events[position], known[at][1], known[at][2]
                position += 1


class Members:
    """The results of a full join's members, in slot order, decoded as `of`: the source of a `Stream`.

    With a `size`, those of so many slots from `first` on.
    """

    def __init__(self, reading: Reading, join: int, of: Any, first: int = 0, size: int | None = None) -> None:
        self._reading = reading
        self._reads = reading.reads
        self._join = join
        self._wire = Wire(of)
        self._first = first
        self._size = size

    def pages(self) -> Iterator[Sequence[Any]]:
        """Results of those that ended well."""
        for ended in self.endings():
            yield [None if raw is None else self._wire.read(raw) for *_, status, raw in ended if status is Status.DONE]

    def failures(self) -> Iterator[TaskError]:
        """Yield those that did not end well, and why."""
        for ended in self.endings():
            for _, task, status, value in ended:
                row = None if status is Status.DONE else self._reads.task(task)
                if row is not None:
                    # What the cancel of its run swept away has no event of its own.
                    yield self._reading.error(row, status or Status.CANCELLED, value)

    def sizes(self) -> tuple[int, int]:
        """How many ended well, and how many did not."""
        row = self._reads.task(self._join)
        found = () if row is None else self._reads.joins(row.run, after=self._join - 1, limit=1).rows
        if not found or found[0].id != self._join:
            return 0, 0
        broken = found[0].broken
        if broken and (self._first or self._size is not None):
            # The join knows how many broke, and not which.
            statuses = [status for ended in self.endings() for *_, status, _ in ended]
            done = statuses.count(Status.DONE)
            return done, len(statuses) - done
        return (found[0].needs - self._first if self._size is None else self._size) - broken, broken

    def endings(self) -> Iterator[list[tuple[int, int, Status | None, bytes | None]]]:
        """Pages of members in slot order: slot, task, last status, value. None for one that was swept or has no event.

        Each page is read by itself, and once.
        """
        after, more, left = self._first - 1, True, self._size
        while more and left != 0:
            page = self._reads.members(self._join, after=after, limit=PAGE if left is None else min(PAGE, left))
            rows = [(slot, task) for slot, task in page.rows if left is None or slot < self._first + (self._size or 0)]
            last = self._last_events(sorted({task for _, task in rows}))
            yield [(slot, task, *last.get(task, (None, None))) for slot, task in rows]
            after, more, left = page.after, page.more, None if left is None else left - len(page.rows)

    def _last_events(self, tasks: Sequence[int]) -> dict[int, tuple[Status | None, bytes | None]]:
        found: dict[int, tuple[Status | None, bytes | None]] = {}
        for stretch in stretches(tasks):
            for event in self._reads.events(stretch[0], stretch[-1]):
                before, _ = found.get(event.task, (None, None))
                # One that was replaced since counts here as it ended.
                if event.status is not Status.REPLACED or before is None or not before.is_end:
                    found[event.task] = (event.status, event.value)
        return found


def closing_tasks(reads: Reads, run: int) -> Sequence[int]:
    """The task that joins all ends of a run, if it has one."""
    return reads.find_tasks(run, CLOSE, CLOSING.encode()) if CLOSE in reads.counts(run) else ()


def below(reads: Reads, tasks: Sequence[int]) -> Iterator[Row]:
    """Yield what these tasks have spawned, and what that has, and so on."""
    ahead = list(tasks)
    while ahead:
        parent, after, more = ahead.pop(), 0, True
        while more:
            page = reads.children(parent, after=after, limit=PAGE)
            yield from page.rows
            ahead += (row.id for row in page.rows)
            after, more = page.after, page.more


def context_of(reads: Reads, run: int) -> dict[str, Any]:
    """Return what the tasks of a run have set, by name, as plain values."""
    found: dict[str, Any] = {}
    after = ""
    while page := reads.context(run, after=after, limit=PAGE):
        found.update((each.name, _anything.read(each.value)) for each in page)
        after = page[-1].name
    return found
