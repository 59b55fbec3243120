"""Reads of the SQLite store: each one a snapshot on the reader's own connection, bounded, by key order."""

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
from ramify.model.key import Hold, digest
from ramify.model.log import StoredLine
from ramify.model.process import Process
from ramify.model.run import Owner, RunState, StoredRun
from ramify.model.segment import Segment
from ramify.model.task import MAX_ID, Row, check_name
from ramify.model.topic import StoredPublication, TopicNumbers, check_number, check_topic
from ramify.model.value import A_SPACE, A_VALUE, Key, StoredValue
from ramify.store import tuples
from ramify.store.error_groups import ErrorSummary, group_errors
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
from ramify.store.sqlite import (
    context,
    counters,
    joins,
    keys,
    live,
    log,
    notes,
    once,
    processes,
    rows,
    standing,
    topics,
    values,
)
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.file.link import Link
from ramify.store.sqlite.query import ask

#: How many tasks are compared with the sweeps of their run at a time.
SWEPT_TOGETHER = 1_000
#: How many damages are told at most.
DAMAGES = 100

T = TypeVar("T")

#: The published spans of a run that reach beyond a cursor, then their tasks: ids come out in order.
TASKS_OF_SPANS = " FROM span s CROSS JOIN task t ON t.id BETWEEN max(s.first, ?2 + 1) AND s.last"
CHOSEN_SPANS = " AND s.published AND s.last > ?2 AND (?3 IS NULL OR s.kind = ?3)"
#: The same from the newest back.
TASKS_BEFORE = " FROM span s CROSS JOIN task t ON t.id BETWEEN s.first AND min(s.last, ?2 - 1)"
SPANS_BEFORE = " AND s.published AND s.first < ?2 AND (?3 IS NULL OR s.kind = ?3)"
#: Those spans that have parents on both sides of a task. Most have theirs within the width of one claim.
CHILDREN = (
    " WHERE s.first IN ("
    "SELECT first FROM span INDEXED BY span_parents WHERE low_parent BETWEEN ?1 - 8191 AND ?1 AND high_parent >= ?1"
    " UNION SELECT first FROM span INDEXED BY span_far_parents"
    " WHERE high_parent - low_parent >= 8192 AND low_parent <= ?1 AND high_parent >= ?1"
    ") AND s.published AND s.last > ?2 AND t.parent = ?1"
)
IS_UNNAMED = "name IS NULL AND ended IS NULL AND digest = ?"
NEXT_OWNER = f"SELECT min(owner) FROM run INDEXED BY run_unnamed WHERE {IS_UNNAMED} AND owner > ?"
UNNAMED = f"{rows.RUN} INDEXED BY run_unnamed WHERE {IS_UNNAMED} AND owner = ? AND id > ? ORDER BY id"
STARTS = "SELECT id, since + 1 FROM run INDEXED BY run_since WHERE since BETWEEN ?1 - 1 AND ?2 - 1 ORDER BY since, id"
DECIDED = "SELECT run, seq, told FROM decision INDEXED BY decision_seq WHERE seq BETWEEN ? AND ? ORDER BY seq, run, n"
LINKED_AFTER = "SELECT slot, max(task) FROM waiter WHERE id = ? AND slot > ? GROUP BY slot LIMIT ?"
GROUPED_AFTER = (
    "SELECT max(first, ?2 + 1 - shift), last, shift FROM span INDEXED BY span_join"
    " WHERE joined = ?1 AND last + shift > ?2 AND published ORDER BY first + shift"
)


class SqliteReads:
    """Reads over one link."""

    def __init__(self, link: Link, liveness: Liveness) -> None:
        self._link, self._liveness = link, liveness

    def run(self, run: int) -> StoredRun:
        """One run."""
        with self._link.read() as db:
            return rows.run_row(db, run)

    def find_run(self, name: str) -> StoredRun | None:
        """The newest generation under a name."""
        with self._link.read() as db:
            row = db.execute(f"{rows.RUN} WHERE name = ? ORDER BY generation DESC LIMIT 1", (name,)).fetchone()
            return None if row is None else tuples.read_run(row)

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
        wanted = state.value if state is not None else None
        # Those that have not ended are few, and have an index of their own.
        index, chosen = ("NOT INDEXED", "(?2 IS NULL OR state = ?2)")
        if state is not None and not state.is_end:
            index, chosen = ("INDEXED BY run_open", "ended IS NULL AND state = ?2")
        if prefix:
            # The last character there is comes after whatever follows a prefix.
            index, chosen = ("INDEXED BY run_name", f"name >= ?4 AND name < ?4 || char(0x10ffff) AND {chosen}")
        page = f"{rows.RUN} {index} WHERE {chosen} AND id {beyond} ?1 ORDER BY id {order} LIMIT ?3"
        with self._link.read() as db:
            # Read to the end: a statement that is left half read costs the connection.
            values = (start, wanted, page_size(limit) + 1, *([prefix] if prefix else ()))
            found = db.execute(page, values).fetchall()
            return _page(map(tuples.read_run, found), lambda r: r.id, after, limit)

    def runs_at(self, runs: Sequence[int]) -> Mapping[int, StoredRun]:
        """Return those of these runs that exist."""
        with self._link.read() as db:
            return rows.runs_at(db, (run for run in runs if 0 < run <= MAX_ID))

    def owners(self, digest: bytes) -> Sequence[Owner]:
        """Return who began unfinished runs without a name, found by skipping from one to the next."""
        found: list[Owner] = []
        after = ""
        with self._link.read() as db:
            while (row := db.execute(NEXT_OWNER, (digest, after)).fetchall()[0])[0] is not None:
                (after,) = row
                found.append(tuples.read_owner(after))
        return found

    def unnamed(self, digest: bytes, owner: Owner, *, after: int = 0, limit: int = 100) -> Page[StoredRun]:
        """Unfinished runs of one owner without a name, by id."""
        with self._link.read() as db:
            found = db.execute(UNNAMED, (digest, tuples.write_owner(owner), after))
            return _page(map(tuples.read_run, found), lambda r: r.id, after, limit)

    def decisions(self, run: int, *, after: int = 0, limit: int = 100) -> Page[Decision]:
        """Return the decisions about a run by number."""
        with self._link.read() as db:
            rows.run_row(db, run)
            found = db.execute("SELECT told FROM decision WHERE run = ? AND n > ? ORDER BY n", (run, after))
            return _page((tuples.read_decision(told) for (told,) in found), lambda decision: decision.n, after, limit)

    def counts(self, run: int | None) -> Mapping[str, Mapping[int, int]]:
        """Counters by kind."""
        with self._link.read() as db:
            if run is not None:
                rows.run_row(db, run)
            return counters.read(db, run)

    def totals(self) -> Totals:
        """All that ever happened."""
        with self._link.read() as db:
            return counters.totals(db)

    def task(self, task: int) -> Row | None:
        """One published task."""
        with self._link.read() as db:
            span = rows.kept(db, [task]).get(task)
            if span is None:
                return None
            found = db.execute(f"{log.TASK} FROM span s, task t WHERE s.first = ? AND t.id = ?", (span.first, task))
            return Row(*found.fetchall()[0])

    def tasks(
        self, run: int, *, kind: str | None = None, newest_first: bool = False, after: int = 0, limit: int = 100
    ) -> Page[Row]:
        """Published tasks of a run by id."""
        chosen = f"{TASKS_OF_SPANS} WHERE s.run = ?1{CHOSEN_SPANS} ORDER BY s.first, t.id"
        if newest_first:
            chosen = f"{TASKS_BEFORE} WHERE s.run = ?1{SPANS_BEFORE} ORDER BY s.first DESC, t.id DESC"
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            start = (after or MAX_ID) if newest_first else after
            found = db.execute(f"{log.TASK}{chosen} LIMIT ?4", (run, start, kind, page_size(limit) + 1)).fetchall()
            return _page((Row(*row) for row in found), lambda r: r.id, after, limit)

    def children(self, task: int, *, after: int = 0, limit: int = 100) -> Page[Row]:
        """Published children of a task by id: of the spans whose parents lie around it, the rows that name it."""
        with self._link.read() as db:
            found = db.execute(f"{log.TASK}{TASKS_OF_SPANS}{CHILDREN} ORDER BY s.first, t.id", (task, after))
            return _page((Row(*row) for row in found), lambda r: r.id, after, limit)

    def segment(self, task: int) -> Segment | None:
        """The live row in which a task is set."""
        with self._link.read() as db:
            return dict(live.covering(db, [task])).get(task)

    def standings(self, tasks: Sequence[int]) -> Mapping[int, TaskStanding]:
        """Where tasks stand."""
        with self._link.read() as db:
            return dict(standing.standings(db, tasks))

    def find_tasks(self, run: int, kind: str, key: bytes, *, limit: int = 100) -> Sequence[int]:
        """Published tasks with that key."""
        with self._link.read() as db:
            held = once.find(db, [digest(Hold.ONCE, run, kind, key)])
            found = db.execute(
                f"SELECT task FROM label WHERE digest = ? AND {log.NOT_REPLACED} ORDER BY task LIMIT ?",
                (digest(Hold.LABEL, run, kind, key), page_size(limit)),
            )
            return sorted({*filter(None, held), *(task for (task,) in found)})[: page_size(limit)]

    def holder(self, kind: str, key: bytes) -> int | None:
        """The unfinished task that holds a key."""
        with self._link.read() as db:
            return keys.holder(db, kind, key)

    def events(self, first: int, last: int) -> Sequence[Event]:
        """Events of a range."""
        with self._link.read() as db:
            return list(
                log.events(db.execute(f"{log.EVENT} WHERE task BETWEEN ? AND ? ORDER BY task, n", (first, last)))
            )

    def history(self, task: int) -> History:
        """Return what the events of a task add up to, sweeps included."""
        with self._link.read() as db:
            known = fold(log.events(db.execute(f"{log.EVENT} WHERE task = ? ORDER BY n", (task,))))
            return replace(known, ended=log.endings(db, [task]).get(task))

    def results(
        self, run: int, *, kind: str | None = None, status: Status = Status.DONE, after: int = 0, limit: int = 1000
    ) -> Page[Result]:
        """Ended tasks of a run by id, those ended by a sweep included."""
        with self._link.read() as db:
            check_remembered(rows.run_row(db, run))
            swept = status is Status.CANCELLED and bool(log.sweeps(db, "run = ? LIMIT 1", (run,)))
            found = db.execute(
                f"SELECT t.id, CAST(e.value AS BLOB), e.status, e.seq{TASKS_OF_SPANS}{standing.LAST_EVENT}"
                f" WHERE s.run = ?1{CHOSEN_SPANS} AND (e.status = ?4 OR ?5 AND ifnull(e.status, 8) NOT IN ({log.ENDS}))"
                " ORDER BY s.first, t.id",
                (run, after, kind, status, swept),
            )
            return _page(_ended(db, run, found, status), lambda r: r.task, after, limit)

    def members(self, join: int, *, after: int = -1, limit: int = 1000) -> Page[tuple[int, int]]:
        """Members of a join by slot: of groups, and of waiters, which win where a group's task lost its key."""
        with self._link.read() as db:
            # A page and one more of each: however many there are, what lies behind is not looked at.
            size = page_size(limit) + 1
            slots = nearest(db.execute(GROUPED_AFTER, (join, after)), size)
            slots.update(db.execute(LINKED_AFTER, (join, after, size)))
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
            chosen = db.execute(
                "SELECT seq, process, n, at, events, ranges FROM commits WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, page_size(limit)),
            ).fetchall()
            events: list[Event] = []
            for row in chosen:
                events += log.events_of(db, row[0], row[5])
            bounds = (chosen[0][0], chosen[-1][0]) if chosen else (1, 0)
            sweeps = log.sweeps(db, "seq BETWEEN ? AND ? ORDER BY rowid", bounds)
            starts = [RunStart(*row) for row in db.execute(STARTS, bounds)]
            decided = db.execute(DECIDED, bounds).fetchall()
            decisions = [RunDecision(run, seq, tuples.read_decision(told)) for run, seq, told in decided]
            after = chosen[-1][0] if chosen else after
            return Tail([CommitRow(*row[:5]) for row in chosen], events, sweeps, starts, decisions, after)

    def head(self) -> int:
        """Where a tail that has read everything stands."""
        with self._link.read() as db:
            return int(db.execute("SELECT ifnull(max(seq), 0) FROM commits").fetchall()[0][0])

    def spans(self, *, run: int | None = None, after: int = 0, limit: int = 1000) -> Page[Span]:
        """Return what was appended, by first id."""
        with self._link.read() as db:
            found = db.execute(
                "SELECT first, last, run, round, kind, queue, lane, priority, due, joined,"
                " CASE WHEN joined IS NULL THEN 0 ELSE first + shift END"
                " FROM span WHERE first > ? AND published AND (?2 IS NULL OR run = ?2) ORDER BY first",
                (after, run),
            )
            return _page((Span(*row) for row in found), lambda s: s.first, after, limit)

    def segments(
        self, *, run: int | None = None, owner: int | None = None, after: int = 0, limit: int = 1000
    ) -> Page[Segment]:
        """Rows of the segment table by id."""
        with self._link.read() as db:
            return _page(live.rows_after(db, run, owner, after), lambda r: r.id, after, limit)

    def due_tasks(self, kind: str, *, run: int | None = None, after: int = 0, limit: int = 100) -> Page[TaskStanding]:
        """Tasks of a kind with a due time that nobody holds, by id."""
        with self._link.read() as db:
            found = standing.due_tasks(db, kind, run, after, page_size(limit) + 1)
            return _page(found, lambda task: task.row.id, after, limit)

    def fired_at(self, tasks: Sequence[int]) -> Mapping[int, int]:
        """When the joins of tasks fired."""
        with self._link.read() as db:
            return standing.fired_at(db, tasks)

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
            return sorted(log.sweeps(db, "run = ?", (run,)), key=lambda s: (s.first, s.left or 0))

    def joins(self, run: int, *, fired: bool | None = None, after: int = 0, limit: int = 100) -> Page[Join]:
        """Joins of a run by id."""
        with self._link.read() as db:
            found = db.execute(
                "SELECT id, run, needs, instance, fired, rule, size, arrived, failed, skipped, cancelled"
                " FROM joins WHERE run = ? AND id > ? AND (?3 IS NULL OR fired = ?3) ORDER BY id LIMIT ?4",
                (run, after, fired, page_size(limit) + 1),
            ).fetchall()
            shown = map(_join, found)
            return _page(shown, lambda j: j.id, after, limit)

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
            return values.one(db, check_name(A_SPACE, space), check_name(A_VALUE, name))

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
            return _page(notes.lines(db, run, task, level, after), lambda stored: stored.seq, after, limit)

    def processes(self) -> Sequence[Process]:
        """Sessions."""
        with self._link.read() as db:
            found = db.execute(f"{processes.SESSION} ORDER BY process").fetchall()
        return [processes.read_process(row, self._liveness) for row in found]

    def sql(self, query: str, values: dict[str, Any]) -> Table:
        """The answer to one SELECT of a person's own, in which `:name` stands for a value."""
        return ask(self._link, query, values)

    def refusals(self, *, limit: int = 100) -> Sequence[Refusal]:
        """The newest refused parts."""
        with self._link.read() as db:
            found = db.execute(
                "SELECT process, n, token, tasks, at FROM refusal ORDER BY at DESC, n DESC LIMIT ?", (page_size(limit),)
            )
            return [Refusal(*row) for row in found]

    def damage(self) -> Sequence[str]:
        """Return the findings of SQLite's own check of every page, row and index. On its own connection: it is slow."""
        with self._link.snapshot() as db:
            found = [text for (text,) in db.execute(f"PRAGMA integrity_check({DAMAGES})")]
        return [] if found == ["ok"] else found


def _ended(db: Db, run: int, found: Iterable[tuple[Any, ...]], status: Status) -> Iterator[Result]:
    """Yield those of some tasks of a run that ended as wanted, by an event or by a sweep, in order."""
    rest = iter(found)
    while some := list(islice(rest, SWEPT_TOGETHER)):
        since = {task: seq or 0 for task, _, last, seq in some if last != status}
        swept = log.swept(db, run, since) if since else {}
        for task, value, last, _ in some:
            if last == status or task in swept:
                yield Result(task, status, value if last == status else None)


def _page(found: Iterable[T], key: Callable[[T], int], after: int, limit: int) -> Page[T]:
    size = page_size(limit)
    some = list(islice(found, size + 1))
    shown = some[:size]
    return Page(shown, key(shown[-1]) if shown else after, len(some) > size)


def _join(row: tuple[Any, ...]) -> Join:
    number, run, needs, instance, fired, rule, *bits = row
    ends = joins.ends_of(bits)
    return Join(number, run, needs, ends.all, ends, instance, bool(fired), Rule(rule))
