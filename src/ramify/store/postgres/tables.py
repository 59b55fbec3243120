"""The tables of the PostgreSQL store as the verbs ask them: every question one trip, however much is asked.

Inside a verb that writes, what is found is locked where the verb relies on it: whoever decides about runs has them
alone, others share them; rows and joins are locked by id. Outside, nothing is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ramify.model.arrivals import Standing
from ramify.model.claim import Want, within_bounds
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.model.limit import Limits, Place
from ramify.model.mark import Mark
from ramify.model.moving import RunStanding
from ramify.model.run import StoredRun
from ramify.model.segment import MASK_WIDTH, SegmentState
from ramify.model.value import Key, StoredValue
from ramify.store.changes import AskAfter, Believed, Changes
from ramify.store.postgres import editions, held, joins, keys, left, lines, loading, log, rows, writing
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.rows import SegmentRow, SpanRow
from ramify.store.tables import Ask, Loaded, Reported, SpanPiece
from ramify.store.tuples import ORDERS, RUN_STATES, segment_row

HIGHEST = "SELECT task, max(n) FROM @event WHERE task = ANY($1::bigint[]) GROUP BY task"
WORKING = "state IN (0, 1, 3, 6)"
_OF_RUN = "FROM @segment s WHERE s.run = run.id AND s."
#: Where a run stands, with all of its live work that matters, in one statement; the columns are those of `RunStanding`.
STANDING = f"""SELECT id, state, round, becomes, ordering, endless, deadline, follows, lead,
    (SELECT led.round FROM @run AS led WHERE led.id = run.follows AND led.ended IS NULL),
    (SELECT min(s.round) {_OF_RUN}{WORKING}) AS lowest,
    (SELECT min(s.round) {_OF_RUN}state = 1) AS gated,
    state = 'draining' AND EXISTS (SELECT 1 {_OF_RUN}state = 3),
    state = 'draining' AND EXISTS (SELECT 1 {_OF_RUN}state IN (0, 1, 2, 6)),
    NOT EXISTS (SELECT 1 {_OF_RUN}{WORKING}) AND EXISTS (SELECT 1 {_OF_RUN}state = 2)"""
ASKED = f"{STANDING} FROM @run WHERE id = ANY($1::bigint[])"
#: The open runs that may be able to move: all but those that certainly are not, which are most. `next_move` judges.
MAY_MOVE = f"""SELECT * FROM ({STANDING} FROM @run WHERE ended IS NULL) AS at (id, state, round, becomes, ordering,
    endless, deadline, follows, lead, leads, lowest, gated, held, loose, waits) WHERE state = 'draining'
    OR state = 'open' AND (deadline <= $1::bigint OR NOT endless AND lowest IS NULL
        OR (ordering = 'rounds' OR round < 0) AND lowest > round
        OR gated <= CASE WHEN ordering = 'rounds' THEN round ELSE gated END) ORDER BY id"""
AWAITED_BY = (
    "SELECT DISTINCT waiter.task FROM @joins j JOIN @waiter ON waiter.id = j.id"
    " WHERE j.run = $1::bigint AND NOT j.fired"
)
COUNTS = "SELECT run, what, sum(value)::bigint FROM @counter WHERE run = ANY($1::bigint[]) GROUP BY run, what"
#: The live rows in whose masks tasks are set: a masked row that begins close by, or the last full row before it.
_IS_SET = (
    "CASE WHEN mask IS NULL THEN true WHEN w.task - first < 8 * length(mask)"
    " THEN get_bit(mask, (w.task - first)::int) = 1 ELSE false END"
)
COVERING = (
    "SELECT DISTINCT c.id FROM unnest($1::bigint[]) AS w(task) CROSS JOIN LATERAL ("
    "SELECT id FROM @segment WHERE first <= w.task AND first > w.task - $2::bigint AND last >= w.task"
    f" AND {rows.IS_LIVE} AND {_IS_SET} UNION ALL"
    " SELECT id FROM (SELECT id, last FROM @segment WHERE first <= w.task AND mask IS NULL"
    f" AND {rows.IS_LIVE} ORDER BY first DESC LIMIT 1) wide WHERE last >= w.task) c"
)
ROWS_COVERING = f"{rows.SEGMENT} WHERE id = ANY(ARRAY({COVERING})) ORDER BY id"
MARKS = f"{held.MARK} WHERE run = $1::bigint ORDER BY id"
LIVES = f"SELECT 1 + count(*) FROM @event WHERE task = $1::bigint AND status = {Status.REOPENED:d}"


class PgTables:
    """A transaction; `writes` tells whether it is one of a verb that may write. Who `tries` waits for no run.

    Who `doubts` believes nothing: it is done once more because something was not as it was believed to be.
    """

    def __init__(self, db: Transaction, *, writes: bool, tries: bool = False, doubts: bool = False) -> None:
        self.db, self._writes, self._tries, self._doubts = db, writes, tries, doubts
        self._known = writing.Known()
        #: It has locked something already, with the limits before that if it must.
        self._comes_late = False
        #: What the verb wants to be asked once it is committed.
        self.after: AskAfter | None = None
        #: It wrote something that others may wait for.
        self.is_news = False

    def load(self, ask: Ask) -> Loaded:
        """Answer a verb."""
        loaded = loading.Loading(self.db, ask, writes=self._writes).load()
        self._comes_late = True
        self._known.context, self._known.values = loaded.context, loaded.values
        return loaded

    def write(self, changes: Changes) -> int:
        """Write what a verb decided."""
        self.is_news = self.is_news or _is_news(changes)
        self.after = changes.after or self.after
        return writing.write(self.db, changes, self._known)

    def write_if(self, changes: Changes, believed: Believed) -> bool:
        """Write what was decided on what is believed. If it is not so, the server refuses all of it, and the verb is
        done once more without belief; so this is one trip, with the commit.
        """
        if self._doubts:
            return False
        writing.believe(self.db, believed)
        if believed.tail is not None:
            changes.extend(believed.tail)
        self.write(changes)
        return True

    def report(self, asked: AskAfter, now: int) -> Reported:
        """Answer what goes back with a verb."""
        return reported(asked, self.db.trip(report_asked(asked, now)), now)

    def runs(self, runs: Collection[int], *, decides: bool = False) -> Mapping[int, StoredRun]:
        """Runs by id."""
        if decides:
            self._lock_limits()
        lock = rows.LOCK_RUNS if decides else rows.SHARE_RUNS
        return rows.runs_at(self.db, runs, lock=lock if self._writes else None)

    def needs(self, joins: Collection[int]) -> Mapping[int, int]:
        """The number of slots of joins."""
        return self._pairs("SELECT id, needs FROM @joins WHERE id = ANY($1::bigint[])", joins)

    def _pairs(self, text: str, wanted: Collection[int]) -> dict[int, Any]:
        return dict(self.db.ask(text, sorted(set(wanted)))) if wanted else {}

    def joins(self, wanted: Mapping[int, Collection[int]]) -> Mapping[int, Standing]:
        """Joins by id."""
        return joins.read(*self.db.trip(joins.asked(wanted, lock=self._writes))) if wanted else {}

    def waiters(self, tasks: Sequence[int]) -> Sequence[tuple[int, int, int]]:
        """The slots that the ends of tasks fill."""
        return joins.waiters_of(self.db, tasks)

    def last_behind(self, tasks: Collection[int]) -> Mapping[int, int]:
        """The last ones behind tasks. Others who come behind them wait until the end."""
        return joins.last_behind(self.db, tasks)

    def missing(self, tasks: Collection[int]) -> Collection[int]:
        """Tasks that nobody can wait for."""
        there = {task: span.run for task, span in self.spans_of(tasks).items() if span.published}
        runs = rows.runs_at(self.db, set(there.values()))
        kept = {task for task, run in there.items() if runs[run].state.value != "forgotten"}
        return set(tasks) - kept

    def endings(self, tasks: Collection[int]) -> Mapping[int, Status]:
        """How tasks ended. One that goes on stays as it is: whoever ends it comes later, and sees who waits."""
        if self._writes and tasks:
            self.covering(sorted(tasks))
        return log.endings(self.db, tasks)

    def heirs(self, slots: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int, int]]:
        """The tasks that were named for the slots of others."""
        return self.db.ask(joins.HEIRS, *writing.columns(slots)) if slots else []

    def holders(self, hold: Hold, digests: Sequence[bytes], at: int) -> dict[bytes, int]:
        """The holders of keys. Whoever takes one of the others meanwhile makes this verb be done once more."""
        return keys.find(self.db, hold, digests, at)

    def take_staged(self, span: SpanRow, now: int) -> Mapping[int, int]:
        """Give staged tasks their keys."""
        return keys.take_staged(self.db, span, now)

    def covering(self, tasks: Sequence[int]) -> Sequence[SegmentRow]:
        """The rows in which tasks are set. A row that was taken apart while this waited for it is looked for again."""
        wanted = sorted(set(tasks))
        lock = " FOR UPDATE" if self._writes else ""
        while wanted:
            found = [segment_row(row) for row in self.db.ask(ROWS_COVERING + lock, wanted, MASK_WIDTH)]
            if all(_covers_any(row, wanted) for row in found):
                return sorted(found, key=lambda row: row.first)
        return []

    def keys_at(self, first: int, last: int) -> Mapping[int, bytes | None]:
        """The keys of tasks."""
        return dict(self._between("key", first, last))

    def lanes_of(self, first: int, last: int) -> Mapping[int, str]:
        """The lanes of tasks."""
        return dict(self._between("lane", first, last))

    def _between(self, column: str, first: int, last: int) -> Any:
        return self.db.ask(f"SELECT id, {column} FROM @task WHERE id BETWEEN $1::bigint AND $2::bigint", first, last)

    def span_before(self, first: int) -> SpanRow | None:
        """The span that ends right before an id."""
        span = rows.span_of(self.db, first - 1)
        return span if span is not None and span.last == first - 1 else None

    def _rows(self, where: str, *values: Any) -> list[SegmentRow]:
        return rows.segments(self.db, f"{where} FOR UPDATE" if self._writes else where, *values)

    def staged_under(self, token: bytes, first: int) -> Sequence[SegmentRow]:
        """The staged row of a claim whose span begins there."""
        return self._rows("WHERE token = $1::bytea AND state = 4 AND span = $2::bigint", token, first)

    def tails_of(self, span: SpanRow) -> Sequence[SegmentRow]:
        """The last rows of a span: other tails and due rows may lie close by, and be many."""
        where = "WHERE first BETWEEN $1::bigint AND $2::bigint AND last = $2::bigint ORDER BY id"
        return self._rows(where, span.first, span.last)

    def parents_at(self, tasks: Sequence[int]) -> Mapping[int, int | None]:
        """The parents of tasks."""
        return self._pairs("SELECT id, parent FROM @task WHERE id = ANY($1::bigint[])", tasks)

    def owner(self, first: int, last: int) -> int | None:
        """The run of the tasks in a range of ids."""
        found = self.db.ask(f"SELECT run, last FROM ({rows.OWNER}) s", last)
        return found[0][0] if found and found[0][1] >= first else None

    def runs_of_joins(self, joins: Collection[int]) -> Mapping[int, int]:
        """The runs of joins."""
        return self._pairs("SELECT id, run FROM @joins WHERE id = ANY($1::bigint[])", joins)

    def keys_of(self, tasks: Sequence[int]) -> Mapping[int, bytes]:
        """The keys of tasks that have one."""
        return self._pairs(keys.KEYS_OF, tasks)

    def numbers(self, tasks: Collection[int]) -> Mapping[int, int]:
        """The highest number of an event of each."""
        return self._pairs(HIGHEST, tasks)

    def spans(self, firsts: Collection[int]) -> Mapping[int, SpanRow]:
        """Spans by their first ids."""
        return rows.spans_at(self.db, firsts)

    def spans_of(self, tasks: Collection[int]) -> Mapping[int, SpanRow]:
        """The spans that hold tasks."""
        return rows.spans_of(self.db, tasks)

    # runs that go on

    def standings(self, runs: Collection[int]) -> Sequence[RunStanding]:
        """Where runs stand, in one statement however many they are; in a verb that writes, they stay there."""
        if not runs:
            return []
        wanted = sorted(set(runs))
        if self._writes:
            if not self._comes_late:
                self._lock_limits()
            self.db.later(f"{rows.LOCK_RUNS}{' NOWAIT' if self._tries else ''}", wanted)
        return [_standing(row) for row in self.db.ask(ASKED, wanted)]

    def may_move(self, now: int) -> Sequence[RunStanding]:
        """Where runs stand that may move."""
        return [_standing(row) for row in self.db.ask(MAY_MOVE, now)]

    def counts(self, runs: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """The counters of runs."""
        counts: dict[int, dict[int, int]] = defaultdict(dict)
        for run, what, many in self.db.ask(COUNTS, sorted(runs)):
            counts[run][what] = many
        return counts

    def counted(self, runs: Collection[int]) -> Mapping[int, int]:
        """How many tasks bounded runs have."""
        return loading.counted(self.db, runs)

    def rows_of(self, run: int, states: Collection[SegmentState], limit: int = -1) -> Sequence[SegmentRow]:
        """Live rows of a run."""
        among = ",".join(f"{state:d}" for state in states)
        where = f"WHERE run = $1::bigint AND state IN ({among}) ORDER BY id LIMIT $2::bigint"
        if limit >= 0:
            return rows.segments(self.db, where, run, limit)
        return self._rows(where, run, None)

    def works(self, run: int) -> bool:
        """Return whether rows of a run can be worked off."""
        return bool(self.db.ask(f"SELECT 1 FROM @segment WHERE run = $1::bigint AND {WORKING} LIMIT 1", run))

    def awaited(self, run: int) -> Sequence[int]:
        """The tasks that a run waits for."""
        return [task for (task,) in self.db.ask(AWAITED_BY, run)]

    # limits

    def _lock_limits(self) -> None:
        """Have the limits alone, before runs: whoever decides about these may make room, or take heads away."""
        if self._writes:
            text, values = lines.asked(lock=True)
            self.db.later(lines.LOCK)
            self.db.later(text, *values)
        self._comes_late = True

    def limits(self) -> Limits:
        """All limits."""
        text, values = lines.asked(lock=self._writes)
        return lines.read(self.db.ask(text, *values))

    def running(self, places: Collection[Place]) -> Mapping[str, int]:
        """How many tasks are claimed at places."""
        return lines.running(self.db, places)

    def have_openings(self) -> bool:
        """Return whether there are openings."""
        return lines.have_openings(self.db)

    def values(self, keys: Collection[Key]) -> Mapping[Key, StoredValue]:
        """Values by their keys."""
        if not keys:
            return {}
        lock = f" {loading.ALONE}" if self._writes else ""
        found = loading.values_of(self.db.ask(loading.VALUES + lock, *writing.columns(sorted(keys))))
        self._known.values = {*self._known.values, *found}
        return found

    def heads(self, lines_: Collection[str]) -> Sequence[SegmentRow]:
        """The rows that are next in lines."""
        return lines.heads(self.db, lines_)

    def has_head(self, line: str, kind: str, queue: str) -> bool:
        """Return whether a line has a head."""
        return lines.has_head(self.db, line, kind, queue)

    def in_line(self, line: str, kind: str, queue: str, runs: Collection[int] | None = None) -> Iterator[SegmentRow]:
        """Limited rows in their order."""
        return lines.in_line(self.db, line, kind, queue, runs, lock=self._writes)

    def heads_of(self, want: Want, runs: Collection[int] | None, now: int) -> Sequence[SegmentRow]:
        """The heads of lines."""
        return lines.heads_of(self.db, want, runs, now)

    def runs_in_line(self) -> Sequence[int]:
        """The runs that wait in lines."""
        return lines.runs_in_line(self.db)

    def lines_headed_by(self, run: int) -> Collection[str]:
        """The lines that a run heads."""
        return lines.headed_by(self.db, run)

    # editions

    def made_by(self, run: int, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The tasks that ranges of tasks have made."""
        return [piece for each in ranges for piece in editions.made_by(self.db, run, *each)]

    def rows_over(self, ranges: Sequence[tuple[int, int]]) -> Sequence[SegmentRow]:
        """The rows in ranges that nobody holds."""
        return editions.rows_over(self.db, ranges)

    def pieces(self, ranges: Sequence[tuple[int, int]]) -> Sequence[SpanPiece]:
        """Ranges by their spans."""
        return editions.pieces(self.db, ranges)

    def unfired(self, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The slots in which ranges of tasks are waited for."""
        return self.db.ask(editions.AWAITED, *editions.columns(ranges))

    # people

    def life(self, task: int) -> int:
        """Which life of a task this is."""
        return int(self.db.ask(LIVES, task)[0][0])

    def marks_of(self, run: int) -> Sequence[Mark]:
        """The marks of a run."""
        return [held.mark_of(row) for row in self.db.ask(MARKS, run)]


def _is_news(changes: Changes) -> bool:
    """Return whether others may wait for some of it: more than a claim, or an answer that is kept."""
    told = changes.is_logged or changes.offered or changes.values or changes.marks or changes.grown or changes.has_left
    moved = changes.drained or changes.opened or changes.ungated or changes.ended or changes.revived
    added = any(row.state is not SegmentState.CLAIMED for row in changes.segments)
    lined = changes.relimited or any(row.state is SegmentState.READY for row in changes.lined)
    return bool(told or moved or added or lined or changes.longer or changes.publications)


def report_asked(after: AskAfter, now: int) -> list[Asked]:
    """Return what finds the answer that goes back with a verb."""
    asked: list[Asked] = []
    if after.tokens:
        asked += held.asked(after.tokens)
    if after.want is not None:
        asked += left.asked(after.want, after.looked, now)
    if after.process is not None:
        asked += held.told_asked(after.process)
    return asked


def reported(after: AskAfter, found: Sequence[Rows], now: int) -> Reported:
    """The answer, from what was found."""
    told = iter(found)
    answer = Reported()
    if after.tokens:
        claims = [next(told) for _ in held.asked(())]
        answer = Reported(within_bounds(held.read(claims)), held.time_left(claims[-1], now))
    if after.want is not None:
        some = [next(told) for _ in left.asked(after.want, None, now)]
        answer = answer._replace(left=left.answer(some, after.want, after.looked, now))
    if after.process is not None:
        answer = answer._replace(marks=held.told([next(told), next(told)]))
    return answer


def _covers_any(row: SegmentRow, tasks: Sequence[int]) -> bool:
    near = tasks[bisect_left(tasks, row.first) : bisect_left(tasks, row.last + 1)]
    return any(map(row.covers, near))


def _standing(row: tuple[Any, ...]) -> RunStanding:
    run, state, round, bound_for, order, endless, *rest = row
    return RunStanding(run, RUN_STATES[state], round, RUN_STATES[bound_for], ORDERS[order], endless, *rest)
