"""Forgetting in the SQLite store: whole runs page by page, and single tasks of runs that go on. Rows go by ranges.

What may go is said by `ramify.model.forgetting`; here it is removed. The space is used again by what comes next, and
vacuum gives it back to the file system.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import json

from ramify.model import forgetting
from ramify.model.decoder import decoder
from ramify.model.event import ENDS, Status, Tally
from ramify.model.forgetting import NEVER, Forgot, Piece, Reader, Removal
from ramify.model.join import Rule
from ramify.model.key import Hold
from ramify.model.policy import SECOND
from ramify.model.run import StoredRun
from ramify.model.segment import stretches
from ramify.store import tuples
from ramify.store.changes import Changes, Counted, RunDecided
from ramify.store.contract import SESSION_SECONDS
from ramify.store.rows import SpanRow
from ramify.store.sqlite import context, counters, keys, rows
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.writing import write

#: The ends of tasks, by how they are stored.
ENDINGS = {int(status): status for status in ENDS}
IS_KEPT = f"j.rule <> {Rule.BEHIND:d} AND (SELECT state FROM run WHERE id = j.run) <> 'forgotten'"
#: The first task of a run whose result a join of another run has, as a member by its place or by a waiter.
READERS = (
    f"SELECT s.first, j.id, j.run FROM span s CROSS JOIN joins j ON j.id = s.joined"
    f" WHERE s.run = ?1 AND s.published AND j.run <> ?1 AND {IS_KEPT}",
    f"SELECT w.task, j.id, j.run FROM span s CROSS JOIN waiter w ON w.task BETWEEN s.first AND s.last"
    f" CROSS JOIN joins j ON j.id = w.id WHERE s.run = ?1 AND s.published AND j.run <> ?1 AND {IS_KEPT}",
)
SPANS = f"SELECT {tuples.SPAN_COLUMNS} FROM span WHERE run = ? ORDER BY first"
#: What of a run may be left, in the order in which it goes.
LEFT = (
    "note WHERE run = ?",
    "span WHERE run = ?",
    "joins WHERE run = ?",
    "context WHERE run = ?",
    "sweep WHERE run = ?",
)
#: Those commits of which nothing is left, but for the newest. It is one statement, like all that is done for each task
#: of a page: between two steps of SQLite, another thread of a busy program may take the interpreter for milliseconds.
EMPTIED = (
    "DELETE FROM commits WHERE seq IN carray(?) AND events = 0 AND seq < (SELECT max(seq) FROM commits)"
    " AND NOT EXISTS (SELECT 1 FROM sweep WHERE sweep.seq = commits.seq)"
    " AND NOT EXISTS (SELECT 1 FROM run WHERE run.since = commits.seq - 1)"
    " AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.seq = commits.seq)"
)
UNCOUNTED = (
    "UPDATE commits SET events = events - (gone.value ->> 1) FROM json_each(?) AS gone WHERE seq = (gone.value ->> 0)"
)
#: The published spans of a run with tasks from an id on, as one value. The one that holds it may have begun before.
SPANS_FROM = (
    "SELECT json_group_array(json_array(run, first, last, kind, queue, hold, keyed, joined)) FROM ("
    "SELECT * FROM span WHERE run = ?1 AND published AND first < ?3 AND last >= ?2"
    " AND first >= ifnull((SELECT max(first) FROM span WHERE run = ?1 AND first <= ?2), ?2) ORDER BY first LIMIT ?4)"
)
#: What lies above a gap in a span becomes a span of its own.
SPLIT = f"INSERT INTO span SELECT ?2, {tuples.SPAN_COLUMNS.removeprefix('first, ')} FROM span WHERE first = ?1"
MOVE_ROWS = "UPDATE segment SET span = ? WHERE run = ? AND span = ? AND first > ?"
#: What is in the log about the tasks of some spans that lie in a range, as one value.
WRITTEN = (
    "SELECT json_group_array(json_array(task, e.n, status, e.seq, at)) FROM carray(?) AS some"
    " CROSS JOIN span s ON s.first = some.value CROSS JOIN event e ON task BETWEEN max(s.first, ?) AND min(s.last, ?)"
    " CROSS JOIN commits c ON c.seq = e.seq"
)
#: What goes with tasks, and with those that go by themselves.
THEIRS = ("event WHERE task", "task WHERE id")
THEIR_WAITING = ("waiter WHERE task", "behind WHERE task")
THEIR_LINES = "note INDEXED BY note_task WHERE task IS NOT NULL AND task"
#: What neighbouring tasks have to do with others, as one value: see `Ties`. A live row lies in one span, so none of
#: theirs begins before the first of these. The children are in the spans that have parents on both sides of the range.
TIES = f"""
SELECT json_array(
 json((SELECT json_group_array(json_array(first, last)) FROM segment INDEXED BY segment_first
   WHERE run = ?3 AND {rows.IS_LIVE} AND first BETWEEN ?4 AND ?2 AND last >= ?1)),
 json((SELECT json_group_array(json_array(parent, id)) FROM span s CROSS JOIN task t ON t.id BETWEEN s.first AND s.last
   WHERE s.first IN (
    SELECT first FROM span INDEXED BY span_parents WHERE low_parent BETWEEN ?1 - 8191 AND ?2 AND high_parent >= ?1
    UNION SELECT first FROM span INDEXED BY span_far_parents
     WHERE high_parent - low_parent >= 8192 AND low_parent <= ?2 AND high_parent >= ?1
   ) AND parent BETWEEN ?1 AND ?2)),
 json((SELECT json_group_array(json_array(task, id)) FROM waiter WHERE task BETWEEN ?1 AND ?2)),
 json((SELECT json_group_array(json_array(task, id)) FROM waiter INDEXED BY waiter_join WHERE id BETWEEN ?1 AND ?2)),
 json((SELECT json_group_array(json_array(first, last, joined)) FROM span
   WHERE joined BETWEEN ?1 AND ?2 AND published)),
 json((SELECT json_group_array(id) FROM joins WHERE id BETWEEN ?1 AND ?2)),
 EXISTS (SELECT 1 FROM note INDEXED BY note_task WHERE task BETWEEN ?1 AND ?2)
)
"""
JOINS_AT = "SELECT id, run, rule FROM carray(?) AS w CROSS JOIN joins ON id = w.value"


def forget(db: Db, run: StoredRun, removal: Removal, now: int) -> Forgot:
    """Remove ended work; see the contract."""
    if removal.tasks is not None:
        forgetting.check_remembered(run)
        return _forget_tasks(db, run, removal, removal.tasks, now)
    moved = forgetting.begin(run, removal.said, lambda: _reader(db, run.id), now)
    if moved is not None:
        changes = Changes(0, 0, now)
        changes.decide(RunDecided(run.id, moved.state, moved.decision))
        write(db, changes, {})
        db.execute("UPDATE run SET reason = ? WHERE id = ?", (forgetting.ended_as(run), run.id))
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
    near: list[SpanRow] = []
    for row in db.execute(SPANS, (run,)).fetchall() if left else ():
        span = tuples.span_row(row)
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


def _remove_whole(db: Db, spans: Sequence[SpanRow]) -> None:
    """Remove spans that lie side by side, with their tasks."""
    if spans:
        _remove(db, spans, spans[0].first, spans[-1].last)
        db.execute("DELETE FROM span WHERE first BETWEEN ? AND ?", (spans[0].first, spans[-1].first))


def _remove(db: Db, spans: Iterable[SpanRow], first: int, last: int) -> None:
    """Remove neighbouring tasks, which are those of these spans, and all that is theirs but the spans.

    Keys that count only in their run stay, and go with it.
    """
    for span in spans:
        keys.forget(db, span, max(first, span.first), min(last, span.last), also_in_run=False)
    written = "SELECT seq, count(*) FROM event WHERE task BETWEEN ? AND ? GROUP BY seq"
    gone = dict(db.execute(written, (first, last)).fetchall())
    for some in (*THEIRS, *THEIR_WAITING):
        db.execute(f"DELETE FROM {some} BETWEEN ? AND ?", (first, last))
    _uncount_commits(db, gone)


def _uncount_commits(db: Db, gone: Mapping[int, int]) -> None:
    """Take so many events out of each of these commits, which go when nothing is left of them."""
    if gone:
        db.execute(UNCOUNTED, (json.encode(list(gone.items())).decode(),))
        db.execute(EMPTIED, (rows.ids(gone),))


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
    if found:
        db.execute(EMPTIED, (rows.ids(seq for _, seq in found),))


# single tasks


class Looked(msgspec.Struct, frozen=True, array_like=True):
    """The properties of a span that are needed to look at its tasks."""

    run: int
    first: int
    last: int
    kind: str
    queue: str
    hold: Hold
    keyed: int
    join: int | None


class Alike(NamedTuple):
    """Tasks of one kind and queue, with keys held alike: one of their spans, what the log says, and how some ended."""

    span: Looked
    written: list[tuple[int, int, int, int, int]]
    over: Mapping[int, Status]


class Ties(msgspec.Struct, frozen=True, array_like=True):
    """Ties of neighbouring tasks to others, read together, so that what is not there costs no statement of its own.

    The bounds of `live` rows; `children` behind their parents; tasks that wait for one of these or are waited for, and
    the `joins` in question; `groups` of members by their place, with their join; and if something was logged.
    """

    live: list[tuple[int, int]]
    children: list[tuple[int, int]]
    waiting: list[tuple[int, int]]
    awaited: list[tuple[int, int]]
    groups: list[tuple[int, int, int]]
    joins: list[int]
    has_lines: int


_read_spans, _read_log = decoder(list[Looked]), decoder(list[tuple[int, int, int, int, int]])
_read_ties = decoder(Ties)


def _forget_tasks(db: Db, run: StoredRun, removal: Removal, tasks: range, now: int) -> Forgot:
    # One more than can go tells whether there are more.
    of_run = (run.id, tasks.start, tasks.stop, removal.limit + 1)
    spans = {span.first: span for span in _read_spans.decode(db.execute(SPANS_FROM, of_run).fetchone()[0])}
    found, more = forgetting.pieces(((span.first, span.last) for span in spans.values()), tasks, removal.limit)
    if not found:
        return Forgot(after=tasks.stop - 1)
    low, high = found[0].first, found[-1].last
    groups = list(_alike(db, removal, spans.values(), (low, high), now))
    ended = {task: status for group in groups for task, status in group.over.items()}
    if not ended:
        return Forgot(0, more, high)
    ties = _read_ties.decode(db.execute(TIES, (low, high, run.id, found[0].span)).fetchone()[0])
    chosen = forgetting.chosen(
        ended,
        endless=run.endless,
        named=[task for group in groups for task in keys.of_tasks(db, group.span, list(group.over), now)],
        rows=ties.live,
        not_before=_not_before(db, run.id, found, spans, ties),
    )
    if chosen and not removal.dry:
        _take_out(db, groups, chosen, ties)
        _cut_out(db, found, spans, chosen)
    return Forgot(len(chosen), more, high)


def _alike(db: Db, removal: Removal, spans: Iterable[Looked], bounds: tuple[int, int], now: int) -> Iterator[Alike]:
    """Yield what is looked at, by what it has in common, however many spans and gaps there are."""
    latest = now - SESSION_SECONDS * SECOND
    alike: dict[tuple[object, ...], list[Looked]] = {}
    for span in spans:
        alike.setdefault((span.kind, span.queue, span.hold, span.keyed), []).append(span)
    for some in alike.values():
        (told,) = db.execute(WRITTEN, (rows.ids(span.first for span in some), *bounds)).fetchone()
        written = sorted(_read_log.decode(told))
        newest = {task: (status, at) for task, _, status, _, at in written}
        # What a sweep ended has no end of its own, and stays with its run.
        ends = ((task, ENDINGS[status], at) for task, (status, at) in newest.items() if status in ENDINGS)
        yield Alike(some[0], written, forgetting.settled(removal, some[0].kind, ends, latest))


def _not_before(
    db: Db, run: int, found: Sequence[Piece], spans: Mapping[int, Looked], ties: Ties
) -> Iterator[tuple[int, int]]:
    """Which tasks must not go before which others: parents and children, continuations and members."""
    low, high = found[0].first, found[-1].last
    yield from ties.children
    pairs = [*ties.waiting, *ties.awaited]
    for piece in found:
        join = spans[piece.span].join
        pairs += [] if join is None else [(task, join) for task in range(piece.first, piece.last + 1)]
    for first, last, join in ties.groups:
        # One that reaches beyond what is looked at need not be told task by task: some of it stays.
        pairs += [(task, join) for task in range(first, last + 1)] if low <= first and last <= high else [(NEVER, join)]
    joins = db.execute(JOINS_AT, (rows.ids({join for _, join in pairs}),)) if pairs else ()
    yield from forgetting.tied(run, pairs, {join: (its, rule) for join, its, rule in joins})


def _take_out(db: Db, groups: Iterable[Alike], chosen: Sequence[int], ties: Ties) -> None:
    """Remove tasks from a run that stays, with all that is theirs but the spans."""
    counts: Counter[Counted] = Counter()
    seqs: Counter[int] = Counter()
    gone = set(chosen)
    for span, written, over in groups:
        going = [task for task in over if task in gone]
        theirs = [(status, seq) for task, _, status, seq, _ in written if task in gone]
        seqs.update(seq for _, seq in theirs)
        whats = [*map(over.__getitem__, going), *(Status(what) for what, _ in theirs if what not in ENDINGS)]
        counts[span.run, span.kind, span.queue, Tally.ADDED] += len(going)
        for what, times in Counter(whats).items():
            counts[span.run, span.kind, span.queue, what] += times
        for stretch in stretches(going) if span.keyed else ():
            keys.forget(db, span, stretch[0], stretch[-1], also_in_run=True)
    counters.count_all(db, {counter: -times for counter, times in counts.items()}, 0)
    waiting, lines = THEIR_WAITING if ties.waiting else (), (THEIR_LINES,) if ties.has_lines else ()
    for some in (*THEIRS, *waiting, *lines):
        db.execute(f"DELETE FROM {some} IN carray(?)", (rows.ids(chosen),))
    _uncount_commits(db, seqs)
    _remove_joins(db, sorted(set(chosen).intersection(ties.joins)))


def _cut_out(db: Db, found: Sequence[Piece], spans: Mapping[int, Looked], chosen: Sequence[int]) -> None:
    """Remove spans whose tasks are gone, and cut others around what is."""
    whole = list[int]()
    for piece in found:
        span, going = spans[piece.span], _within(chosen, piece.first, piece.last)
        if len(going) == span.last - span.first + 1:
            whole.append(span.first)
            continue
        end = span.last
        # From the end on: what lies above a gap is a span of its own, and is done with.
        for stretch in reversed(stretches(going)):
            end = _cut(db, span, end, stretch[0], stretch[-1])
    if whole:
        db.execute("DELETE FROM span WHERE first IN carray(?)", (rows.ids(whole),))


def _within(chosen: Sequence[int], first: int, last: int) -> Sequence[int]:
    return chosen[bisect_left(chosen, first) : bisect_right(chosen, last)]


def _cut(db: Db, span: Looked, end: int, first: int, last: int) -> int:
    """Take neighbouring tasks out of a span that stays and ends there by now; where it ends after that."""
    if first == span.first:
        db.execute("UPDATE span SET first = ? WHERE first = ?", (last + 1, first))
    else:
        if last < end:
            db.execute(SPLIT, (span.first, last + 1))
        db.execute("UPDATE span SET last = ? WHERE first = ?", (first - 1, span.first))
    if last < end:
        db.execute(MOVE_ROWS, (last + 1, span.run, span.first, last))
    return first - 1
