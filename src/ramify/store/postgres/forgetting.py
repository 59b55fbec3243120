"""Forgetting in the PostgreSQL store: whole runs page by page, and single tasks of runs that go on.

Whatever may go is said by `ramify.model.forgetting`; here it is removed, by ranges and by columns of ids. The run is
locked meanwhile, so nothing of it is added, claimed anew into other rows or ended; the server uses the space again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ramify.model import forgetting
from ramify.model.event import ENDS, Status, Tally
from ramify.model.forgetting import NEVER, Forgot, Piece, Reader, Removal
from ramify.model.join import Rule
from ramify.model.key import Hold, digests
from ramify.model.policy import SECOND
from ramify.model.run import StoredRun
from ramify.model.segment import stretches
from ramify.store.changes import Changes, Counted, RunDecided
from ramify.store.contract import SESSION_SECONDS
from ramify.store.postgres import counters, editions, keys, rows
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Rows
from ramify.store.postgres.writing import INSERT_SPAN, Known, columns, write
from ramify.store.rows import SpanRow
from ramify.store.tuples import span_row, span_values, unknown

_IS_KEPT = (
    f"j.run <> $1::bigint AND j.rule <> {Rule.BEHIND:d} AND (SELECT state FROM @run WHERE id = j.run) <> 'forgotten'"
)
#: The first task of a run whose result a join of another run has, as a member by its place or by a waiter.
READERS = (
    "SELECT s.first, j.id, j.run FROM @span s JOIN @joins j ON j.id = s.joined"
    f" WHERE s.run = $1::bigint AND s.published AND {_IS_KEPT} ORDER BY 1 LIMIT 1",
    f"SELECT w.task, j.id, j.run FROM @span s JOIN @waiter w ON w.task BETWEEN s.first AND s.last"
    f" JOIN @joins j ON j.id = w.id WHERE s.run = $1::bigint AND s.published AND {_IS_KEPT} ORDER BY 1 LIMIT 1",
)
SPANS = f"{rows.SPAN} WHERE run = $1::bigint ORDER BY first LIMIT $2::bigint"
#: Of a run, in the order in which it goes.
LEFT = ("note", "span", "joins", "context", "sweep")
IS_LEFT = "SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM @{table} WHERE run = $1::bigint)" for table in LEFT)
_OF_RUN = "WHERE run = $1::bigint ORDER BY {by} LIMIT $2::bigint"
REMOVE_LINES = f"DELETE FROM @note WHERE seq = ANY(ARRAY(SELECT seq FROM @note {_OF_RUN.format(by='seq')})) RETURNING 1"
REMOVE_NAMES = (
    f"DELETE FROM @context WHERE run = $1::bigint AND name = ANY(ARRAY(SELECT name FROM @context"
    f" {_OF_RUN.format(by='name')})) RETURNING 1"
)
REMOVE_SWEEPS = (
    f"DELETE FROM @sweep WHERE id = ANY(ARRAY(SELECT id FROM @sweep {_OF_RUN.format(by='id')})) RETURNING seq"
)
JOINS_OF = f"SELECT id FROM @joins {_OF_RUN.format(by='id')}"
#: Those commits of which nothing is left, but for the newest.
EMPTIED = (
    "DELETE FROM @commits c WHERE seq = ANY($1::bigint[]) AND events = 0 AND seq < (SELECT max(seq) FROM @commits)"
    " AND NOT EXISTS (SELECT 1 FROM @sweep s WHERE s.seq = c.seq)"
    " AND NOT EXISTS (SELECT 1 FROM @run r WHERE r.since = c.seq - 1)"
    " AND NOT EXISTS (SELECT 1 FROM @decision d WHERE d.seq = c.seq)"
)
UNCOUNTED = (
    "UPDATE @commits SET events = events - x.n FROM unnest($1::bigint[], $2::bigint[]) AS x(s, n) WHERE seq = x.s"
)
REMOVE_EVENTS = (
    "WITH gone AS (DELETE FROM @event WHERE task BETWEEN $1::bigint AND $2::bigint RETURNING seq)"
    " SELECT seq, count(*) FROM gone GROUP BY seq ORDER BY seq"
)
REMOVE_TASKS = "DELETE FROM @task WHERE id BETWEEN $1::bigint AND $2::bigint"
REMOVE_WAITERS = "DELETE FROM @waiter WHERE task BETWEEN $1::bigint AND $2::bigint"
REMOVE_BEHIND = "DELETE FROM @behind WHERE task BETWEEN $1::bigint AND $2::bigint"
#: The published spans of a run with tasks from an id on. The one that holds it may have begun before.
SPANS_FROM = (
    f"{rows.SPAN} WHERE run = $1::bigint AND published AND first < $3::bigint AND last >= $2::bigint AND first >="
    " coalesce((SELECT max(first) FROM @span WHERE run = $1::bigint AND first <= $2::bigint), $2::bigint)"
    " ORDER BY first LIMIT $4::bigint"
)
_RANGES = "unnest($1::bigint[], $2::bigint[]) AS r(f, l)"
#: What is in the log about tasks of ranges, of each the last event last.
WRITTEN = (
    f"SELECT task, status, e.seq, at FROM {_RANGES} JOIN @event e ON e.task BETWEEN r.f AND r.l"
    " JOIN @commits c ON c.seq = e.seq ORDER BY task, e.n"
)
KEYS = f"SELECT id, key FROM {_RANGES} JOIN @task t ON t.id BETWEEN r.f AND r.l WHERE key IS NOT NULL ORDER BY id"
#: What neighbouring tasks have to do with others: see `Bonds`.
TIES = (
    f"SELECT first, last FROM @segment WHERE run = $3::bigint AND {rows.IS_LIVE}"
    " AND first BETWEEN $4::bigint AND $2::bigint AND last >= $1::bigint",
    f"SELECT parent, id FROM @span s JOIN @task t ON t.id BETWEEN s.first AND s.last"
    f" WHERE s.first = ANY(ARRAY({editions.OVER_PARENTS})) AND parent BETWEEN $1::bigint AND $2::bigint",
    "SELECT task, id FROM @waiter WHERE task BETWEEN $1::bigint AND $2::bigint",
    "SELECT task, id FROM @waiter WHERE id BETWEEN $1::bigint AND $2::bigint",
    "SELECT first, last, joined FROM @span WHERE joined BETWEEN $1::bigint AND $2::bigint AND published",
    "SELECT id FROM @joins WHERE id BETWEEN $1::bigint AND $2::bigint",
)
JOINS_AT = "SELECT id, run, rule FROM @joins WHERE id = ANY($1::bigint[])"


def forget(db: Transaction, number: int, removal: Removal, now: int) -> Forgot:
    """Remove ended work; see the contract."""
    found = rows.runs_at(db, [number], lock=rows.LOCK_RUNS)
    if number not in found:
        raise unknown(number)
    run = found[number]
    if removal.tasks is not None:
        forgetting.check_remembered(run)
        return _forget_tasks(db, run, removal, removal.tasks, now)
    moved = forgetting.begin(run, removal.said, lambda: _reader(db, run.id), now)
    if moved is not None:
        changes = Changes(0, 0, now)
        changes.decide(RunDecided(run.id, moved.state, moved.decision))
        write(db, changes, Known())
        ended = forgetting.ended_as(run).encode()
        db.later("UPDATE @run SET reason = $1::bytea WHERE id = $2::bigint", ended, run.id)
        db.later("DELETE FROM @segment WHERE run = $1::bigint", run.id)
    left = removal.limit - len(db.ask(REMOVE_LINES, run.id, removal.limit))
    tasks = _remove_tasks(db, run.id, left)
    left -= tasks
    left -= _remove_joins_of(db, run.id, left)
    left -= len(db.ask(REMOVE_NAMES, run.id, left))
    if swept := db.ask(REMOVE_SWEEPS, run.id, left):
        db.later(EMPTIED, [seq for (seq,) in swept])
    is_left = bool(db.ask(IS_LEFT, run.id)[0][0])
    # A task has one key at most, so as many go with each page. Not those of its tasks: nobody asks for any of them.
    keys.forget_run(db, run.id, tasks if is_left else None)
    return Forgot(tasks, is_left)


def _reader(db: Transaction, run: int) -> Reader | None:
    """The first task of another run that has results of this one."""
    found = db.trip([(some, (run,)) for some in READERS])
    return min((Reader(*row) for some in found for row in some), default=None)


def _remove_tasks(db: Transaction, run: int, left: int) -> int:
    """Remove up to so many tasks of a run, neighbouring spans together; of a span that is too long, the last ones."""
    removed = 0
    near: list[SpanRow] = []
    for span in map(span_row, db.ask(SPANS, run, left + 1)) if left else ():
        size = min(span.last - span.first + 1, left - removed)
        removed += size
        if size <= span.last - span.first:
            if size:
                _remove(db, [span], span.last - size + 1, span.last)
                db.later("UPDATE @span SET last = $1::bigint WHERE first = $2::bigint", span.last - size, span.first)
            break
        if near and near[-1].last + 1 != span.first:
            _remove_whole(db, near)
            near = []
        near.append(span)
    _remove_whole(db, near)
    return removed


def _remove_whole(db: Transaction, spans: Sequence[SpanRow]) -> None:
    """Remove spans that lie side by side, with their tasks."""
    if spans:
        _remove(db, spans, spans[0].first, spans[-1].last)
        gone = "DELETE FROM @span WHERE first BETWEEN $1::bigint AND $2::bigint"
        db.later(gone, spans[0].first, spans[-1].first)


def _remove(db: Transaction, spans: Sequence[SpanRow], first: int, last: int) -> None:
    """Remove neighbouring tasks, which are those of these spans, and all that is theirs but the spans.

    Keys that count only in their run stay, and go with it.
    """
    for span in spans:
        keys.forget(db, span, max(first, span.first), min(last, span.last), also_in_run=False)
    db.later(REMOVE_TASKS, first, last)
    db.later(REMOVE_WAITERS, first, last)
    db.later(REMOVE_BEHIND, first, last)
    _uncount_commits(db, dict(db.ask(REMOVE_EVENTS, first, last)))


def _uncount_commits(db: Transaction, gone: Mapping[int, int]) -> None:
    """Take so many events out of each of these commits, which go when nothing is left of them."""
    if gone:
        db.later(UNCOUNTED, *columns(sorted(gone.items())))
        db.later(EMPTIED, sorted(gone))


def _remove_joins_of(db: Transaction, run: int, limit: int) -> int:
    gone = [join for (join,) in db.ask(JOINS_OF, run, limit)]
    _remove_joins(db, gone)
    return len(gone)


def _remove_joins(db: Transaction, gone: Sequence[int]) -> None:
    for table in ("waiter", "join_part", "joins") if gone else ():
        db.later(f"DELETE FROM @{table} WHERE id = ANY($1::bigint[])", gone)


# single tasks


class Bonds(NamedTuple):
    """Bonds of neighbouring tasks to others.

    The bounds of `live` rows; `children` behind their parents; tasks that wait for one of these or are waited for, and
    the `joins` in question; `groups` of members by their place, with their join.
    """

    live: Rows
    children: Rows
    waiting: Rows
    awaited: Rows
    groups: Rows
    joins: Rows


def _forget_tasks(db: Transaction, run: StoredRun, removal: Removal, tasks: range, now: int) -> Forgot:
    # One more than can go tells whether there are more.
    of_run = (run.id, tasks.start, tasks.stop, removal.limit + 1)
    spans = {span.first: span for span in map(span_row, db.ask(SPANS_FROM, *of_run))}
    found, more = forgetting.pieces(((span.first, span.last) for span in spans.values()), tasks, removal.limit)
    if not found:
        return Forgot(after=tasks.stop - 1)
    low, high = found[0].first, found[-1].last
    ranges = [(piece.first, piece.last) for piece in found]
    written = db.ask(WRITTEN, *editions.columns(ranges))
    newest = {task: (status, at) for task, status, _, at in written}
    latest = now - SESSION_SECONDS * SECOND
    ended: dict[int, Status] = {}
    order = sorted(newest)
    for piece in found:
        each = ((task, *newest[task]) for task in _within(order, piece.first, piece.last))
        ends = ((task, Status(status), at) for task, status, at in each if status in ENDS)
        ended |= forgetting.settled(removal, spans[piece.span].kind, ends, latest)
    if not ended:
        return Forgot(0, more, high)
    bounds = (low, high)
    over = (*bounds, run.id, found[0].span)
    values = (over, bounds, bounds, bounds, bounds, bounds)
    ties = Bonds(*db.trip(list(zip(TIES, values, strict=True))))
    chosen = forgetting.chosen(
        ended,
        endless=run.endless,
        named=_named(db, found, spans, ended, now),
        rows=ties.live,
        not_before=_not_before(db, run.id, found, spans, ties),
    )
    if chosen and not removal.dry:
        _take_out(db, found, spans, chosen, ended, written)
        _remove_joins(db, sorted(set(chosen).intersection(join for (join,) in ties.joins)))
        _cut_out(db, found, spans, chosen)
    return Forgot(len(chosen), more, high)


def _alike(found: Sequence[Piece], spans: Mapping[int, SpanRow]) -> Mapping[tuple[Any, ...], list[Piece]]:
    """Pieces with keys that are held alike."""
    alike: dict[tuple[Any, ...], list[Piece]] = defaultdict(list)
    for piece in found:
        span = spans[piece.span]
        if span.keyed:
            alike[span.hold, span.run, span.kind].append(piece)
    return alike


def _named(
    db: Transaction, found: Sequence[Piece], spans: Mapping[int, SpanRow], ended: Mapping[int, Status], now: int
) -> list[int]:
    """The tasks whose key keeps others from their name now."""
    named: list[int] = []
    for (hold, run, kind), some in _alike(found, spans).items():
        if hold is not Hold.LABEL:
            given = db.ask(KEYS, *editions.columns([(piece.first, piece.last) for piece in some]))
            theirs = [(task, key) for task, key in given if task in ended]
            names = digests(hold, run, kind, (key for _, key in theirs))
            held = keys.find(db, hold, sorted(set(names)), now)
            named += (task for (task, _), name in zip(theirs, names, strict=True) if held.get(name) == task)
    return named


def _not_before(
    db: Transaction, run: int, found: Sequence[Piece], spans: Mapping[int, SpanRow], ties: Bonds
) -> Iterator[tuple[int, int]]:
    """Which tasks must not go before which others: parents and children, continuations and members."""
    low, high = found[0].first, found[-1].last
    yield from ties.children
    pairs: list[tuple[int, int]] = [*ties.waiting, *ties.awaited]
    for piece in found:
        join = spans[piece.span].join
        pairs += [] if join is None else [(task, join) for task in range(piece.first, piece.last + 1)]
    for first, last, join in ties.groups:
        # One that reaches beyond what is looked at need not be told task by task: some of it stays.
        pairs += [(task, join) for task in range(first, last + 1)] if low <= first and last <= high else [(NEVER, join)]
    joins = db.ask(JOINS_AT, sorted({join for _, join in pairs})) if pairs else ()
    yield from forgetting.tied(run, pairs, {join: (its, rule) for join, its, rule in joins})


def _take_out(
    db: Transaction,
    found: Sequence[Piece],
    spans: Mapping[int, SpanRow],
    chosen: Sequence[int],
    ended: Mapping[int, Status],
    written: Rows,
) -> None:
    """Remove tasks from a run that stays, with all that is theirs but the spans."""
    going = set(chosen)
    theirs = [(task, status, seq) for task, status, seq, _ in written if task in going]
    told: dict[int, list[int]] = defaultdict(list)
    for task, status, _ in theirs:
        told[task].append(status)
    counts: Counter[Counted] = Counter()
    for piece in found:
        span = spans[piece.span]
        whose = (span.run, span.kind, span.queue)
        for task in _within(chosen, piece.first, piece.last):
            counts[*whose, Tally.ADDED] += 1
            counts[*whose, ended[task]] += 1
            counts.update((*whose, Status(status)) for status in told[task] if status not in ENDS)
    for some in _alike(found, spans).values():
        for piece in some:
            for stretch in stretches(_within(chosen, piece.first, piece.last)):
                keys.forget(db, spans[piece.span], stretch[0], stretch[-1], also_in_run=True)
    counters.count_all(db, {counter: -times for counter, times in counts.items()}, db.client)
    for table, column in (("event", "task"), ("task", "id"), ("waiter", "task"), ("behind", "task"), ("note", "task")):
        db.later(f"DELETE FROM @{table} WHERE {column} = ANY($1::bigint[])", chosen)
    _uncount_commits(db, Counter(seq for _, _, seq in theirs))


def _cut_out(db: Transaction, found: Sequence[Piece], spans: Mapping[int, SpanRow], chosen: Sequence[int]) -> None:
    """Remove spans whose tasks are gone, and cut others around what is."""
    whole: list[int] = []
    for piece in found:
        span, going = spans[piece.span], _within(chosen, piece.first, piece.last)
        if len(going) == span.last - span.first + 1:
            whole.append(span.first)
            continue
        # From the end on: what lies above a gap is a span of its own, and is done with.
        for stretch in reversed(stretches(going)) if going else ():
            _cut(db, span, stretch[0], stretch[-1])
    if whole:
        db.later("DELETE FROM @span WHERE first = ANY($1::bigint[])", whole)


def _within(chosen: Sequence[int], first: int, last: int) -> Sequence[int]:
    return chosen[bisect_left(chosen, first) : bisect_right(chosen, last)]


def _cut(db: Transaction, span: SpanRow, first: int, last: int) -> None:
    """Take neighbouring tasks out of a span that stays; what lies above them becomes a span of its own."""
    if first == span.first:
        db.later("UPDATE @span SET first = $1::bigint WHERE first = $2::bigint", last + 1, first)
    else:
        db.later("UPDATE @span SET last = $1::bigint WHERE first = $2::bigint", first - 1, span.first)
        if last < span.last:
            db.later(INSERT_SPAN, *columns([span_values(replace(span, first=last + 1))]))
    if last < span.last:
        above = (
            "UPDATE @segment SET span = $1::bigint WHERE run = $2::bigint AND span = $3::bigint AND first > $4::bigint"
        )
        db.later(above, last + 1, span.run, span.first, last)
    span.last = first - 1
