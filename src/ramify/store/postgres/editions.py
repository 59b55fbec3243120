"""Editions in the PostgreSQL store: what makers have made, found and replaced by ranges of ids, span by span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ramify.model.event import ENDS, Status
from ramify.model.segment import MASK_WIDTH, stretches
from ramify.store.changes import Changes
from ramify.store.postgres import keys, rows
from ramify.store.postgres.link import Transaction
from ramify.store.rows import SegmentRow
from ramify.store.tables import SpanPiece
from ramify.store.tuples import SPAN_COLUMNS, segment_row, span_row

#: The spans with tasks whose parents lie in a range.
OVER_PARENTS = (
    "SELECT first FROM @span WHERE low_parent IS NOT NULL"
    " AND low_parent BETWEEN $1::bigint - 8191 AND $2::bigint AND high_parent >= $1::bigint"
    " UNION SELECT first FROM @span WHERE high_parent - low_parent >= 8192"
    " AND low_parent <= $2::bigint AND high_parent >= $1::bigint"
)
CHILD_SPANS = (
    "SELECT first, last, low_parent, high_parent, EXISTS (SELECT 1 FROM @event WHERE task BETWEEN first AND last"
    f" AND status = {Status.REPLACED:d}) FROM @span"
    f" WHERE first = ANY(ARRAY({OVER_PARENTS})) AND published AND run = $3::bigint ORDER BY first"
)
CHILDREN = (
    "SELECT id FROM @task WHERE id BETWEEN $1::bigint AND $2::bigint AND parent BETWEEN $3::bigint AND $4::bigint"
    f" AND NOT EXISTS (SELECT 1 FROM @event e WHERE e.task = task.id AND status = {Status.REPLACED:d}) ORDER BY id"
)
_RANGES = "unnest($1::bigint[], $2::bigint[]) AS r(f, l)"
#: By the span that a row belongs to: a wide row may begin far before the range.
OFFERED = (
    f"{rows.SEGMENT} WHERE id = ANY(ARRAY(SELECT s.id FROM {_RANGES} JOIN @segment s ON s.first BETWEEN"
    " coalesce((SELECT max(first) FROM @span WHERE first <= r.f), r.f) AND r.l AND s.last >= r.f))"
    " AND state IN (0, 1, 2, 6) ORDER BY id"
)
PIECES = (
    f"SELECT r.f, r.l, {', '.join(f's.{name}' for name in SPAN_COLUMNS.split(', '))} FROM {_RANGES} JOIN @span s"
    " ON s.first BETWEEN (SELECT max(first) FROM @span WHERE first <= r.f) AND r.l AND s.last >= r.f"
    " ORDER BY r.f, s.first"
)
HOW_ENDED = (
    f"SELECT r.f, e.status, count(*) FROM {_RANGES} JOIN @task t ON t.id BETWEEN r.f AND r.l CROSS JOIN LATERAL"
    " (SELECT status FROM @event WHERE task = t.id ORDER BY n DESC LIMIT 1) e GROUP BY r.f, e.status"
)
WRITE_ENDS = (
    "INSERT INTO @event (task, n, seq, status)"
    " SELECT id, coalesce((SELECT max(n) FROM @event e WHERE e.task = id), 0) + 1,"
    f" $1::bigint, {Status.REPLACED:d} FROM @task WHERE id BETWEEN $2::bigint AND $3::bigint"
)
#: The slots of joins that have not fired for which tasks of a range are waited for.
AWAITED = (
    f"SELECT w.id, w.slot FROM {_RANGES} JOIN @waiter w ON w.task BETWEEN r.f AND r.l"
    " JOIN @joins j ON j.id = w.id AND NOT fired"
)
#: Marks on tasks of a range, and names that were set by them.
THEIRS = ("mark", "context")
NEW_COMMIT = "INSERT INTO @commits VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bytea)"


def columns(ranges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Ranges as two columns."""
    return [first for first, _ in ranges], [last for _, last in ranges]


def made_by(db: Transaction, run: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield what a range of tasks has made, as ranges."""
    for low, high, low_parent, high_parent, is_replaced in db.ask(CHILD_SPANS, first, last, run):
        if is_replaced and low_parent == high_parent:
            # Tasks of one parent are replaced together.
            continue
        if first <= low_parent and high_parent <= last and not is_replaced:
            yield low, high
            continue
        found = [task for (task,) in db.ask(CHILDREN, low, high, first, last)]
        yield from ((stretch[0], stretch[-1]) for stretch in stretches(found))


def rows_over(db: Transaction, ranges: Sequence[tuple[int, int]]) -> list[SegmentRow]:
    """The live rows that reach into ranges and that nobody holds, each once."""
    found = db.ask(f"{OFFERED} FOR UPDATE", *columns(ranges)) if ranges else ()
    return [segment_row(row) for row in found]


def pieces(db: Transaction, ranges: Sequence[tuple[int, int]]) -> list[SpanPiece]:
    """The parts of ranges that lie in one span each."""
    found = []
    for low, high, *row in db.ask(PIECES, *columns(ranges)) if ranges else ():
        span = span_row(tuple(row))
        found.append((span, max(low, span.first), min(high, span.last)))
    ends: dict[int, dict[Status, int]] = {first: {} for _, first, _ in found}
    for first, status, many in db.ask(HOW_ENDED, *columns([each[1:] for each in found])) if found else ():
        if status in ENDS:
            ends[first][Status(status)] = many
    return [SpanPiece(span, first, last, ends[first]) for span, first, last in found]


def replace(db: Transaction, changes: Changes) -> None:
    """Write the ends of an edition. Its keys are free, and so are the names that it set; marks on it are over."""
    for span, first, last in changes.replaced:
        keys.free(db, span, first, last)
        for table in THEIRS:
            gone = f"DELETE FROM @{table} WHERE run = $1::bigint AND task BETWEEN $2::bigint AND $3::bigint"
            db.later(gone, span.run, first, last)
    for some in _commits([(first, last) for _, first, last in changes.replaced]):
        told = sum(last - first + 1 for first, last in some)
        seq = db.next_place()
        db.later(NEW_COMMIT, seq, changes.process, 0, changes.now, told, msgspec.json.encode(some))
        for first, last in some:
            db.later(WRITE_ENDS, seq, first, last)


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
