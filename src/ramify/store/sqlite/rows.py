"""Rows of the SQLite store as Python values, and the small statements that every verb needs.

Functions here take a connection that is inside a transaction. They decide nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw
import msgspec

from ramify.errors import UnknownRun
from ramify.model.death import Deaths
from ramify.model.decision import Decision
from ramify.model.decoder import decoder
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.model.mark import Mark
from ramify.model.policy import deep_rank, rank_of
from ramify.model.run import Follows, Order, Owner, RunState, StoredRun, Tolerance
from ramify.model.segment import MASK_WIDTH, SegmentState, cut_mask, pack, unpack
from ramify.store.sqlite.db import Db

RUN_COLUMNS = (
    "id, name, generation, shape, ordering, follows, lead, endless, params, digest, shown, owner, max_running,"
    " max_tasks, deadline, fails_as, tolerates, state, round, reason, created, ended, since, decision"
)
RUN = f"SELECT {RUN_COLUMNS} FROM run"
SEGMENT_COLUMNS = (
    "id, span, run, round, kind, queue, lane, first, last, mask, rank, due, state, attempt, deaths, owner,"
    " token, awaits"
)
SPAN_COLUMNS = (
    "first, last, run, round, kind, queue, lane, priority, due, hold, keep, joined, shift, keyed, extra, laned,"
    " awaited, published, low_parent, high_parent, added"
)
#: By what is stored of them, because rows are read by the thousand: to call an enum is dear.
STATES = tuple(SegmentState)
RUN_STATES = {str(state): state for state in RunState}
ORDERS = {str(order): order for order in Order}
TOLERANCES = {str(tolerance): tolerance for tolerance in Tolerance}
#: By the token: a process may hold very many rows, and left to itself SQLite looks through all of them.
CLAIMED_UNDER = (
    f"SELECT {SEGMENT_COLUMNS} FROM carray(?) AS given CROSS JOIN segment INDEXED BY fence ON token = given.value"
    " WHERE state = 3"
)
INSERT_SEGMENT = f"INSERT INTO segment ({SEGMENT_COLUMNS.removeprefix('id, ')}) VALUES ({','.join('?' * 17)})"
#: Of rows that must run apart: see `Deaths.packed`.
IS_APART = "deaths & 1"
RUNS_AT = f"SELECT {RUN_COLUMNS} FROM carray(?) AS wanted CROSS JOIN run ON id = wanted.value"
SPANS_AT = f"SELECT {SPAN_COLUMNS} FROM carray(?) AS wanted CROSS JOIN span ON first = wanted.value"
INSERT_SPAN = f"INSERT INTO span VALUES ({','.join('?' * 21)})"


def ids(numbers: Iterable[int]) -> Any:
    """A column of ids as one bound value, for `carray(?)`. There must be at least one."""
    return apsw.carray(array("q", numbers))


read_decision, read_owner = decoder(Decision).decode, decoder(Owner).decode


def read_run(row: tuple[Any, ...]) -> StoredRun:
    """A run from a row of `RUN`."""
    (
        number, name, generation, shape, order, follows, lead, endless, params, digest, shown, owner, max_running,
        max_tasks, deadline, fails_as, tolerates, state, round, reason, created, ended, since, decision,
    ) = row  # fmt: skip
    return StoredRun(
        number, name, generation, shape, ORDERS[order],
        None if follows is None else Follows(follows, lead),
        bool(endless), params, digest, shown, None if owner is None else read_owner(owner),
        max_running, max_tasks, deadline, RUN_STATES[fails_as], TOLERANCES[tolerates],
        state=RUN_STATES[state], round=round, reason=reason, created=created, ended=ended, since=since,
        decision=None if decision is None else read_decision(decision),
    )  # fmt: skip


def write_owner(owner: Owner | None) -> str | None:
    """The inverse of `read_owner`; equal owners are equal texts."""
    return None if owner is None else msgspec.json.encode(owner).decode()


def run_row(db: Db, run: int) -> StoredRun:
    """One run; UnknownRun when there is none."""
    row = db.execute(f"{RUN} WHERE id = ?", (run,)).fetchone()
    if row is None:
        raise unknown(run)
    return read_run(row)


def runs_at(db: Db, numbers: Iterable[int]) -> dict[int, StoredRun]:
    """Return those of these runs that there are, in one statement however many they are."""
    wanted = sorted(set(numbers))
    found = db.execute(RUNS_AT, (ids(wanted),)).fetchall() if wanted else []
    return {row[0]: read_run(row) for row in found}


def unknown(run: int) -> UnknownRun:
    """Return what to raise when there is no such run."""
    return UnknownRun(f"there is no run {run} in this store")


def state_for(run: StoredRun, round: int) -> SegmentState:
    """Return what a segment of that round is now: claimable, or behind the gate."""
    # Without a barrier all rounds open at once, and at once unless the run follows another.
    free = run.order is not Order.ROUNDS and (run.round >= 0 or run.follows is None)
    reached = free or round <= run.round
    return SegmentState.READY if reached and run.state is RunState.OPEN else SegmentState.GATED


@dataclass(slots=True)
class SqliteSpan:
    """A range of the log and what its tasks share; see the reference store."""

    first: int
    last: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    priority: int
    due: int | None
    hold: Hold
    keep: int
    join: int | None
    shift: int
    keyed: bool
    extra: bool
    laned: bool
    awaited: bool
    published: bool
    low_parent: int | None = None
    high_parent: int | None = None
    added: int = 0

    def shared(self) -> tuple[object, ...]:
        """Return what tasks must have in common to lie in one span."""
        return (
            self.run, self.round, self.kind, self.queue, self.lane, self.priority, self.due, self.hold, self.keep,
            self.join, self.shift, self.keyed, self.extra, self.laned, self.awaited,
        )  # fmt: skip

    def insert(self, db: Db) -> None:
        """Put the range into the log."""
        db.execute(INSERT_SPAN, self.column_values())

    def column_values(self) -> tuple[object, ...]:
        """Return what `INSERT_SPAN` is bound to."""
        return (
            self.first, self.last, self.run, self.round, self.kind, self.queue, self.lane, self.priority, self.due,
            self.hold, self.keep, self.join, self.shift, self.keyed, self.extra, self.laned, self.awaited,
            self.published, self.low_parent, self.high_parent, self.added,
        )  # fmt: skip

    def grow(self, db: Db, more: SqliteSpan) -> None:
        """Add the tasks of a range that follows on."""
        db.execute("UPDATE span SET last = ? WHERE first = ?", (more.last, self.first))
        if (self.low_parent, self.high_parent) != (more.low_parent, more.high_parent):
            # 0 where not all of them have a parent.
            low = min(self.low_parent or 0, more.low_parent or 0)
            high = max(self.high_parent or 0, more.high_parent or 0)
            db.execute("UPDATE span SET low_parent = ?, high_parent = ? WHERE first = ?", (low, high, self.first))


def span_row(row: tuple[Any, ...]) -> SqliteSpan:
    """A span from a row of `SPAN_COLUMNS`."""
    span = SqliteSpan(*row)
    span.hold = Hold(span.hold)
    return span


def span_at(db: Db, first: int) -> SqliteSpan:
    """The span that begins at `first`."""
    row = db.execute(f"SELECT {SPAN_COLUMNS} FROM span WHERE first = ?", (first,)).fetchone()
    assert row is not None
    return span_row(row)


def spans_at(db: Db, firsts: Iterable[int]) -> dict[int, SqliteSpan]:
    """The spans that begin there, by their first ids, in one statement however many they are."""
    wanted = sorted(set(firsts))
    found = db.execute(SPANS_AT, (ids(wanted),)).fetchall() if wanted else []
    return {row[0]: span_row(row) for row in found}


def span_of(db: Db, task: int) -> SqliteSpan | None:
    """The range that holds `task`, published or not."""
    row = db.execute(
        f"SELECT {SPAN_COLUMNS} FROM span WHERE first <= ? ORDER BY first DESC LIMIT 1", (task,)
    ).fetchone()
    return None if row is None or row[1] < task else span_row(row)


def kept_span(db: Db, task: int) -> SqliteSpan | None:
    """The range that holds `task`, when it is published and its run was not forgotten."""
    span = span_of(db, task)
    if span is None or not span.published:
        return None
    return None if run_row(db, span.run).state is RunState.FORGOTTEN else span


def has_any(db: Db, run: int, first: int, last: int) -> bool:
    """Return whether any task of that run lies in a range of ids."""
    row = db.execute("SELECT last, run FROM span WHERE first <= ? ORDER BY first DESC LIMIT 1", (last,)).fetchone()
    return row is not None and row[0] >= first and row[1] == run


@dataclass(slots=True)
class SqliteSegment:
    """A row of the segment table; `left` is its mask as a number."""

    id: int
    span: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    first: int
    last: int
    left: int | None
    rank: int
    due: int | None
    state: SegmentState
    attempt: int = 0
    packed_deaths: int = 0
    owner: int | None = None
    token: bytes | None = None
    awaits: int | None = None

    @property
    def count(self) -> int:
        """How many unfinished tasks it stands for."""
        return self.last - self.first + 1 if self.left is None else self.left.bit_count()

    @property
    def deaths(self) -> Deaths:
        """Which processes died over it."""
        return Deaths.unpack(self.packed_deaths)

    def covers(self, task: int) -> bool:
        """Return whether `task` is one of them."""
        return self.first <= task <= self.last and (self.left is None or bool(self.left >> (task - self.first) & 1))

    def insert(self, db: Db) -> SqliteSegment:
        """Write it as a new row, whatever `id` it was copied with."""
        db.execute(INSERT_SEGMENT, self.column_values())
        self.id = db.last_insert_rowid()
        return self

    def column_values(self) -> tuple[object, ...]:
        """Return what `INSERT_SEGMENT` is bound to."""
        return (
            self.span, self.run, self.round, self.kind, self.queue, self.lane, self.first, self.last, pack(self.left),
            self.rank, self.due, self.state, self.attempt, self.packed_deaths, self.owner,
            self.token, self.awaits,
        )  # fmt: skip


def segment_row(row: tuple[Any, ...]) -> SqliteSegment:
    """A segment from a row of `SEGMENT_COLUMNS`."""
    segment = SqliteSegment(*row)
    segment.left = unpack(row[9])
    segment.state = STATES[row[12]]
    return segment


def segments(db: Db, where: str, values: tuple[object, ...]) -> list[SqliteSegment]:
    """Segments that satisfy a fixed condition of ours; `where` never holds anything from outside."""
    return [segment_row(row) for row in db.execute(f"SELECT {SEGMENT_COLUMNS} FROM segment {where}", values)]


def claimed_under(db: Db, tokens: Sequence[bytes]) -> list[SqliteSegment]:
    """The rows claimed under these tokens, in their order; a token that is void has none."""
    return list(map(segment_row, db.execute(CLAIMED_UNDER, (apsw.carray(tuple(tokens)),)))) if tokens else []


def covering(db: Db, task: int) -> SqliteSegment | None:
    """The live row in whose mask `task` is set: a masked row that begins close by, or the last full row before it."""
    # The nearest first, one at a time: a run that forks much has thousands of narrow rows close by.
    near = db.execute(
        f"SELECT {SEGMENT_COLUMNS} FROM segment"
        " WHERE first <= ? AND first > ? AND last >= ? AND state <= 3 ORDER BY first DESC",
        (task, task - MASK_WIDTH, task),
    )
    for found in near:
        row = segment_row(found)
        if row.covers(task):
            return row
    wide = segments(db, "WHERE first <= ? AND mask IS NULL AND state <= 3 ORDER BY first DESC LIMIT 1", (task,))
    return wide[0] if wide and wide[0].covers(task) else None


def drop(db: Db, row: SqliteSegment) -> None:
    """Remove a row that stands for nothing any more."""
    db.execute("DELETE FROM segment WHERE id = ?", (row.id,))


def split(db: Db, row: SqliteSegment, cut: int) -> SqliteSegment:
    """The tasks below `cut` as a new row; `row` keeps the rest, so that a tail row goes on growing."""
    below, rest = cut_mask(row.first, row.last, row.left, cut)
    head = replace(row, last=cut - 1, left=below)
    row.first, row.left = cut, rest
    db.execute("UPDATE segment SET first = ?, mask = ? WHERE id = ?", (row.first, pack(row.left), row.id))
    return head


def around(db: Db, row: SqliteSegment, task: int) -> SqliteSegment:
    """A row of maskable width that holds `task`, split off a wider one if need be."""
    while row.last - row.first + 1 > MASK_WIDTH:
        head = split(db, row, row.first + MASK_WIDTH * max(1, (task - row.first) // MASK_WIDTH)).insert(db)
        row = head if task <= head.last else row
    return row


def set_left(db: Db, row: SqliteSegment, left: int) -> None:
    """Give a row its new mask; it goes when nothing is left of it."""
    if left:
        row.left = left
        db.execute("UPDATE segment SET mask = ? WHERE id = ?", (pack(left), row.id))
    else:
        drop(db, row)


def rank(run: StoredRun, span: SqliteSpan, now: int) -> int:
    """The place in line of a span's tasks."""
    if run.order is Order.DEPTH_FIRST:
        return deep_rank(run.created, span.priority, span.round)
    return rank_of(now, span.priority)


def add_marks(db: Db, marks: Iterable[Mark]) -> None:
    """Leave marks."""
    db.executemany("INSERT INTO mark VALUES (?,?,?,?,?,?,?)", (msgspec.structs.astuple(mark) for mark in marks))


# The log


def latest(db: Db) -> int:
    """The latest time written down: of the last commit, or of the newest run."""
    commit = "SELECT at FROM commits ORDER BY seq DESC LIMIT 1"
    ((at,),) = db.execute(f"SELECT max(ifnull(({commit}), 0), ifnull(max(created), 0)) FROM run").fetchall()
    return int(at)


class CommitLog:
    """The commit being written: its place in the log, and the ranges its events lie in, so that a tail finds them."""

    def __init__(self, db: Db, process: int, n: int, at: int) -> None:
        self._db = db
        self._ranges: list[tuple[int, int]] = []
        self._events = 0
        self.at = at
        db.execute("INSERT INTO commits VALUES (NULL, ?, ?, ?, 0, '')", (process, n, at))
        self.seq = db.last_insert_rowid()

    def touched(self, first: int, last: int, events: int) -> None:
        """Events were written for tasks within this range."""
        self._ranges.append((first, last))
        self._events += events

    def close(self) -> None:
        """Write down what was touched; the commit is then complete."""
        ranges = msgspec.json.encode(sorted(set(self._ranges))).decode()
        self._db.execute("UPDATE commits SET events = ?, ranges = ? WHERE seq = ?", (self._events, ranges, self.seq))

    def write(self, task: int, status: Status, value: bytes | None) -> None:
        """One event by itself."""
        self._db.execute(
            "INSERT INTO event (task, n, seq, status, value)"
            " SELECT ?1, ifnull(max(n), 0) + 1, ?2, ?3, CAST(?4 AS TEXT) FROM event WHERE task = ?1",
            (task, self.seq, status, value),
        )
        self.touched(task, task, 1)
