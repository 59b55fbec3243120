"""Reads of the reference store. Simple scans: this store is for tests and as the specification, not for size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from ramify.model.arrivals import Standing
from ramify.model.context import A_NAME, ContextValue
from ramify.model.decision import Decision
from ramify.model.event import Event, History, Status, fold, pending_of
from ramify.model.forgetting import check_remembered
from ramify.model.join import Join
from ramify.model.key import AFTER_ALL, Hold, digest
from ramify.model.log import StoredLine
from ramify.model.policy import SECOND
from ramify.model.process import Process
from ramify.model.run import Owner, RunState, StoredRun
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import Row, check_name
from ramify.model.topic import StoredPublication, TopicNumbers, check_number, check_topic
from ramify.model.value import A_SPACE, A_VALUE, Key, StoredValue
from ramify.store.clock import Clock
from ramify.store.error_groups import ErrorSummary, group_errors
from ramify.store.memory import joins, keys, live, topics
from ramify.store.memory.editions import is_replaced
from ramify.store.memory.runs import as_run
from ramify.store.memory.tables import MemorySegment, MemorySpan, MemoryTables, RunRow, SessionRow
from ramify.store.reads import (
    LIVE_SCAN,
    KindTotals,
    LiveCounts,
    Page,
    Refusal,
    Result,
    RunStart,
    Span,
    Sweep,
    Tail,
    TaskStanding,
    Totals,
    page_size,
)

T = TypeVar("T")


class MemoryReads:
    """Reads over a `Tables`, each under its lock."""

    def __init__(self, tables: MemoryTables, clock: Clock) -> None:
        self._tables, self._clock = tables, clock

    def run(self, run: int) -> StoredRun:
        """One run."""
        with self._tables.lock:
            return as_run(self._tables.run(run))

    def find_run(self, name: str) -> StoredRun | None:
        """The newest generation under a name."""
        with self._tables.lock:
            found = [number for (known, _), number in sorted(self._tables.names.items()) if known == name]
            return as_run(self._tables.runs[found[-1]]) if found else None

    def runs(
        self,
        *,
        state: RunState | None = None,
        prefix: str = "",
        newest_first: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> Page[StoredRun]:
        """Runs by id."""
        with self._tables.lock:
            ids = sorted(self._tables.runs, reverse=newest_first)
            beyond = (n for n in ids if (n < after or not after if newest_first else n > after))
            rows = map(as_run, map(self._tables.runs.__getitem__, beyond))
            named = (r for r in rows if not prefix or (r.name or "").startswith(prefix))
            return _page((r for r in named if state is None or r.state is state), lambda r: r.id, after, limit)

    def runs_at(self, runs: Sequence[int]) -> Mapping[int, StoredRun]:
        """Return those of these runs that exist."""
        with self._tables.lock:
            return {run: as_run(self._tables.runs[run]) for run in runs if run in self._tables.runs}

    def owners(self, digest: bytes) -> Sequence[Owner]:
        """Return who began unfinished runs without a name."""
        with self._tables.lock:
            found = (row.new.owner for row in self._unnamed(digest))
            return list(dict.fromkeys(owner for owner in found if owner is not None))

    def unnamed(self, digest: bytes, owner: Owner, *, after: int = 0, limit: int = 100) -> Page[StoredRun]:
        """Unfinished runs of one owner without a name, by id."""
        with self._tables.lock:
            rows = (row for row in self._unnamed(digest) if row.new.owner == owner and row.new.id > after)
            return _page(map(as_run, rows), lambda r: r.id, after, limit)

    def _unnamed(self, digest: bytes) -> list[RunRow]:
        found = (row for _, row in sorted(self._tables.runs.items()) if row.new.digest == digest)
        return [row for row in found if row.new.name is None and row.ended is None]

    def decisions(self, run: int, *, after: int = 0, limit: int = 100) -> Page[Decision]:
        """Return the decisions about a run by number."""
        with self._tables.lock:
            found = (each.decision for each in self._tables.run(run).decisions)
            return _page((d for d in found if d.n > after), lambda d: d.n, after, limit)

    def counts(self, run: int | None) -> Mapping[str, Mapping[int, int]]:
        """Counters by kind."""
        with self._tables.lock:
            runs = self._tables.runs
            chosen = {n for n in runs if runs[n].ended is None} if run is None else {self._tables.run(run).new.id}
            found: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
            for (owner, kind, _, what, _), count in self._tables.counters.items():
                if owner in chosen:
                    found[kind][what] += count
            return {kind: {what: n for what, n in sorted(c.items()) if n} for kind, c in sorted(found.items())}

    def totals(self) -> Totals:
        """All that ever happened."""
        with self._tables.lock:
            tables = self._tables
            ever: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
            now: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
            for (run, kind, queue, what, _), count in tables.counters.items():
                ever[kind, queue][what] += count
                if tables.run(run).ended is None:
                    now[kind, queue][what] += count
            for (kind, queue, what), count in tables.lowered.items():
                ever[kind, queue][what] += count
            kinds = [
                KindTotals(*each, {what: n for what, n in sorted(by.items()) if n}, pending_of(now[each]))
                for each, by in sorted(ever.items())
            ]
            return Totals(kinds, tables.starts, tables.deaths, tables.redelivered, len(tables.refusals))

    def task(self, task: int) -> Row | None:
        """One published task."""
        with self._tables.lock:
            span = self._tables.kept(task)
            return None if span is None else span.row(task)

    def tasks(
        self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
    ) -> Page[Row]:
        """Published tasks of a run by id."""
        with self._tables.lock:
            check_remembered(as_run(self._tables.run(run)))
            found = list(self._published(run, kind, 0 if newest_first else after))
            if newest_first:
                found = [(span, task) for span, task in reversed(found) if not after or task < after]
            return _page((span.row(task) for span, task in found), lambda r: r.id, after, limit)

    def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
        """Published children of a task by id."""
        with self._tables.lock:
            spans = (span for span in map(self._tables.spans.__getitem__, self._tables.firsts) if span.published)
            rows = (
                span.row(span.first + i)
                for span in spans
                for i, parent in enumerate(span.parents)
                if parent == task and span.first + i > after
            )
            return _page(rows, lambda r: r.id, after, limit)

    def segment(self, task: int) -> Segment | None:
        """The live row in which a task is set."""
        with self._tables.lock:
            row = self._tables.covering(task)
            return None if row is None else live.segment_of(row)

    def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
        """Where tasks stand."""
        with self._tables.lock:
            spans = ((task, self._tables.kept(task)) for task in tasks)
            return {task: self._standing(span, task) for task, span in spans if span is not None}

    def _standing(self, span: MemorySpan, task: int) -> TaskStanding:
        last = joins.last_event(self._tables, task)
        if last is not None and last.status.is_end:
            return TaskStanding(span.row(task), last.status, last.value, last.seq)
        return TaskStanding(span.row(task), segment=self.segment(task))

    def find_tasks(self, run: int, kind: str, key: bytes, *, limit: int = 100) -> Sequence[int]:
        """Published tasks with that key."""
        with self._tables.lock:
            found = set(self._tables.labels.get(digest(Hold.LABEL, run, kind, key), ()))
            once = self._tables.keys.get(digest(Hold.ONCE, run, kind, key))
            named = found | ({once.task} if once is not None else set())
            return sorted(task for task in named if not is_replaced(self._tables, task))[: page_size(limit)]

    def holder(self, kind: str, key: bytes) -> int | None:
        """The unfinished task that holds a key."""
        with self._tables.lock:
            # Once every time that a key is kept for is over, it is only held by who has not ended.
            return keys.holder(self._tables, Hold.UNIQUE, 0, kind, key, AFTER_ALL)

    def events(self, first: int, last: int) -> Sequence[Event]:
        """Events of a range."""
        with self._tables.lock:
            known = self._tables.events
            tasks = range(first, last + 1) if last - first < len(known) else sorted(known)
            return [event for task in tasks if first <= task <= last for event in known.get(task, ())]

    def history(self, task: int) -> History:
        """Return what the events of a task add up to, sweeps included."""
        with self._tables.lock:
            known = fold(self._tables.events.get(task, ()))
            ended = joins.ending(self._tables, task)
            return replace(known, ended=ended)

    def results(
        self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
    ) -> Page[Result]:
        """Ended tasks of a run by id, those ended by a sweep included."""
        with self._tables.lock:
            check_remembered(as_run(self._tables.run(run)))
            rows = (
                Result(task, status, self._last_value(task, status))
                for _, task in self._published(run, kind, after)
                if joins.ending(self._tables, task) is status
            )
            return _page(rows, lambda r: r.task, after, limit)

    def members(self, join: int, *, after: int = -1, limit: int = 1000) -> Page[tuple[int, int]]:
        """Members of a join by slot."""
        with self._tables.lock:
            slots = joins.members_after(self._tables, join, after, page_size(limit) + 1)
            return _page(slots, lambda pair: pair[0], after, limit)

    def errors(self, run: int | None) -> ErrorSummary:
        """Failed tasks, grouped."""
        with self._tables.lock:
            if run is not None:
                check_remembered(as_run(self._tables.run(run)))
            found = self._published(run, None, 0)
            ended = ((task, span.kind, self._tables.events.get(task)) for span, task in found)
            failed = [
                (task, kind, events[-1].value, self._tables.commits[events[-1].seq - 1][0].at)
                for task, kind, events in ended
                if events and events[-1].status in (Status.FAILED, Status.QUARANTINED)
            ]
            return group_errors(reversed(failed))

    def tail(self, after: int, *, limit: int = 100) -> Tail:
        """The next whole commits."""
        with self._tables.lock:
            later = (row for row in self._tables.commits[after:] if row[0].seq not in self._tables.forgotten_commits)
            chosen = list(islice(later, page_size(limit)))
            commits = [type(row)(row.seq, row.process, row.n, row.at, len(events)) for row, events, _ in chosen]
            last = chosen[-1][0].seq if chosen else after
            starts = (RunStart(run, row.since + 1) for run, row in self._tables.runs.items())
            decided = (each for row in self._tables.runs.values() for each in row.decisions)
            return Tail(
                commits,
                sorted((e for _, events, _ in chosen for e in events), key=lambda e: (e.seq, e.task, e.n)),
                [sweep for _, _, sweeps in chosen for sweep in sweeps],
                sorted((s for s in starts if after < s.seq <= last), key=lambda s: (s.seq, s.run)),
                sorted((d for d in decided if after < d.seq <= last), key=lambda d: (d.seq, d.run, d.decision.n)),
                last,
            )

    def head(self) -> int:
        """Where a tail that has read everything stands."""
        with self._tables.lock:
            return len(self._tables.commits)

    def spans(self, *, run: int | None = None, after: int = 0, limit: int = 1000) -> Page[Span]:
        """Return what was appended, by first id."""
        with self._tables.lock:
            rows = (self._tables.spans[f] for f in self._tables.firsts if f > after)
            shown = (_span(s) for s in rows if s.published and run in (None, s.run))
            return _page(shown, lambda s: s.first, after, limit)

    def segments(
        self, *, run: int | None = None, owner: int | None = None, after: int = 0, limit: int = 1000
    ) -> Page[Segment]:
        """Rows of the segment table by id."""
        with self._tables.lock:
            rows = (
                live.segment_of(r)
                for number, r in sorted(self._tables.segments.items())
                if number > after and run in (None, r.run) and (owner is None or _is_held(r, owner))
            )
            return _page(rows, lambda r: r.id, after, limit)

    def due_tasks(self, kind: str, *, run: int | None = None, after: int = 0, limit: int = 100) -> Page[TaskStanding]:
        """Tasks of a kind with a due time that nobody holds, by id."""
        with self._tables.lock:
            found = (
                (self._tables.kept(task), task, row) for task, row in live.due_tasks(self._tables, kind, run, after)
            )
            tasks = (TaskStanding(span.row(task), segment=row) for span, task, row in found if span is not None)
            return _page(tasks, lambda task: task.row.id, after, limit)

    def fired_at(self, tasks: Sequence[int]) -> Mapping[int, int]:
        """When the joins of tasks fired."""
        with self._tables.lock:
            known = {task: list(joins.firing(self._tables, task)) for task in tasks}
            return {task: self._tables.commits[max(seqs) - 1][0].at for task, seqs in known.items() if seqs}

    def live_counts(self, run: int, now: int) -> LiveCounts:
        """Count the unfinished work of a run."""
        with self._tables.lock:
            return live.counts(self._tables, run, now, LIVE_SCAN)

    def in_line(self, *, limit: int = 100) -> Sequence[Segment]:
        """The ready rows that come first in each kind and queue."""
        with self._tables.lock:
            return live.in_line(self._tables, page_size(limit))

    def sweeps(self, run: int) -> Sequence[Sweep]:
        """Return what the cancel of a run ended."""
        with self._tables.lock:
            return sorted(self._tables.sweeps.get(run, ()), key=lambda s: (s.first, s.left or 0))

    def joins(self, run: int, *, fired: bool | None = None, after: int = 0, limit: int = 100) -> Page[Join]:
        """Joins of a run by id."""
        with self._tables.lock:
            rows = (_join(self._tables.joins[n]) for n in sorted(self._tables.joins) if n > after)
            return _page((j for j in rows if j.run == run and fired in (None, j.fired)), lambda j: j.id, after, limit)

    def context(self, run: int, *, after: str = "", limit: int = 100) -> Sequence[ContextValue]:
        """Return what the tasks of a run have set, by name."""
        with self._tables.lock:
            check_remembered(as_run(self._tables.run(run)))
            values = self._tables.context.get(run, {})
            return [values[name] for name in sorted(values) if name > after][: page_size(limit)]

    def context_value(self, run: int, name: str) -> ContextValue | None:
        """Return what stands under one name."""
        with self._tables.lock:
            check_remembered(as_run(self._tables.run(run)))
            return self._tables.context.get(run, {}).get(check_name(A_NAME, name))

    def value(self, space: str, name: str) -> StoredValue | None:
        """Return one value as it is stored."""
        with self._tables.lock:
            return self._tables.values.get((check_name(A_SPACE, space), check_name(A_VALUE, name)))

    def values(self, *, space: str | None = None, after: Key = ("", ""), limit: int = 100) -> Sequence[StoredValue]:
        """Return values by space and name."""
        with self._tables.lock:
            keys = sorted(key for key in self._tables.values if key > after and space in (None, key[0]))
            return [self._tables.values[key] for key in keys[: page_size(limit)]]

    def publications(self, topic: str, *, after: int = 0, limit: int = 100) -> Sequence[StoredPublication]:
        """Return the next publications of a topic."""
        with self._tables.lock:
            return topics.publications(self._tables, check_topic(topic), check_number(after), page_size(limit))

    def topics(self, *, prefix: str = "", after: str = "", limit: int = 100) -> Sequence[TopicNumbers]:
        """Return topics by name."""
        with self._tables.lock:
            return topics.page(self._tables, prefix, after, page_size(limit))

    def logs(
        self, run: int, *, task: int | None = None, level: int = 0, after: int = 0, limit: int = 1000
    ) -> Page[StoredLine]:
        """Return what a run logged, in order of arrival."""
        with self._tables.lock:
            check_remembered(as_run(self._tables.run(run)))
            found = (
                stored
                for stored in self._tables.lines
                if stored.seq > after
                and stored.line.run == run
                and stored.line.level >= level
                and task in (None, stored.line.task)
            )
            return _page(found, lambda stored: stored.seq, after, limit)

    def processes(self) -> Sequence[Process]:
        """Sessions."""
        with self._tables.lock:
            tick, sessions = self._clock.monotonic(), sorted(self._tables.sessions.items())
            return [_process(number, row, tick) for number, row in sessions]

    def refusals(self, *, limit: int = 100) -> Sequence[Refusal]:
        """The newest refused parts."""
        with self._tables.lock:
            return self._tables.refusals[::-1][: page_size(limit)]

    def damage(self) -> Sequence[str]:
        """Nothing: there are no bytes but the program's own."""
        return ()

    def _last_value(self, task: int, status: Status) -> bytes | None:
        log = self._tables.events.get(task)
        return log[-1].value if log and log[-1].status is status else None

    def _published(self, run: int | None, kind: str | None, after: int) -> Iterable[tuple[MemorySpan, int]]:
        """The tasks of a run, or with None of all that were not forgotten."""
        for first in self._tables.firsts:
            span = self._tables.spans[first]
            is_meant = span.run == run if run is not None else not self._tables.is_forgotten(first)
            if span.published and is_meant and kind in (None, span.kind) and span.last > after:
                yield from ((span, task) for task in range(max(first, after + 1), span.last + 1))


def _page(rows: Iterable[T], key: Callable[[T], int], after: int, limit: int) -> Page[T]:
    size = page_size(limit)
    found = list(islice(rows, size + 1))
    shown = found[:size]
    return Page(shown, key(shown[-1]) if shown else after, len(found) > size)


def _is_held(r: MemorySegment, owner: int) -> bool:
    return r.state is SegmentState.CLAIMED and r.owner == owner


def _span(s: MemorySpan) -> Span:
    slot = s.first + s.shift if s.join is not None else 0
    return Span(s.first, s.last, s.run, s.round, s.kind, s.queue, s.lane, s.priority, s.due, s.join, slot)


def _join(j: Standing) -> Join:
    return Join(j.id, j.run, j.needs, j.ends.all, j.ends, j.instance, j.fired, j.rule)


def _process(number: int, row: SessionRow, tick: int) -> Process:
    age = max(0, tick - row.beats[-1]) / SECOND
    return Process(
        number, row.new.pid, row.new.host, row.entered, age, row.gone_at is not None, row.last,
        row.new.kinds, row.new.queues, row.new.version, None, None, row.new.boot, row.new.pids, row.draining,
        row.new.parent,
    )  # fmt: skip
