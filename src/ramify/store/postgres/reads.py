"""Reads of the PostgreSQL store: each one a snapshot on the reader's own connection, bounded, by key order.

A tail sees the commits of transactions that are older than any in flight, so that none is missed whose place in the log
comes before one that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from msgspec.structs import replace

from ramify.model.context import A_NAME, ContextValue
from ramify.model.decision import Decision
from ramify.model.event import Event, History, Status, fold
from ramify.model.forgetting import check_remembered
from ramify.model.join import Join, Rule, nearest
from ramify.model.log import LogLine, StoredLine
from ramify.model.process import Process
from ramify.model.run import Owner, RunState, StoredRun
from ramify.model.segment import Segment
from ramify.model.task import MAX_ID, Row, check_name
from ramify.model.topic import StoredPublication, TopicNumbers, check_number, check_topic
from ramify.model.value import A_SPACE, A_VALUE, Key, StoredValue
from ramify.store.error_groups import ErrorSummary, group_errors
from ramify.store.postgres import context, counters, joins, keys, live, log, processes, rows, topics, values
from ramify.store.postgres.link import ServerLink
from ramify.store.postgres.query import ask
from ramify.store.postgres.schema import HORIZON
from ramify.store.presence.liveness import Liveness
from ramify.store.reads import (
    LIVE_SCAN,
    CommitRow,
    LiveCounts,
    Page,
    Refusal,
    Result,
    RunDecision,
    RunStart,
    Span,
    Sweep,
    Table,
    Tail,
    TaskStanding,
    Totals,
    page_size,
)
from ramify.store.tuples import read_decision, read_owner, write_owner

#: How many tasks are compared with the sweeps of their run at a time.
SWEPT_TOGETHER = 1_000

T = TypeVar("T")

_BY_NAME = f"{rows.RUN} WHERE name = $1::text ORDER BY generation DESC LIMIT 1"
_TASKS = f"{log.TASK} FROM @span s JOIN @task t ON t.id BETWEEN s.first AND s.last"
_OF_RUN = "WHERE s.run = $1::bigint AND s.published AND ($3::text IS NULL OR s.kind = $3::text)"
TASKS = f"{_TASKS} AND t.id > $2::bigint {_OF_RUN} AND s.last > $2::bigint ORDER BY t.id LIMIT $4::bigint"
TASKS_BACK = f"{_TASKS} AND t.id < $2::bigint {_OF_RUN} AND s.first < $2::bigint ORDER BY t.id DESC LIMIT $4::bigint"
#: Those spans that have parents on both sides of a task. Most have theirs within the width of one claim.
CHILDREN = (
    f"{_TASKS} AND t.id > $2::bigint WHERE s.first = ANY(ARRAY("
    "SELECT first FROM @span WHERE low_parent BETWEEN $1::bigint - 8191 AND $1::bigint AND high_parent >= $1::bigint"
    " UNION SELECT first FROM @span"
    " WHERE high_parent - low_parent >= 8192 AND low_parent <= $1::bigint AND high_parent >= $1::bigint"
    ")) AND s.published AND t.parent = $1::bigint ORDER BY t.id LIMIT $3::bigint"
)
RESULTS = (
    f"SELECT t.id, e.value, e.status, e.seq FROM @span s JOIN @task t ON t.id BETWEEN s.first AND s.last"
    f" AND t.id > $2::bigint{log.LAST_EVENT} {_OF_RUN} AND s.last > $2::bigint"
    f" AND (e.status = $4::smallint OR $5::bool AND coalesce(e.status NOT IN ({log.ENDS}), true)) ORDER BY t.id"
    " LIMIT $6::bigint"
)
#: From one owner to the next.
OWNERS = (
    "WITH RECURSIVE o(owner) AS (SELECT min(owner) FROM @run WHERE {of} UNION ALL SELECT (SELECT min(r.owner)"
    " FROM @run r WHERE {of} AND r.owner > o.owner) FROM o WHERE owner IS NOT NULL)"
    " SELECT owner FROM o WHERE owner IS NOT NULL"
).format(of="name IS NULL AND ended IS NULL AND digest = $1::bytea")
UNNAMED = (
    f"{rows.RUN} WHERE name IS NULL AND ended IS NULL AND digest = $1::bytea AND owner = $2::text AND id > $3::bigint"
    " ORDER BY id LIMIT $4::bigint"
)
LINKED_AFTER = (
    "SELECT slot, max(task) FROM @waiter WHERE id = $1::bigint AND slot > $2::bigint GROUP BY slot ORDER BY slot"
    " LIMIT $3::bigint"
)
GROUPED_AFTER = (
    "SELECT greatest(first, $2::bigint + 1 - shift), last, shift FROM @span"
    " WHERE joined = $1::bigint AND last + shift > $2::bigint AND published ORDER BY first + shift LIMIT $3::bigint"
)
SPANS = (
    "SELECT first, last, run, round, kind, queue, lane, priority, due, joined,"
    " CASE WHEN joined IS NULL THEN 0 ELSE first + shift END FROM @span"
    " WHERE first > $1::bigint AND published AND ($2::bigint IS NULL OR run = $2::bigint)"
    " ORDER BY first LIMIT $3::bigint"
)
JOINS = (
    "SELECT id, run, needs, instance, fired, rule, size, arrived, failed, skipped, cancelled FROM @joins"
    " WHERE run = $1::bigint AND id > $2::bigint AND ($3::bool IS NULL OR fired = $3::bool)"
    " ORDER BY id LIMIT $4::bigint"
)
LINES = (
    "SELECT seq, process, n, at, run, task, attempt, level, logger, text FROM @note WHERE run = $1::bigint"
    " AND ($2::bigint IS NULL OR task = $2::bigint) AND level >= $3::int AND seq > $4::bigint"
    " AND seq < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint) << 20 ORDER BY seq LIMIT $5::bigint"
)


class PgReads:
    """Reads over one link."""

    def __init__(self, link: ServerLink, liveness: Liveness, folder: str, now: Callable[[], int]) -> None:
        self._link, self._liveness, self._folder, self._now = link, liveness, folder, now

    def run(self, run: int) -> StoredRun:
        """One run."""
        with self._link.read() as db:
            return rows.run_row(db, run)

    def find_run(self, name: str) -> StoredRun | None:
        """The newest generation under a name."""
        with self._link.read() as db:
            found = db.ask(_BY_NAME, name)
            return rows.run_of(found[0]) if found else None

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
        start, beyond, order = (after or MAX_ID, "<", "DESC") if newest_first else (after, ">", "ASC")
        # Those that have not ended are few, and have an index of their own.
        chosen = "" if state is None else " AND state = $3::text" + ("" if state.is_end else " AND ended IS NULL")
        values: list[Any] = [start, page_size(limit) + 1, *([] if state is None else [state.value])]
        if prefix:
            at = len(values)
            # The last character there is comes after whatever follows a prefix.
            chosen += f" AND name >= ${at + 1}::text AND name < ${at + 2}::text"
            values += [prefix, f"{prefix}\U0010ffff"]
        page = f"{rows.RUN} WHERE id {beyond} $1::bigint{chosen} ORDER BY id {order} LIMIT $2::bigint"
        with self._link.read() as db:
            return _page(map(rows.run_of, db.ask(page, *values)), lambda r: r.id, after, limit)

    def runs_at(self, runs: Sequence[int]) -> Mapping[int, StoredRun]:
        """Return those of these runs that exist."""
        with self._link.read() as db:
            return rows.runs_at(db, live.possible(runs))

    def owners(self, digest: bytes) -> Sequence[Owner]:
        """Return who began unfinished runs without a name."""
        with self._link.read() as db:
            return [read_owner(owner) for (owner,) in db.ask(OWNERS, digest)]

    def unnamed(self, digest: bytes, owner: Owner, *, after: int = 0, limit: int = 100) -> Page[StoredRun]:
        """Unfinished runs of one owner without a name, by id."""
        with self._link.read() as db:
            found = db.ask(UNNAMED, digest, write_owner(owner), after, page_size(limit) + 1)
            return _page(map(rows.run_of, found), lambda r: r.id, after, limit)

    def decisions(self, run: int, *, after: int = 0, limit: int = 100) -> Page[Decision]:
        """Return the decisions about a run by number."""
        decided = "SELECT told FROM @decision WHERE run = $1::bigint AND n > $2::bigint ORDER BY n LIMIT $3::bigint"
        with self._link.read() as db:
            rows.run_row(db, run)
            found = db.ask(decided, run, after, page_size(limit) + 1)
            return _page((read_decision(told) for (told,) in found), lambda decision: decision.n, after, limit)

    def counts(self, run: int | None) -> Mapping[str, Mapping[int, int]]:
        """Counters by kind."""
        with self._link.read() as db:
            if run is not None:
                rows.run_row(db, run)
            return counters.read(db, run)

    def totals(self) -> Totals:
        """All that ever happened."""
        with self._link.read() as db:
            return counters.totals(*db.trip([(counters.TOTALS, ()), (counters.STORE_TOTALS, ())]))

    def task(self, task: int) -> Row | None:
        """One published task."""
        with self._link.read() as db:
            found = db.ask(live.LOGGED, live.possible([task]))
            return Row(*found[0][:-3]) if found else None

    def tasks(
        self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
    ) -> Page[Row]:
        """Published tasks of a run by id."""
        start = (after or MAX_ID) if newest_first else after
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            found = db.ask(TASKS_BACK if newest_first else TASKS, run, start, kind, page_size(limit) + 1)
            return _page((Row(*row) for row in found), lambda r: r.id, after, limit)

    def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
        """Published children of a task by id: of the spans whose parents lie around it, the rows that name it."""
        with self._link.read() as db:
            found = db.ask(CHILDREN, task, after, page_size(limit) + 1)
            return _page((Row(*row) for row in found), lambda r: r.id, after, limit)

    def segment(self, task: int) -> Segment | None:
        """The live row in which a task is set."""
        with self._link.read() as db:
            return dict(live.covering(db, live.possible([task]))).get(task)

    def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
        """Where tasks stand."""
        with self._link.read() as db:
            return dict(live.standings(db, tasks))

    def find_tasks(self, run: int, kind: str, key: bytes, *, limit: int = 100) -> Sequence[int]:
        """Published tasks with that key."""
        with self._link.read() as db:
            return keys.named(db, run, kind, key, page_size(limit))

    def holder(self, kind: str, key: bytes) -> int | None:
        """The unfinished task that holds a key."""
        with self._link.read() as db:
            return keys.holder(db, kind, key)

    def events(self, first: int, last: int) -> Sequence[Event]:
        """Events of a range."""
        with self._link.read() as db:
            where = "WHERE task BETWEEN $1::bigint AND $2::bigint ORDER BY task, n"
            return list(log.events(db.ask(f"{log.EVENT} {where}", first, last)))

    def history(self, task: int) -> History:
        """Return what the events of a task add up to, sweeps included."""
        with self._link.read() as db:
            known = fold(log.events(db.ask(f"{log.EVENT} WHERE task = $1::bigint ORDER BY n", task)))
            return replace(known, ended=log.endings(db, [task]).get(task))

    def results(
        self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
    ) -> Page[Result]:
        """Ended tasks of a run by id, those ended by a sweep included."""
        size = page_size(limit)
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            is_swept = bool(db.ask("SELECT 1 FROM @sweep WHERE run = $1::bigint LIMIT 1", run))
            swept = status is Status.CANCELLED and is_swept

            def found() -> Iterator[Result]:
                begin = after
                while some := db.ask(RESULTS, run, begin, kind, status, swept, min(size + 1, SWEPT_TOGETHER)):
                    yield from log.ended(db, run, some, status)
                    begin = some[-1][0]

            return _page(found(), lambda r: r.task, after, limit)

    def members(self, join: int, *, after: int = -1, limit: int = 1000) -> Page[tuple[int, int]]:
        """Members of a join by slot: of groups, and of waiters, which win where a group's task lost its key."""
        # A page and one more of each: however many there are, what lies behind is not looked at.
        size = page_size(limit) + 1
        with self._link.read() as db:
            grouped, linked = db.trip([(GROUPED_AFTER, (join, after, size)), (LINKED_AFTER, (join, after, size))])
            slots = nearest(grouped, size)
            slots.update(linked)
            return _page(sorted(slots.items()), lambda pair: pair[0], after, limit)

    def errors(self, run: int | None) -> ErrorSummary:
        """Failed tasks, grouped."""
        with self._link.read() as db:
            if run is not None:
                check_remembered(rows.run_row(db, run))
            return group_errors(log.failures(db, run))

    def tail(self, after: int, *, limit: int = 100) -> Tail:
        """The next whole commits."""
        with self._link.read() as db:
            chosen = db.ask(log.COMMITS, after, page_size(limit))
            if not chosen:
                return Tail([], [], [], [], [], after)
            ranges = [(first, last, row[0]) for row in chosen for first, last in log.ranges(row[5])]
            columns = tuple(map(list, zip(*ranges, strict=True))) or ([], [], [])
            bounds = (chosen[0][0], chosen[-1][0])
            swept = f"{log.SWEEP} WHERE seq BETWEEN $1::bigint AND $2::bigint AND seq < {HORIZON} ORDER BY id"
            told, sweeps, starts, decided = db.trip(
                [(log.EVENTS_OF, columns), (swept, bounds), (log.STARTS, bounds), (log.DECIDED, bounds)]
            )
            events = sorted(log.events(told), key=lambda event: (event.seq, event.task, event.n))
            return Tail(
                [CommitRow(*row[:5]) for row in chosen],
                events,
                list(map(log.sweep_of, sweeps)),
                [RunStart(*row) for row in starts],
                [RunDecision(run, seq, read_decision(text)) for run, seq, text in decided],
                chosen[-1][0],
            )

    def head(self) -> int:
        """Where a tail that has read everything stands."""
        with self._link.read() as db:
            return int(db.ask(log.HEAD)[0][0])

    def spans(self, *, run: int | None = None, after: int = 0, limit: int = 1000) -> Page[Span]:
        """Return what was appended, by first id."""
        with self._link.read() as db:
            found = db.ask(SPANS, after, run, page_size(limit) + 1)
            return _page((Span(*row) for row in found), lambda s: s.first, after, limit)

    def segments(
        self, *, run: int | None = None, owner: int | None = None, after: int = 0, limit: int = 1000
    ) -> Page[Segment]:
        """Rows of the segment table by id."""
        with self._link.read() as db:
            found = live.rows_after(db, run, owner, after, page_size(limit) + 1)
            return _page(found, lambda r: r.id, after, limit)

    def due_tasks(self, kind: str, *, run: int | None = None, after: int = 0, limit: int = 100) -> Page[TaskStanding]:
        """Tasks of a kind with a due time that nobody holds, by id."""
        with self._link.read() as db:
            found = live.due_tasks(db, kind, run, after, page_size(limit) + 1)
            return _page(found, lambda task: task.row.id, after, limit)

    def fired_at(self, tasks: Sequence[int]) -> Mapping[int, int]:
        """When the joins of tasks fired."""
        with self._link.read() as db:
            return live.fired_at(db, tasks)

    def live_counts(self, run: int, now: int) -> LiveCounts:
        """Count the unfinished work of a run."""
        with self._link.read() as db:
            return live.counts(db, run, now, LIVE_SCAN)

    def in_line(self, *, limit: int = 100) -> Sequence[Segment]:
        """The ready rows that come first in each kind and queue."""
        with self._link.read() as db:
            return live.in_line(db, page_size(limit))

    def sweeps(self, run: int) -> Sequence[Sweep]:
        """Return what the cancel of a run ended."""
        with self._link.read() as db:
            found = map(log.sweep_of, db.ask(f"{log.SWEEP} WHERE run = $1::bigint", run))
            return sorted(found, key=lambda s: (s.first, s.left or 0))

    def joins(self, run: int, *, fired: bool | None = None, after: int = 0, limit: int = 100) -> Page[Join]:
        """Joins of a run by id."""
        with self._link.read() as db:
            found = db.ask(JOINS, run, after, fired, page_size(limit) + 1)
            return _page(map(_join, found), lambda j: j.id, after, limit)

    def context(self, run: int, *, after: str = "", limit: int = 100) -> Sequence[ContextValue]:
        """Return what the tasks of a run have set, by name."""
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            return context.page(db, run, after, page_size(limit))

    def context_value(self, run: int, name: str) -> ContextValue | None:
        """Return what stands under one name."""
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            return context.value(db, run, check_name(A_NAME, name))

    def value(self, space: str, name: str) -> StoredValue | None:
        """Return one value as it is stored."""
        with self._link.read() as db:
            return values.one(db, (check_name(A_SPACE, space), check_name(A_VALUE, name)))

    def values(self, *, space: str | None = None, after: Key = ("", ""), limit: int = 100) -> Sequence[StoredValue]:
        """Return values by space and name."""
        with self._link.read() as db:
            return values.page(db, space, after, page_size(limit))

    def publications(self, topic: str, *, after: int = 0, limit: int = 100) -> Sequence[StoredPublication]:
        """Return the next publications of a topic."""
        with self._link.read() as db:
            return topics.publications(db, check_topic(topic), check_number(after), page_size(limit))

    def topics(self, *, prefix: str = "", after: str = "", limit: int = 100) -> Sequence[TopicNumbers]:
        """Return topics by name."""
        with self._link.read() as db:
            return topics.page(db, prefix, after, page_size(limit))

    def logs(
        self, run: int, *, task: int | None = None, level: int = 0, after: int = 0, limit: int = 1000
    ) -> Page[StoredLine]:
        """Return what a run logged, in order of arrival."""
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            found = db.ask(LINES, run, task, level, after, page_size(limit) + 1)
            return _page(map(_line, found), lambda stored: stored.seq, after, limit)

    def processes(self) -> Sequence[Process]:
        """Sessions."""
        with self._link.read() as db:
            found = db.ask(f"{processes.SESSION} ORDER BY process")
        now = self._now()
        return [processes.read_process(row, self._liveness, self._folder, now) for row in found]

    def sql(self, query: str, values: dict[str, Any]) -> Table:
        """The answer to one SELECT of a person's own, in which `:name` stands for a value."""
        return ask(self._link, query, values)

    def refusals(self, *, limit: int = 100) -> Sequence[Refusal]:
        """The newest refused parts."""
        newest = "SELECT process, n, token, tasks, at FROM @refusal ORDER BY at DESC, n DESC LIMIT $1::bigint"
        with self._link.read() as db:
            return [Refusal(*row) for row in db.ask(newest, page_size(limit))]

    def damage(self) -> Sequence[str]:
        """Nothing: a server checks its own pages, and says so in its log."""
        with self._link.read() as db:
            db.ask("SELECT 1 FROM @store")
        return []


def _page(found: Iterable[T], key: Callable[[T], int], after: int, limit: int) -> Page[T]:
    size = page_size(limit)
    some = list(islice(found, size + 1))
    shown = some[:size]
    return Page(shown, key(shown[-1]) if shown else after, len(some) > size)


def _join(row: tuple[Any, ...]) -> Join:
    number, run, needs, instance, fired, rule, *bits = row
    ends = joins.ends_of(bits)
    return Join(number, run, needs, ends.all, ends, instance, fired, Rule(rule))


def _line(row: tuple[Any, ...]) -> StoredLine:
    seq, process, n, at, run, task, attempt, level, logger, text = row
    return StoredLine(seq, process, LogLine(n, at, run, task, attempt, level, logger.decode(), text.decode()))
