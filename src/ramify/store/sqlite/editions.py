"""Editions in the SQLite store: what makers have made, found and replaced by ranges of ids.

An edition may be a million tasks. It is found span by span: a span whose parents all belong to it is taken whole, and
only of others the tasks are looked at. One statement for each range then writes the ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ramify.model.event import ENDS, Status
from ramify.model.segment import MASK_WIDTH, stretches
from ramify.store import tuples
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import keys, rows
from ramify.store.sqlite.file.db import Db
from ramify.store.tables import SpanPiece

#: The spans with tasks whose parents lie in a range.
CHILD_SPANS = (
    "SELECT first, last, low_parent, high_parent FROM span WHERE first IN ("
    "SELECT first FROM span INDEXED BY span_parents WHERE low_parent BETWEEN ?1 - 8191 AND ?2 AND high_parent >= ?1"
    " UNION SELECT first FROM span INDEXED BY span_far_parents"
    " WHERE high_parent - low_parent >= 8192 AND low_parent <= ?2 AND high_parent >= ?1"
    ") AND published AND run = ?3"
)
ANY_REPLACED = f"SELECT 1 FROM event WHERE task BETWEEN ? AND ? AND status = {Status.REPLACED:d} LIMIT 1"
CHILDREN = (
    "SELECT id FROM task WHERE id BETWEEN ? AND ? AND parent BETWEEN ? AND ?"
    f" AND NOT EXISTS (SELECT 1 FROM event WHERE event.task = task.id AND status = {Status.REPLACED:d}) ORDER BY id"
)
SPANS_OVER = (
    f"SELECT {tuples.SPAN_COLUMNS} FROM span WHERE first BETWEEN (SELECT max(first) FROM span WHERE first <= ?1) AND ?2"
    " AND last >= ?1 ORDER BY first"
)
#: By the span that a row belongs to: a wide row may begin far before the range.
OFFERED = "WHERE first BETWEEN ? AND ? AND last >= ? AND state IN (0, 1, 2, 6)"
HOW_ENDED = (
    "SELECT status, count(*) FROM task LEFT JOIN event ON event.task = task.id"
    " AND n = (SELECT max(n) FROM event WHERE event.task = task.id) WHERE task.id BETWEEN ? AND ? GROUP BY status"
)
NEW_COMMIT = "INSERT INTO commits VALUES (NULL, ?, 0, ?, ?, ?)"
WRITE_ENDS = (
    "INSERT INTO event (task, n, seq, status) SELECT id, ifnull((SELECT max(n) FROM event WHERE task = id), 0) + 1, ?1,"
    f" {Status.REPLACED:d} FROM task WHERE id BETWEEN ?2 AND ?3"
)
#: The slots of joins that have not fired for which tasks of a range are waited for.
AWAITED = (
    "SELECT waiter.id, slot FROM waiter CROSS JOIN joins ON joins.id = waiter.id"
    " WHERE waiter.task BETWEEN ? AND ? AND NOT fired"
)
#: Names that were set by tasks of a range.
FORGET_NAMES = "DELETE FROM context WHERE run = ? AND task BETWEEN ? AND ?"


def made_by(db: Db, run: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield what a range of tasks has made, as ranges."""
    for low, high, low_parent, high_parent in db.execute(CHILD_SPANS, (first, last, run)).fetchall():
        is_replaced = db.execute(ANY_REPLACED, (low, high)).fetchone() is not None
        if is_replaced and low_parent == high_parent:
            # Tasks of one parent are replaced together.
            continue
        if first <= low_parent and high_parent <= last and not is_replaced:
            yield low, high
            continue
        found = [task for (task,) in db.execute(CHILDREN, (low, high, first, last)).fetchall()]
        yield from ((stretch[0], stretch[-1]) for stretch in stretches(found))


def rows_over(db: Db, ranges: Sequence[tuple[int, int]]) -> list[SegmentRow]:
    """The live rows that reach into ranges and that nobody holds, each once."""
    found: dict[int, SegmentRow] = {}
    for first, last in ranges:
        ((begin,),) = db.execute("SELECT ifnull(max(first), ?1) FROM span WHERE first <= ?1", (first,)).fetchall()
        for row in rows.segments(db, OFFERED, (begin, last, first)):
            found.setdefault(row.id, row)
    return list(found.values())


def pieces(db: Db, first: int, last: int) -> Iterator[SpanPiece]:
    """Yield the parts of a range that lie in one span each."""
    for row in db.execute(SPANS_OVER, (first, last)).fetchall():
        span = tuples.span_row(row)
        low, high = max(first, span.first), min(last, span.last)
        counted = db.execute(HOW_ENDED, (low, high)).fetchall()
        yield SpanPiece(span, low, high, {Status(status): many for status, many in counted if status in ENDS})


def replace(db: Db, changes: Changes) -> None:
    """Write the ends of an edition. Its keys are free, and so are the names that it set; marks on it are over."""
    for span, first, last in changes.replaced:
        keys.free(db, span, first, last)
        for statement in ("DELETE FROM mark WHERE run = ? AND task BETWEEN ? AND ?", FORGET_NAMES):
            db.execute(statement, (span.run, first, last))
    for some in _commits([(first, last) for _, first, last in changes.replaced]):
        told = sum(last - first + 1 for first, last in some)
        ranges = msgspec.json.encode(some).decode()
        db.execute(NEW_COMMIT, (changes.process, changes.now, told, ranges))
        seq = db.last_insert_rowid()
        db.executemany(WRITE_ENDS, [(seq, *each) for each in some])


def _commits(ranges: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yield ranges in groups, because who follows the log reads whole commits, so none is very large."""
    some: list[tuple[int, int]] = []
    room = MASK_WIDTH
    for first, last in ranges:
        while first <= last:
            end = min(last, first + room - 1)
            some.append((first, end))
            room -= end - first + 1
            first = end + 1
            if not room:
                yield some
                some, room = [], MASK_WIDTH
    if some:
        yield some
