"""Editions in the SQLite store: what makers have made, found and replaced by ranges of ids.

An edition may be a million tasks. It is found span by span: a span whose parents all belong to it is taken whole, and
only of others the tasks are looked at. One statement for each range then writes the ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from ramify.model.arrivals import Arrival, Arrivals
from ramify.model.event import Status
from ramify.model.reopening import Edition, merged
from ramify.model.run import StoredRun
from ramify.model.segment import MASK_WIDTH, stretches, tasks_in
from ramify.store.sqlite import counters, joins, keys, rows
from ramify.store.sqlite.counters import Counted
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan

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
HELD = "INDEXED BY held WHERE state = 3 AND run = ?"
SPANS_OVER = (
    f"SELECT {rows.SPAN_COLUMNS} FROM span WHERE first BETWEEN (SELECT max(first) FROM span WHERE first <= ?1) AND ?2"
    " AND last >= ?1 ORDER BY first"
)
OFFERED = "WHERE first BETWEEN ? AND ? AND last >= ? AND state IN (0, 1, 2)"
ENDS = (
    "SELECT status, count(*) FROM task LEFT JOIN event ON event.task = task.id"
    " AND n = (SELECT max(n) FROM event WHERE event.task = task.id) WHERE task.id BETWEEN ? AND ? GROUP BY status"
)
WRITE_ENDS = (
    "INSERT INTO event (task, n, seq, status) SELECT id, ifnull((SELECT max(n) FROM event WHERE task = id), 0) + 1, ?1,"
    f" {Status.REPLACED:d} FROM task WHERE id BETWEEN ?2 AND ?3"
)

#: The slots of joins that have not fired for which tasks of a range are waited for.
AWAITED = (
    "SELECT waiter.id, slot FROM waiter CROSS JOIN joins ON joins.id = waiter.id"
    " WHERE waiter.task BETWEEN ? AND ? AND NOT fired"
)


def find(db: Db, run: int, makers: Collection[int]) -> Edition:
    """Return what these tasks of a run have made, and what that has made, as far as it was not replaced."""
    made: list[tuple[int, int]] = []
    ahead = merged((task, task) for task in makers)
    while ahead:
        ahead = merged(piece for first, last in ahead for piece in _made_by(db, run, first, last))
        made += ahead
    edition = Edition(merged(made))
    held = (
        task
        for row in rows.segments(db, HELD, (run,))
        for task in tasks_in(row.first, row.last, row.left)
        if task in edition
    )
    return Edition(edition.ranges, min(held, default=None))


def _made_by(db: Db, run: int, first: int, last: int) -> Iterator[tuple[int, int]]:
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


def replace(db: Db, run: StoredRun, edition: Edition, process: int, now: int) -> int:
    """End all of an edition as replaced; how many tasks that are."""
    counts: Counter[Counted] = Counter()
    arrivals: list[Arrival] = []
    for first, last in edition.ranges:
        for row in db.execute(SPANS_OVER, (first, last)).fetchall():
            span = rows.span_row(row)
            low, high = max(first, span.first), min(last, span.last)
            _take_out(db, span, low, high, counts)
            if span.join is not None and span.join not in edition:
                arrivals += ((span.join, task + span.shift, Status.REPLACED) for task in range(low, high + 1))
        awaited = db.execute(AWAITED, (first, last)).fetchall()
        arrivals += ((join, slot, Status.REPLACED) for join, slot in awaited if join not in edition)
        db.execute("DELETE FROM mark WHERE run = ? AND task BETWEEN ? AND ?", (run.id, first, last))
    counters.count_all(db, counts, process)
    set_by = db.execute("SELECT task, name FROM context WHERE run = ?", (run.id,)).fetchall() if edition.ranges else ()
    gone = [(run.id, name) for task, name in set_by if task in edition]
    db.executemany("DELETE FROM context WHERE run = ? AND name = ?", gone)
    _write(db, edition, process, now)
    # One that had ended has arrived, and stays as it did.
    joins.arrive(db, [Arrivals(run.id, run.round + 1, arrivals)], {}, now)
    return sum(last - first + 1 for first, last in edition.ranges)


def _take_out(db: Db, span: SqliteSpan, first: int, last: int, counts: Counter[Counted]) -> None:
    """Take neighbouring tasks of a span out of rows, counters and keys."""
    unfinished = sum(_cut(db, row, first, last) for row in rows.segments(db, OFFERED, (span.first, last, first)))
    swept = -unfinished
    for status, many in db.execute(ENDS, (first, last)).fetchall():
        if status is not None and Status(status).is_end:
            counts[span.run, span.kind, span.queue, Status(status)] -= many
        else:
            swept += many
    counts[span.run, span.kind, span.queue, Status.CANCELLED] -= swept
    counts[span.run, span.kind, span.queue, Status.REPLACED] += last - first + 1
    keys.free(db, span, first, last)


def _cut(db: Db, row: SqliteSegment, first: int, last: int) -> int:
    """Take the tasks of a range out of a row; how many were set."""
    if row.last - row.first < MASK_WIDTH:
        tasks = [task for task in tasks_in(row.first, row.last, row.left) if first <= task <= last]
        joins.take_out(db, row, tasks)
        return len(tasks)
    if row.first < first:
        rows.split(db, row, first).insert(db)
    if row.last > last:
        return rows.split(db, row, last + 1).count
    rows.drop(db, row)
    return row.count


def _write(db: Db, edition: Edition, process: int, now: int) -> None:
    """Write the ends. Whoever follows the log reads whole commits, so none is very large."""
    log: CommitLog | None = None
    room = 0
    for first, last in edition.ranges:
        while first <= last:
            if log is None or not room:
                if log is not None:
                    log.close()
                log, room = CommitLog(db, process, 0, now), MASK_WIDTH
            end = min(last, first + room - 1)
            db.execute(WRITE_ENDS, (log.seq, first, end))
            log.touched(first, end, end - first + 1)
            room -= end - first + 1
            first = end + 1
    if log is not None:
        log.close()
