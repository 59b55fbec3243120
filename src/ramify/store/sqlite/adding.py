"""Putting tasks into the log of the SQLite store: groups, keys, staged ranges, the tail row of single appends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import msgspec

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrival
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.policy import is_young
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, stretches
from ramify.model.task import Appended, NewTasks, check_apart
from ramify.store.sqlite import bulk, counters, joins, keys, rows
from ramify.store.sqlite.counters import Counted
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.keys import Offer
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan

#: A range and its run, whether its tasks wait for a join, and their columns.
Placed = tuple[StoredRun, SqliteSpan, bool, bulk.TaskColumns]
#: The most groups that share their statements: what is bound for them is in memory until then.
BATCH = 512


class SqliteAdded:
    """The result of adding one group. The id of each task is worked out only on request."""

    def __init__(self, tasks: NewTasks, offer: Offer | None = None, placed: Sequence[int] = ()) -> None:
        self._tasks, self._offer, self._placed = tasks, offer, placed
        self.arrivals: Sequence[Arrival] = ()  #: what dropped duplicates mean to a join that counts them

    @cached_property
    def lost(self) -> dict[int, int]:
        """The positions that lost their key, with the task that holds it."""
        if self._offer is None or len(self._placed) == len(self._tasks.bodies):
            return {}
        return self._offer.lost(dict(zip(self._offer.kept, self._placed, strict=True)))

    @property
    def ids(self) -> tuple[int, ...]:
        """The id each task has, or that of the task that holds its key."""
        if self._offer is None:
            return tuple(self._tasks.ids)
        known = dict(zip(self._offer.kept, self._placed, strict=True)) | self.lost
        return tuple(known[i] for i in range(len(self._tasks.bodies)))

    def moved(self) -> dict[int, int]:
        """The tasks of the group that have another id than it gave them: dropped for another, or closer in rank."""
        if self._tasks.keys is None:
            return {}
        return {given: task for given, task in zip(self._tasks.ids, self.ids, strict=True) if given != task}


def reserved(db: Db) -> range:
    """The ids that were reserved so far."""
    (next_id,) = db.execute("SELECT next FROM ids").fetchall()[0]
    return range(1, next_id)


def check_room(db: Db, groups: Sequence[NewTasks], known: range | None = None) -> None:
    """Refuse ids that were never reserved or are in the log; for who has looked, which are `reserved` is known."""
    check_apart(groups)
    if not groups:
        return
    end = (reserved(db) if known is None else known).stop
    for tasks in groups:
        if tasks.last >= end:
            raise BadPayload(f"ids {tasks.first} to {tasks.last} were not reserved from this store")
    if not _is_taken(db, min(tasks.first for tasks in groups), max(tasks.last for tasks in groups)):
        return
    for tasks in groups:
        if _is_taken(db, tasks.first, tasks.last):
            raise BadPayload(f"ids {tasks.first} to {tasks.last} are already in the log")


def _is_taken(db: Db, first: int, last: int) -> bool:
    # The last span that begins at or before the last id is the only one that can overlap.
    row = db.execute("SELECT last FROM span WHERE first <= ? ORDER BY first DESC LIMIT 1", (last,)).fetchone()
    return row is not None and row[0] >= first


def add(
    db: Db,
    run: StoredRun,
    groups: Sequence[NewTasks],
    round: int,
    process: int,
    now: int,
    *,
    columns: Mapping[int, bulk.TaskColumns] | None = None,
) -> list[SqliteAdded]:
    """Publish groups, in their order. Neighbours without keys share their statements: each lane is a group of its own.

    `columns` are what was prepared of groups, by their first ids.
    """
    added: list[SqliteAdded] = []
    batch: list[Placed] = []
    for tasks in groups:
        if tasks.keys is None:
            batch.append(place(run, tasks, round, columns))
            added.append(SqliteAdded(tasks))
        if len(batch) == BATCH or tasks.keys is not None:
            add_unkeyed(db, batch, process, now)
            batch = []
        if tasks.keys is not None:
            span = _span(run, tasks, round)
            added.append(_add_keyed(db, run, tasks, span, process, now))
    add_unkeyed(db, batch, process, now)
    return added


def place(run: StoredRun, tasks: NewTasks, round: int, columns: Mapping[int, bulk.TaskColumns] | None) -> Placed:
    """A group without keys as it goes into the log; see `add`."""
    prepared = columns[tasks.first] if columns is not None else bulk.TaskColumns.of(tasks)
    return run, _span(run, tasks, round), tasks.waits, prepared


def add_unkeyed(db: Db, batch: Sequence[Placed], process: int, now: int) -> None:
    """Publish groups without keys, of one run or of many: a few statements for all of them."""
    _insert(db, batch, now)
    counts: Counter[Counted] = Counter()
    for _, span, _, _ in batch:
        counts[span.run, span.kind, span.queue, Tally.ADDED] += span.last - span.first + 1
    counters.count_all(db, counts, process)


def _add_keyed(db: Db, run: StoredRun, tasks: NewTasks, span: SqliteSpan, process: int, now: int) -> SqliteAdded:
    assert tasks.keys is not None
    offer = Offer(db, span, tasks.keys, now, again=tasks.again)
    kept = offer.kept
    in_place = tasks.join is not None or tasks.waits
    # Unless a join knows them by their place, the kept tasks close ranks, so that the range stays dense.
    placed = [tasks.first + i for i in kept] if in_place else range(tasks.first, tasks.first + len(kept))
    offer.take(placed)
    pieces = stretches(kept) if in_place else [kept] if kept else []
    at = 0
    for chosen in pieces:
        piece = replace(span, first=placed[at], last=placed[at + len(chosen) - 1])
        at += len(chosen)
        columns = bulk.TaskColumns.of(tasks, None if len(chosen) == len(tasks.bodies) else chosen)
        _insert(db, [(run, piece, tasks.waits, columns)], now)
    counters.count(db, run.id, tasks.kind, tasks.queue, Tally.ADDED, process, len(kept))
    counters.count(db, run.id, tasks.kind, tasks.queue, Tally.DUPLICATE, process, len(tasks.bodies) - len(kept))
    added = SqliteAdded(tasks, offer, placed)
    if tasks.join is not None:
        lost = added.lost.items()
        added.arrivals = [a for i, other in lost for a in joins.wait_for(db, other, tasks.join, tasks.slot + i)]
    return added


def _span(run: StoredRun, tasks: NewTasks, round: int, *, published: bool = True) -> SqliteSpan:
    return SqliteSpan(
        tasks.first, tasks.last, run.id, round, tasks.kind, tasks.queue, tasks.lane, tasks.priority, tasks.due,
        tasks.hold, tasks.keep, tasks.join, tasks.slot - tasks.first if tasks.join is not None else 0,
        tasks.keys is not None, tasks.details is not None, tasks.lanes is not None, tasks.awaited, published,
    )  # fmt: skip


def _insert(db: Db, batch: Sequence[Placed], now: int) -> None:
    """Spans, their task rows and their segments."""
    segments: list[SqliteSegment] = []
    for run, span, waits, columns in batch:
        span.low_parent, span.high_parent, span.added = columns.low_parent, columns.high_parent, now
        state = SegmentState.WAITING if waits else rows.state_for(run, span.round)
        step = MASK_WIDTH if waits else span.last - span.first + 1
        rank = rows.rank(run, span, now)
        for first in range(span.first, span.last + 1, step):
            last = min(first + step - 1, span.last)
            segments.append(_segment(span, span.round, first, last, None, rank, state))
    db.executemany(rows.INSERT_SPAN, (span.column_values() for _, span, _, _ in batch))
    bulk.insert_all(db, ((span.first, columns) for _, span, _, columns in batch))
    db.executemany(rows.INSERT_SEGMENT, (segment.column_values() for segment in segments))


def _segment(
    span: SqliteSpan, round: int, first: int, last: int, left: int | None, rank: int, state: SegmentState
) -> SqliteSegment:
    return SqliteSegment(
        0, span.first, span.run, round, span.kind, span.queue, span.lane, first, last, left, rank, span.due, state
    )


def known(db: Db, run: StoredRun, groups: Sequence[NewTasks], now: int) -> Appended:
    """The answer to an append that was applied before: the ids its tasks have, or lost their keys to."""
    ids: list[tuple[int, ...]] = []
    taken: set[tuple[int, int]] = set()
    for g, tasks in enumerate(groups):
        # Keys that count only in a run are free once it is forgotten, although they go page by page.
        is_free = run.state is RunState.FORGOTTEN and tasks.hold is Hold.ONCE
        held = {} if is_free else keys.holders(db, tasks.hold, run.id, tasks.kind, tasks.keys or (), now)
        task, found = tasks.first, []
        for i in range(len(tasks.bodies)):
            key = tasks.keys[i] if tasks.keys is not None else None
            task = tasks.first + i if tasks.join is not None or tasks.waits else task
            row = db.execute("SELECT key FROM task WHERE id = ?", (task,)).fetchone()
            if row is not None and row[0] == key:
                found.append(task)
                task += 1
            else:
                found.append(held.get(key or b"", 0))
                taken.add((g, i))
        ids.append(tuple(found))
    return Appended(tuple(ids), frozenset(taken), already=True)


def extend_tail(db: Db, run: StoredRun, tasks: NewTasks, round: int, now: int) -> bool:
    """Add a single task to the unclaimed row it follows on; False when there is no such row."""
    if (
        len(tasks.bodies) != 1
        or tasks.due is not None
        or tasks.join is not None
        or tasks.waits
        or tasks.lanes
        or tasks.awaited
    ):
        return False
    span = rows.span_of(db, tasks.first - 1)
    if span is None or span.last != tasks.first - 1 or not span.published:
        return False
    mine = _span(run, tasks, round)
    if mine.shared() != span.shared():
        return False
    # Only rows of this span are looked at: other tails and due rows may lie close by, and be many.
    tails = rows.segments(db, "WHERE first BETWEEN ? AND ? AND last = ?", (span.first, span.last, span.last))
    row = next((row for row in tails if _may_grow(run, span, row, now)), None)
    if row is None:
        return False
    if tasks.keys is not None:
        offer = Offer(db, span, tasks.keys, now, again=tasks.again)
        if not offer.kept:
            return False
        offer.take([tasks.first])
    columns = bulk.TaskColumns.of(tasks)
    bulk.insert_late(db, tasks.first, columns, now)
    mine.low_parent, mine.high_parent = columns.low_parent, columns.high_parent
    span.grow(db, mine)
    db.execute("UPDATE segment SET last = ? WHERE id = ?", (tasks.first, row.id))
    counters.count(db, run.id, tasks.kind, tasks.queue, Tally.ADDED, 0, 1)
    return True


def _may_grow(run: StoredRun, span: SqliteSpan, row: SqliteSegment, now: int) -> bool:
    unclaimed = row.state in (SegmentState.READY, SegmentState.GATED) and row.left is None
    untouched = not row.deaths.count and not row.attempt and row.last == span.last
    young = run.order is Order.DEPTH_FIRST or is_young(row.rank, now, span.priority)
    return unclaimed and untouched and young and row.last - row.first + 1 < MASK_WIDTH


# Staged ranges


def stage(db: Db, groups: Sequence[NewTasks], owner: SqliteSegment) -> None:
    """Write unpublished rows under staged segments."""
    check_room(db, groups)
    run = rows.run_row(db, owner.run)
    for tasks in groups:
        _stage(db, run, tasks, owner)


def _stage(db: Db, run: StoredRun, tasks: NewTasks, owner: SqliteSegment) -> None:
    """Write one group, extending the last range of this claim where it follows on."""
    span = _span(run, tasks, owner.round + 1, published=False)
    columns = bulk.TaskColumns.of(tasks)
    span.low_parent, span.high_parent = columns.low_parent, columns.high_parent
    bulk.insert_tasks(db, span.first, columns)
    before = rows.span_of(db, span.first - 1)
    if before is not None and _continues(db, before, span):
        grown = db.execute(
            "UPDATE segment SET last = ? WHERE token = ? AND state = 4 AND span = ?",
            (span.last, owner.token, before.first),
        )
        grown.fetchall()
        if db.changes():
            before.grow(db, span)
            return
    span.insert(db)
    row = _segment(span, span.round, span.first, span.last, None, 0, SegmentState.STAGED)
    row.owner, row.token = owner.owner, owner.token
    row.insert(db)


def _continues(db: Db, before: SqliteSpan, span: SqliteSpan) -> bool:
    """Return whether a staged range goes on where another ends, for the same parent: each parent publishes its own."""
    if before.last != span.first - 1 or before.shared() != span.shared():
        return False
    parents = db.execute("SELECT parent FROM task WHERE id IN (?, ?) ORDER BY id", (before.last, span.first)).fetchall()
    return bool(parents[0] == parents[1])


def staged(db: Db, first: int, token: bytes) -> SqliteSegment:
    """The staged row of this claim that begins at `first`; BadPayload otherwise."""
    # By its first id: one claim may have staged very many.
    found = rows.segments(db, "INDEXED BY segment_first WHERE token = ? AND state = 4 AND first = ?", (token, first))
    if not found:
        raise BadPayload(f"no staged range of this claim begins at {first}")
    return found[0]


def publish(db: Db, log: CommitLog, run: StoredRun, row: SqliteSegment, process: int, now: int) -> list[Arrival]:
    """Make a staged range visible. A child whose key is taken ends as skipped in favour of the one that holds it."""
    span = rows.span_at(db, row.span)
    db.execute("UPDATE span SET published = 1, added = ? WHERE first = ?", (now, span.first))
    row.owner = row.token = None
    row.rank, row.state = rows.rank(run, span, now), rows.state_for(run, row.round)
    counters.count(db, run.id, span.kind, span.queue, Tally.ADDED, process, row.count)
    lost = _resolve_staged_keys(db, span, now) if span.keyed else {}
    arrivals: list[Arrival] = []
    for task, other in lost.items():
        log.write(task, Status.SKIPPED, msgspec.json.encode({"duplicate_of": other}))
        if span.join is not None:
            arrivals += joins.wait_for(db, other, span.join, task + span.shift)
    counters.count(db, run.id, span.kind, span.queue, Status.SKIPPED, process, len(lost))
    if lost:
        _leave_out(db, row, lost.keys())
    else:
        db.execute(
            "UPDATE segment SET state = ?, rank = ?, owner = NULL, token = NULL WHERE id = ?",
            (row.state, row.rank, row.id),
        )
    return arrivals


def _resolve_staged_keys(db: Db, span: SqliteSpan, now: int) -> dict[int, int]:
    """Give the staged tasks their keys; those that lost theirs, with the task that holds it."""
    found = db.execute("SELECT key FROM task WHERE id BETWEEN ? AND ? ORDER BY id", (span.first, span.last))
    offer = Offer(db, span, [key for (key,) in found.fetchall()], now)
    placed = [span.first + i for i in offer.kept]
    offer.take(placed)
    lost = offer.lost(dict(zip(offer.kept, placed, strict=True)))
    return {span.first + i: other for i, other in sorted(lost.items())}


def _leave_out(db: Db, row: SqliteSegment, dropped: Collection[int]) -> None:
    """Rows of at most `MASK_WIDTH` in place of `row`, without the dropped tasks."""
    rows.drop(db, row)
    for first in range(row.first, row.last + 1, MASK_WIDTH):
        last = min(first + MASK_WIDTH - 1, row.last)
        tasks = [t for t in range(first, last + 1) if t not in dropped]
        if tasks:
            left = None if len(tasks) == last - first + 1 else mask_of(tasks, first)
            replace(row, first=first, last=last, left=left, owner=None, token=None).insert(db)


def discard(db: Db, row: SqliteSegment) -> None:
    """Nobody will publish this staged range: list it for vacuum."""
    db.execute("UPDATE segment SET state = 5, owner = NULL, token = NULL WHERE id = ?", (row.id,))


def discard_of(db: Db, token: bytes | None) -> None:
    """Discard everything staged under a claim."""
    db.execute("UPDATE segment SET state = 5, owner = NULL, token = NULL WHERE token = ? AND state = 4", (token,))
