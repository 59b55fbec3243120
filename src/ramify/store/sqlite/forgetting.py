"""Forgetting in the SQLite store: whole runs page by page, and single tasks of runs that go on. Rows go by ranges.

What may go is said by `ramify.model.forgetting`; here it is removed. The space is used again by what comes next, and
vacuum gives it back to the file system.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import json

from ramify.model import forgetting
from ramify.model.event import Status, Tally
from ramify.model.forgetting import NEVER, Forgot, Piece, Reader, Removal
from ramify.model.policy import SECOND
from ramify.model.run import StoredRun
from ramify.model.segment import stretches
from ramify.store.contract import SESSION_SECONDS
from ramify.store.sqlite import context, keys, log, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import SqliteSpan

IS_KEPT = "(SELECT state FROM run WHERE id = j.run) <> 'forgotten'"
#: The first task of a run that a join of another run has, as a member by its place or by a waiter.
READERS = (
    f"SELECT s.first, j.id, j.run FROM span s CROSS JOIN joins j ON j.id = s.joined"
    f" WHERE s.run = ?1 AND s.published AND j.run <> ?1 AND {IS_KEPT}",
    f"SELECT w.task, j.id, j.run FROM span s CROSS JOIN waiter w ON w.task BETWEEN s.first AND s.last"
    f" CROSS JOIN joins j ON j.id = w.id WHERE s.run = ?1 AND s.published AND j.run <> ?1 AND {IS_KEPT}",
)
SPANS = f"SELECT {rows.SPAN_COLUMNS} FROM span WHERE run = ? ORDER BY first"
#: What of a run may be left, in the order in which it goes.
LEFT = (
    "note WHERE run = ?",
    "span WHERE run = ?",
    "joins WHERE run = ?",
    "context WHERE run = ?",
    "sweep WHERE run = ?",
)
EMPTIED = (
    "DELETE FROM commits WHERE seq = ? AND events = 0 AND seq < (SELECT max(seq) FROM commits)"
    " AND NOT EXISTS (SELECT 1 FROM sweep WHERE sweep.seq = commits.seq)"
)
ENDED = (
    "SELECT task, status, c.at FROM event e CROSS JOIN commits c ON c.seq = e.seq WHERE task BETWEEN ? AND ?"
    f" AND e.n = (SELECT max(n) FROM event WHERE task = e.task) AND status IN ({log.ENDS}) AND c.at < ?"
)
#: The children of a range of tasks: those of the spans that have parents on both sides of it.
CHILDREN = (
    "SELECT parent, id FROM span s CROSS JOIN task t ON t.id BETWEEN s.first AND s.last WHERE s.first IN ("
    "SELECT first FROM span INDEXED BY span_parents WHERE low_parent BETWEEN ?1 - 8191 AND ?2 AND high_parent >= ?1"
    " UNION SELECT first FROM span INDEXED BY span_far_parents"
    " WHERE high_parent - low_parent >= 8192 AND low_parent <= ?2 AND high_parent >= ?1"
    ") AND parent BETWEEN ?1 AND ?2"
)
#: The members and the joins with a task of theirs in a range: whose tasks lie in it, and who in it waits for others.
MEMBERS = (
    "SELECT task, id FROM waiter WHERE task BETWEEN ?1 AND ?2",
    "SELECT task, id FROM waiter INDEXED BY waiter_join WHERE id BETWEEN ?1 AND ?2",
)
#: The spans whose tasks are members by their place, of joins with a task in a range.
GROUPS = "SELECT first, last, joined FROM span WHERE joined BETWEEN ? AND ? AND published"
OUTERS = "SELECT DISTINCT outer_join FROM joins WHERE run = ? AND outer_join IS NOT NULL"
OWN_JOINS = "SELECT id FROM carray(?) AS w CROSS JOIN joins ON id = w.value ORDER BY id"
UNENDED = (
    f"SELECT status, count(*) FROM event WHERE task BETWEEN ? AND ? AND status NOT IN ({log.ENDS}) GROUP BY status"
)
READING = "SELECT id FROM carray(?) AS w CROSS JOIN joins ON id = w.value WHERE run = ? AND task IS NOT NULL"


def forget(db: Db, run: StoredRun, removal: Removal, now: int) -> Forgot:
    """Remove ended work; see the contract."""
    if removal.tasks is not None:
        forgetting.check_remembered(run)
        return _forget_tasks(db, run, removal, removal.tasks, now)
    moved = forgetting.begin(run, removal.said, lambda: _reader(db, run.id), now)
    if moved is not None:
        told = json.encode(moved.decision).decode()
        marked = (moved.state.value, told, forgetting.ended_as(run), run.id)
        db.execute("UPDATE run SET state = ?, decision = ?, reason = ? WHERE id = ?", marked)
        db.execute("DELETE FROM segment WHERE run = ?", (run.id,))
    left = removal.limit - _remove_lines(db, run.id, removal.limit)
    tasks = _remove_tasks(db, run.id, left)
    left -= tasks
    left -= _remove_joins_of(db, run.id, left)
    left -= context.remove(db, run.id, left)
    _remove_sweeps(db, run.id, left)
    is_left = any(db.execute(f"SELECT 1 FROM {some} LIMIT 1", (run.id,)).fetchone() for some in LEFT)
    # A task has one key at most, so as many go with each page. Not those of its tasks: nobody asks for any of them, and
    # neighbours in their table lie on the same pages of the file.
    keys.forget_run(db, run.id, tasks if is_left else -1)
    return Forgot(tasks, is_left)


def _reader(db: Db, run: int) -> Reader | None:
    """The first task of another run that has results of this one."""
    found = [db.execute(f"{some} ORDER BY s.first LIMIT 1", (run,)).fetchone() for some in READERS]
    return min((Reader(*row) for row in found if row is not None), default=None)


def _remove_lines(db: Db, run: int, limit: int) -> int:
    chosen = "SELECT seq FROM note INDEXED BY note_run WHERE run = ? ORDER BY seq LIMIT ?"
    db.execute(f"DELETE FROM note WHERE seq IN ({chosen})", (run, limit))
    return db.changes()


def _remove_tasks(db: Db, run: int, left: int) -> int:
    """Remove up to so many tasks of a run, neighbouring spans together; of a span that is too long, the last ones."""
    removed = 0
    near: list[SqliteSpan] = []
    for row in db.execute(SPANS, (run,)).fetchall() if left else ():
        span = rows.span_row(row)
        size = min(span.last - span.first + 1, left - removed)
        removed += size
        if size <= span.last - span.first:
            if size:
                _remove(db, [span], span.last - size + 1, span.last)
                db.execute("UPDATE span SET last = ? WHERE first = ?", (span.last - size, span.first))
            break
        if near and near[-1].last + 1 != span.first:
            _remove_whole(db, near)
            near = []
        near.append(span)
    _remove_whole(db, near)
    return removed


def _remove_whole(db: Db, spans: Sequence[SqliteSpan]) -> None:
    """Remove spans that lie side by side, with their tasks."""
    if spans:
        _remove(db, spans, spans[0].first, spans[-1].last)
        db.execute("DELETE FROM span WHERE first BETWEEN ? AND ?", (spans[0].first, spans[-1].first))


def _remove(db: Db, spans: Iterable[SqliteSpan], first: int, last: int, *, by_themselves: bool = False) -> None:
    """Remove neighbouring tasks, which are those of these spans, and all that is theirs but the spans.

    Keys that count only in their run go too if the tasks go `by_themselves`; else they go with the run.
    """
    for span in spans:
        keys.forget(db, span, max(first, span.first), min(last, span.last), also_in_run=by_themselves)
    written = "SELECT count(*), seq FROM event WHERE task BETWEEN ? AND ? GROUP BY seq"
    gone = db.execute(written, (first, last)).fetchall()
    db.execute("DELETE FROM event WHERE task BETWEEN ? AND ?", (first, last))
    db.execute("DELETE FROM task WHERE id BETWEEN ? AND ?", (first, last))
    db.execute("DELETE FROM waiter WHERE task BETWEEN ? AND ?", (first, last))
    db.executemany("UPDATE commits SET events = events - ? WHERE seq = ?", gone)
    db.executemany(EMPTIED, ((seq,) for _, seq in gone))


def _remove_joins_of(db: Db, run: int, limit: int) -> int:
    gone = [join for (join,) in db.execute("SELECT id FROM joins WHERE run = ? ORDER BY id LIMIT ?", (run, limit))]
    _remove_joins(db, gone)
    return len(gone)


def _remove_joins(db: Db, gone: Sequence[int]) -> None:
    for stretch in stretches(gone):
        bounds = (stretch[0], stretch[-1])
        db.execute("DELETE FROM waiter WHERE id BETWEEN ? AND ?", bounds)
        db.execute("DELETE FROM join_part WHERE id BETWEEN ? AND ?", bounds)
        db.execute("DELETE FROM joins WHERE id BETWEEN ? AND ?", bounds)


def _remove_sweeps(db: Db, run: int, limit: int) -> None:
    found = db.execute("SELECT rowid, seq FROM sweep WHERE run = ? ORDER BY rowid LIMIT ?", (run, limit)).fetchall()
    db.executemany("DELETE FROM sweep WHERE rowid = ?", ((row,) for row, _ in found))
    db.executemany(EMPTIED, ((seq,) for _, seq in found))


# single tasks


def _forget_tasks(db: Db, run: StoredRun, removal: Removal, tasks: range, now: int) -> Forgot:
    within = "SELECT first, last FROM span WHERE run = ? AND published AND last >= ? AND first < ? ORDER BY first"
    found, more = forgetting.pieces(
        db.execute(within, (run.id, tasks.start, tasks.stop)).fetchall(), tasks, removal.limit
    )
    if not found:
        return Forgot(after=tasks.stop - 1)
    latest = now - SESSION_SECONDS * SECOND
    spans = rows.spans_at(db, (piece.span for piece in found))
    ended, named = dict[int, Status](), list[int]()
    for piece in found:
        each = db.execute(ENDED, (piece.first, piece.last, latest)).fetchall()
        kind = spans[piece.span].kind
        over = forgetting.settled(removal, kind, ((task, Status(how), at) for task, how, at in each), latest)
        named += keys.of_tasks(db, spans[piece.span], list(over), now)
        ended |= over
    low, high = found[0].first, found[-1].last
    live = "SELECT first, last FROM segment WHERE run = ? AND state <= 3 AND first <= ? AND last >= ?"
    chosen = forgetting.chosen(
        ended,
        endless=run.endless,
        named=named,
        rows=db.execute(live, (run.id, high, low)).fetchall(),
        not_before=_not_before(db, run.id, found, spans),
    )
    for piece in found:
        going = chosen[bisect_left(chosen, piece.first) : bisect_right(chosen, piece.last)]
        # From the end on: what lies above a gap is a span of its own, and is done with.
        for stretch in reversed(stretches(going)):
            _take_out(db, spans[piece.span], stretch, ended)
    _remove_joins(db, [join for (join,) in db.execute(OWN_JOINS, (rows.ids(chosen),))] if chosen else [])
    return Forgot(len(chosen), more, high)


def _not_before(db: Db, run: int, found: Sequence[Piece], spans: Mapping[int, SqliteSpan]) -> Iterator[tuple[int, int]]:
    """Which tasks must not go before which others: parents and children, continuations and members."""
    low, high = found[0].first, found[-1].last
    yield from db.execute(CHILDREN, (low, high)).fetchall()
    pairs = [pair for some in MEMBERS for pair in db.execute(some, (low, high)).fetchall()]
    for piece in found:
        join = spans[piece.span].join
        pairs += [] if join is None else [(task, join) for task in range(piece.first, piece.last + 1)]
    for first, last, join in db.execute(GROUPS, (low, high)).fetchall():
        # One that reaches beyond what is looked at need not be told task by task: some of it stays.
        pairs += [(task, join) for task in range(first, last + 1)] if low <= first and last <= high else [(NEVER, join)]
    joins = rows.ids({join for _, join in pairs}) if pairs else None
    reading = {join for (join,) in db.execute(READING, (joins, run))} if pairs else set()
    for task, join in pairs:
        # Joins without a task of their own, and those they pass their fullness on to, go with the run.
        reader = join if join in reading else NEVER
        yield task, reader
        yield reader, task
    yield from ((outer, NEVER) for (outer,) in db.execute(OUTERS, (run,)).fetchall())


def _take_out(db: Db, span: SqliteSpan, tasks: Sequence[int], ended: Mapping[int, Status]) -> None:
    """Remove neighbouring tasks from a span that stays; what lies above them becomes a span of its own."""
    first, last = tasks[0], tasks[-1]
    counts: Counter[Status | Tally] = Counter(ended[task] for task in tasks)
    counts[Tally.ADDED] = len(tasks)
    for status, times in db.execute(UNENDED, (first, last)).fetchall():
        counts[Status(status)] = times
    for what, times in counts.items():
        rows.count(db, span.run, span.kind, what, 0, -times)
    _remove(db, [span], first, last, by_themselves=True)
    db.execute("DELETE FROM note WHERE task BETWEEN ? AND ? AND task IS NOT NULL", (first, last))
    if last < span.last:
        replace(span, first=last + 1).insert(db)
        above = "UPDATE segment SET span = ? WHERE run = ? AND span = ? AND first > ?"
        db.execute(above, (last + 1, span.run, span.first, last))
    if first > span.first:
        db.execute("UPDATE span SET last = ? WHERE first = ?", (first - 1, span.first))
    else:
        db.execute("DELETE FROM span WHERE first = ?", (span.first,))
    span.last = first - 1
