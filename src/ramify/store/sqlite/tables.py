"""The tables of the SQLite store as the verbs ask them: every question a few statements, however much is asked."""

from __future__ import annotations

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
from ramify.model.segment import SegmentState
from ramify.model.value import Key, StoredValue
from ramify.store import tuples
from ramify.store.changes import AskAfter, Believed, Changes
from ramify.store.rows import SegmentRow, SpanRow
from ramify.store.sqlite import bulk, candidates, editions, held, joins, keys, lines, loading, log, rows, values
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.writing import write, write_if
from ramify.store.tables import Ask, Left, Loaded, Reported, SpanPiece

HIGHEST = "SELECT task, max(n) FROM carray(?) AS wanted CROSS JOIN event ON task = wanted.value GROUP BY task"
WORKING = "state IN (0, 1, 3, 6)"
#: Where a run stands, with all of its live work that matters, in one statement; the columns are those of `RunStanding`.
STANDING = f"""SELECT id, state, round, becomes, ordering, endless, deadline, follows, lead,
    (SELECT led.round FROM run AS led WHERE led.id = run.follows AND led.ended IS NULL),
    (SELECT min(round) FROM segment INDEXED BY segment_run WHERE run = run.id AND {WORKING}) AS lowest,
    (SELECT min(round) FROM segment INDEXED BY gated WHERE run = run.id AND state = 1) AS gated,
    state = 'draining' AND EXISTS (SELECT 1 FROM segment WHERE run = run.id AND state = 3),
    state = 'draining' AND EXISTS (SELECT 1 FROM segment WHERE run = run.id AND state IN (0, 1, 2, 6)),
    NOT EXISTS (SELECT 1 FROM segment INDEXED BY segment_run WHERE run = run.id AND {WORKING})
        AND EXISTS (SELECT 1 FROM segment INDEXED BY segment_run WHERE run = run.id AND state = 2)"""
ASKED = f"{STANDING} FROM carray(?) AS asked CROSS JOIN run ON id = asked.value"
#: The open runs that may be able to move: all but those that certainly are not, which are most. `next_move` judges.
#: What costs a search comes last on its side: there may be very many runs that wait.
MAY_MOVE = f"""SELECT * FROM ({STANDING} FROM run INDEXED BY run_open WHERE ended IS NULL) WHERE state = 'draining'
    OR state = 'open' AND (deadline <= ? OR NOT endless AND lowest IS NULL
        OR (ordering = 'rounds' OR round < 0) AND lowest > round
        OR gated <= iif(ordering = 'rounds', round, gated)) ORDER BY id"""

AWAITED = (
    "SELECT DISTINCT waiter.task FROM joins CROSS JOIN waiter ON waiter.id = joins.id"
    " WHERE joins.run = ? AND NOT joins.fired"
)
COUNTS = (
    "SELECT run, what, sum(counter.value) FROM carray(?) AS ending CROSS JOIN counter ON run = ending.value"
    " GROUP BY run, what"
)
#: Columns of new tasks in the form they are bound in, by the first id of their group.
Columns = Mapping[int, bulk.TaskColumns]


class SqliteTables:
    """A connection inside a transaction. `columns` are those that were prepared before it."""

    def __init__(self, db: Db, columns: Columns | None = None) -> None:
        self.db = db
        self._columns = columns or {}
        self.has_consumed = False

    def load(self, ask: Ask) -> Loaded:
        """Answer a verb."""
        return loading.load(self.db, ask)

    def write(self, changes: Changes) -> int:
        """Write what a verb decided."""
        self.has_consumed = self.has_consumed or changes.answer is not None
        return write(self.db, changes, self._columns)

    def write_if(self, changes: Changes, believed: Believed) -> bool:
        """Write what was decided on what is believed, if it is so."""
        return write_if(self.db, changes, self._columns, believed)

    def report(self, asked: AskAfter, now: int) -> Reported:
        """Answer what goes back with a verb: SQLite asks it on its own, when the writer's turn is over."""
        claims = within_bounds(held.read(self.db, asked.tokens)) if asked.tokens else ()
        time_left = held.time_left(self.db, {claim.run for claim in claims}, now)
        left = Left() if asked.want is None else candidates.left(self.db, asked.want, asked.looked, now)
        marks = () if asked.process is None else held.marks_for(self.db, asked.process)
        return Reported(claims, time_left, left, marks)

    def runs(self, runs: Collection[int], *, decides: bool = False) -> Mapping[int, StoredRun]:
        """Runs by id."""
        return rows.runs_at(self.db, runs)

    def needs(self, joins_: Collection[int]) -> Mapping[int, int]:
        """The number of slots of joins."""
        return dict(self.db.execute(joins.NEEDS_AT, (rows.ids(sorted(joins_)),)).fetchall()) if joins_ else {}

    def joins(self, wanted: Mapping[int, Collection[int]]) -> Mapping[int, Standing]:
        """Joins by id."""
        return joins.load(self.db, wanted)

    def waiters(self, tasks: Sequence[int]) -> Sequence[tuple[int, int, int]]:
        """The slots that the ends of tasks fill."""
        return joins.waiters_of(self.db, tasks)

    def last_behind(self, tasks: Collection[int]) -> Mapping[int, int]:
        """The last ones behind tasks. One writer at a time: nobody else comes behind them meanwhile."""
        return joins.last_behind(self.db, tasks)

    def missing(self, tasks: Collection[int]) -> Collection[int]:
        """Tasks that nobody can wait for."""
        return set(tasks).difference(rows.kept(self.db, tasks))

    def endings(self, tasks: Collection[int]) -> Mapping[int, Status]:
        """How tasks ended."""
        return log.endings(self.db, tasks)

    def heirs(self, slots: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int, int]]:
        """The tasks that were named for the slots of others."""
        return joins.heirs(self.db, slots)

    def holders(self, hold: Hold, digests: Sequence[bytes], at: int) -> dict[bytes, int]:
        """The holders of keys. One writer at a time: nobody else can take them meanwhile."""
        found = zip(digests, keys.find(self.db, hold, digests, at), strict=True)
        return {digest: task for digest, task in found if task is not None}

    def take_staged(self, span: SpanRow, now: int) -> Mapping[int, int]:
        """Give staged tasks their keys."""
        return keys.take_staged(self.db, span, now)

    def covering(self, tasks: Sequence[int]) -> Sequence[SegmentRow]:
        """The rows in which tasks are set; neighbours often share one."""
        found: dict[int, SegmentRow] = {}
        near: list[SegmentRow] = []
        row: SegmentRow | None = None
        for task in tasks:
            if row is None or not row.covers(task):
                near = [known for known in near if known.last >= task]
                row = next((known for known in near if known.covers(task)), None) or rows.covering(self.db, task)
                if row is not None and row.id not in found:
                    found[row.id] = row
                    near.append(row)
        return sorted(found.values(), key=lambda row: row.first)

    def keys_at(self, first: int, last: int) -> Mapping[int, bytes | None]:
        """The keys of tasks."""
        return dict(self.db.execute("SELECT id, key FROM task WHERE id BETWEEN ? AND ?", (first, last)).fetchall())

    def lanes_of(self, first: int, last: int) -> Mapping[int, str]:
        """The lanes of tasks."""
        return dict(self.db.execute("SELECT id, lane FROM task WHERE id BETWEEN ? AND ?", (first, last)).fetchall())

    def span_before(self, first: int) -> SpanRow | None:
        """The span that ends right before an id."""
        span = rows.span_of(self.db, first - 1)
        return span if span is not None and span.last == first - 1 else None

    def staged_under(self, token: bytes, first: int) -> Sequence[SegmentRow]:
        """The staged row of a claim whose span begins there."""
        return rows.segments(self.db, "WHERE token = ? AND state = 4 AND span = ?", (token, first))

    def tails_of(self, span: SpanRow) -> Sequence[SegmentRow]:
        """The last rows of a span: other tails and due rows may lie close by, and be many."""
        return rows.segments(self.db, "WHERE first BETWEEN ? AND ? AND last = ?", (span.first, span.last, span.last))

    def parents_at(self, tasks: Sequence[int]) -> Mapping[int, int | None]:
        """The parents of tasks."""
        statement = "SELECT id, parent FROM carray(?) AS wanted CROSS JOIN task ON id = wanted.value"
        return dict(self.db.execute(statement, (rows.ids(tasks),)).fetchall())

    def owner(self, first: int, last: int) -> int | None:
        """The run of the tasks in a range of ids."""
        return rows.owner(self.db, first, last)

    def runs_of_joins(self, joins_: Collection[int]) -> Mapping[int, int]:
        """The runs of joins."""
        return joins.runs_of(self.db, joins_)

    def keys_of(self, tasks: Sequence[int]) -> Mapping[int, bytes]:
        """The keys of tasks that have one."""
        return dict(self.db.execute(keys.KEYS_OF, (rows.ids(tasks),)).fetchall()) if tasks else {}

    def numbers(self, tasks: Sequence[int]) -> Mapping[int, int]:
        """The highest number of an event of each."""
        return dict(self.db.execute(HIGHEST, (rows.ids(tasks),)).fetchall()) if tasks else {}

    def spans(self, firsts: Collection[int]) -> Mapping[int, SpanRow]:
        """Spans by their first ids."""
        return rows.spans_at(self.db, firsts)

    def spans_of(self, tasks: Collection[int]) -> Mapping[int, SpanRow]:
        """The spans that hold tasks."""
        return rows.spans_of(self.db, tasks)

    # runs that go on

    def standings(self, runs: Collection[int]) -> Sequence[RunStanding]:
        """Where runs stand, in one statement however many they are."""
        return [_standing(row) for row in self.db.execute(ASKED, (rows.ids(runs),)).fetchall()] if runs else []

    def may_move(self, now: int) -> Sequence[RunStanding]:
        """Where runs stand that may move."""
        # Read to the end: a statement that is left half read costs the connection.
        return [_standing(row) for row in self.db.execute(MAY_MOVE, (now,)).fetchall()]

    def counts(self, runs: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """The counters of runs."""
        counts: dict[int, dict[int, int]] = defaultdict(dict)
        for run, what, many in self.db.execute(COUNTS, (rows.ids(runs),)).fetchall():
            counts[run][what] = many
        return counts

    def counted(self, runs: Collection[int]) -> Mapping[int, int]:
        """How many tasks bounded runs have."""
        return loading.counted(self.db, self.runs(runs).values())

    def rows_of(self, run: int, states: Collection[SegmentState], limit: int = -1) -> Sequence[SegmentRow]:
        """Live rows of a run."""
        among = ",".join(f"{state:d}" for state in states)
        where = f"INDEXED BY segment_run WHERE run = ? AND state IN ({among}) ORDER BY id LIMIT ?"
        return rows.segments(self.db, where, (run, limit))

    def works(self, run: int) -> bool:
        """Return whether rows of a run can be worked off."""
        return (
            self.db.execute(f"SELECT 1 FROM segment WHERE run = ? AND {WORKING} LIMIT 1", (run,)).fetchone() is not None
        )

    def awaited(self, run: int) -> Sequence[int]:
        """The tasks that a run waits for."""
        return [task for (task,) in self.db.execute(AWAITED, (run,)).fetchall()]

    # limits

    def limits(self) -> Limits:
        """All limits."""
        return lines.limits(self.db)

    def running(self, places: Collection[Place]) -> Mapping[str, int]:
        """How many tasks are claimed at places."""
        return lines.running(self.db, places)

    def have_openings(self) -> bool:
        """Return whether there are openings."""
        return lines.have_openings(self.db)

    def values(self, keys: Collection[Key]) -> Mapping[Key, StoredValue]:
        """Values by their keys."""
        return values.load(self.db, keys)

    def heads(self, lines_: Collection[str]) -> Sequence[SegmentRow]:
        """The rows that are next in lines."""
        return list(lines.heads(self.db, lines_))

    def has_head(self, line: str, kind: str, queue: str) -> bool:
        """Return whether a line has a head."""
        return lines.has_head(self.db, line, kind, queue)

    def in_line(self, line: str, kind: str, queue: str, runs: Collection[int] | None = None) -> Iterator[SegmentRow]:
        """Limited rows in their order."""
        return lines.in_line(self.db, line, kind, queue, runs)

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
        return [piece for each in ranges for piece in editions.pieces(self.db, *each)]

    def unfired(self, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The slots in which ranges of tasks are waited for."""
        return [slot for each in ranges for slot in self.db.execute(editions.AWAITED, each).fetchall()]

    # people

    def life(self, task: int) -> int:
        """Which life of a task this is."""
        again = "SELECT count(*) FROM event WHERE task = ? AND status = ?"
        return 1 + int(self.db.execute(again, (task, Status.REOPENED)).fetchall()[0][0])

    def marks_of(self, run: int) -> Sequence[Mark]:
        """The marks of a run."""
        return held.marks_of(self.db, [run]).get(run, ())


def _standing(row: tuple[Any, ...]) -> RunStanding:
    run, state, round, bound_for, order, endless, *rest = row
    states = tuples.RUN_STATES
    return RunStanding(run, states[state], round, states[bound_for], tuples.ORDERS[order], bool(endless), *rest)
