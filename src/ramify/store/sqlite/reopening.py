"""New lives in the SQLite store: `reopen`, the deliberate second chance of ended tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ramify.model import reopening
from ramify.model.arrivals import due_after
from ramify.model.event import Status
from ramify.model.join import PART_SLOTS
from ramify.model.mark import Mark, Scope
from ramify.model.outcome import storable
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, trim
from ramify.store.contract import Reopened
from ramify.store.sqlite import commits, joins, keys, rows, runs
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.log import ending
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan

#: Those that were named for a slot after a task whose own it is.
HEIRS = "SELECT task FROM waiter WHERE id = ? AND slot = ? AND task > ?"


def check(db: Db, run: StoredRun, tasks: Sequence[int]) -> None:
    """Refuse what cannot be reopened."""
    reopening.check(run, tasks, lambda task: _run_of(db, task))


def reopen(
    db: Db,
    run: StoredRun,
    tasks: Sequence[int],
    following: bool,
    settle: Mark | None,
    why: bytes | None,
    process: int,
    now: int,
) -> Reopened:
    """Begin new lives; see the contract."""
    if run.state is RunState.DRAINING:
        return Reopened(round=run.round)
    ask = reopening.ReopeningQuestions(
        run_of=lambda task: _run_of(db, task),
        ending=lambda task: ending(db, task),
        retake=lambda task: keys.retake(db, _span(db, task), task, now),
        memberships=lambda task: _memberships(db, task),
        heirs=lambda task, join, slot: [heir for (heir,) in db.execute(HEIRS, (join, slot, task))],
        join=lambda join, slot: joins.load(db, {join: [slot // PART_SLOTS]})[join],
    )
    found = reopening.reopen(run.id, tasks, following, ask)
    joins.save(db, list(found.changed.values()))
    db.executemany("DELETE FROM waiter WHERE task = ? AND id = ? AND slot = ?", found.disowned)
    for task in found.waiting:
        _take_back(db, task)
    ended, superseded = found.ended, tuple(found.superseded)
    if not ended:
        return Reopened((), superseded, run.round, unfinished=tuple(found.unfinished))
    log = CommitLog(db, process, 0, now)
    for task, status in ended.items():
        _write_reopened(db, log, task, status, why, process)
    log.close()
    at = run.round + 1
    if run.state.is_end:
        # What it was cancelled for is kept: it may end as cancelled again.
        db.execute(
            "UPDATE run SET state = ?, ended = NULL, reason = iif(becomes = ?, NULL, reason) WHERE id = ?",
            (RunState.OPEN.value, RunState.DONE.value, run.id),
        )
        run = rows.run_row(db, run.id)
    _offer(db, run, [*ended, *found.waiting], at, now)
    if settle is not None:
        named, said = set(tasks), (storable(settle.reason), settle.value, storable(settle.by))
        rows.add_marks(db, (Mark(run.id, Scope.TASK, task, settle.status, *said) for task in ended if task in named))
    runs.begin(db, run.id, now)
    return Reopened(tuple(sorted(ended)), superseded, at, tuple(sorted({heir for heir, _, _ in found.disowned})))


def _run_of(db: Db, task: int) -> int | None:
    span = rows.span_of(db, task)
    return None if span is None or not span.published else span.run


def _span(db: Db, task: int) -> SqliteSpan:
    span = rows.span_of(db, task)
    assert span is not None
    return span


def _memberships(db: Db, task: int) -> list[tuple[int, int]]:
    """The slots that the end of a task fills, of joins that were not forgotten with their run."""
    found = joins.memberships(db, _span(db, task), [task])
    known = joins.runs_of(db, {join for _, join, _ in found})
    return [(join, slot) for _, join, slot in found if join in known]


def _write_reopened(db: Db, log: CommitLog, task: int, status: Status, why: bytes | None, process: int) -> None:
    span = _span(db, task)
    log.write(task, Status.REOPENED, why)
    rows.count(db, span.run, span.kind, status, process, -1)
    rows.count(db, span.run, span.kind, Status.REOPENED, process, 1)


def _take_back(db: Db, task: int) -> None:
    """Remove an unfinished task from its row; whoever holds that row loses it."""
    row = rows.covering(db, task)
    if row is None:
        return
    if row.state is SegmentState.CLAIMED:
        commits.put_back(db, row)
    joins.take_out(db, rows.around(db, row, task), [task])


def _offer(db: Db, run: StoredRun, tasks: Sequence[int], at: int, now: int) -> None:
    """Masked rows for the tasks: waiting where their join is not full, else in the later round."""
    groups: dict[tuple[int, int, bool, int | None], list[int]] = defaultdict(list)
    for task in sorted(tasks):
        join = db.execute("SELECT filled = parts FROM joins WHERE id = ? AND task = id", (task,)).fetchone()
        waits = join is not None and not join[0]
        if join is not None and not waits:
            db.execute("UPDATE joins SET fired = 1 WHERE id = ?", (task,))
        span = _span(db, task)
        due = None
        if join is not None and span.due is not None:
            due = due_after(joins.load(db, {task: [0]})[task], span.due, now)
        groups[span.first, (task - span.first) // MASK_WIDTH, waits, due].append(task)
    for (first, _, waits, due), members in groups.items():
        span = rows.span_at(db, first)
        low, last, left = trim(members[0], mask_of(members, members[0]))
        round = at if run.order is Order.ROUNDS else span.round
        state = SegmentState.WAITING if waits else rows.state_for(run, round)
        (highest,) = db.execute(
            "SELECT max(n) FROM event WHERE task IN (SELECT value FROM json_each(?))", (str(members),)
        ).fetchall()[0]
        SqliteSegment(
            0, span.first, run.id, round, span.kind, span.queue, span.lane, low, last, left,
            rows.rank(run, span, now), due, state, highest or 0,
        ).insert(db)  # fmt: skip
