"""New lives in the SQLite store: `reopen`, the deliberate second chance of ended tasks."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from ramify.errors import BadPayload
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, reason_value
from ramify.model.outcome import storable
from ramify.model.run import Order, Run, RunState
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, trim
from ramify.store.contract import REOPEN_LIMIT, Reopened
from ramify.store.sqlite import commits, joins, keys, rows, runs
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SegmentRow, SpanRow


def check(db: Db, run: Run, tasks: Sequence[int]) -> None:
    """Refuse tasks that are not published tasks of the run."""
    if len(tasks) > REOPEN_LIMIT:
        raise BadPayload(f"{len(tasks)} tasks to reopen; take at most {REOPEN_LIMIT} at a time")
    for task in tasks:
        span = rows.span_of(db, task)
        if span is None or not span.published or span.run != run.id:
            raise BadPayload(f"task {task} is not a task of run {run.id}")


def reopen(
    db: Db, run: Run, tasks: Sequence[int], settle: Mark | None, reason: str, process: int, now: int
) -> Reopened:
    """Begin new lives; see the contract."""
    if run.state is RunState.DRAINING:
        return Reopened(round=run.round)
    ended: dict[int, Status] = {}
    superseded: list[tuple[int, int]] = []
    for task in sorted(set(tasks)):
        status = joins.ending(db, task)
        if status is None:
            continue
        other = keys.retake(db, _span(db, task), task, now)
        if other is not None:
            superseded.append((task, other))
        else:
            ended[task] = status
    again = _set_back(db, ended, set(tasks))
    if not ended:
        return Reopened((), tuple(superseded), run.round)
    log = CommitLog(db, process, 0, now)
    for task, status in ended.items():
        _write_reopened(db, log, task, status, reason, process)
    log.close()
    at = run.round + 1
    if run.state.is_end:
        # What it was cancelled for is kept: it may end as cancelled again.
        db.execute(
            "UPDATE run SET state = ?, ended = NULL, reason = iif(becomes = ?, NULL, reason) WHERE id = ?",
            (RunState.OPEN.value, RunState.DONE.value, run.id),
        )
        run = rows.run_row(db, run.id)
    _offer(db, run, [*ended, *again], at, now)
    if settle is not None:
        db.executemany(
            "INSERT INTO mark VALUES (?,?,?,?,?,?)",
            [(run.id, Scope.TASK, task, settle.status, storable(settle.reason), settle.value) for task in ended],
        )
    runs.advance(db, run, run.round, now)
    return Reopened(tuple(ended), tuple(superseded), at)


def _span(db: Db, task: int) -> SpanRow:
    span = rows.span_of(db, task)
    assert span is not None
    return span


def _write_reopened(db: Db, log: CommitLog, task: int, status: Status, reason: str, process: int) -> None:
    span = _span(db, task)
    log.write(task, Status.REOPENED, reason_value(reason))
    rows.count(db, span.run, span.kind, status, process, -1)
    rows.count(db, span.run, span.kind, Status.REOPENED, process, 1)


def _set_back(db: Db, ended: Iterable[int], chosen: set[int]) -> list[int]:
    """Let joins forget the reopened members; the unfinished join tasks of `chosen` that must wait once more."""
    queue = deque(pair for task in ended for pair in _memberships(db, task))
    waiting: list[int] = []
    while queue:
        join, slot = queue.popleft()
        last_task, last_fired = _last_of_chain(db, join)
        if last_fired and last_task not in chosen:
            continue
        task, fired, outer_join, outer_slot = _join(db, join)
        joins.set_back(db, join, [slot], anew=bool(fired))
        if fired and outer_join is not None:
            queue.append((outer_join, outer_slot))
        if fired and task is not None and joins.ending(db, task) is None:
            _take_back(db, task)
            waiting.append(task)
    return waiting


def _join(db: Db, join: int) -> tuple[int | None, bool, int | None, int]:
    row: tuple[int | None, bool, int | None, int] = db.execute(
        "SELECT task, fired, outer_join, outer_slot FROM joins WHERE id = ?", (join,)
    ).fetchone()
    return row


def _last_of_chain(db: Db, join: int) -> tuple[int | None, bool]:
    """The task at the end of joins that only pass their fullness on, and whether it was fired."""
    task, fired, outer, _ = _join(db, join)
    while task is None and outer is not None:
        task, fired, outer, _ = _join(db, outer)
    return task, fired


def _memberships(db: Db, task: int) -> list[tuple[int, int]]:
    """The join slots that the end of a task fills."""
    span = _span(db, task)
    own = [] if span.join is None else [(span.join, task + span.shift)]
    waiting: list[tuple[int, int]] = db.execute("SELECT id, slot FROM waiter WHERE task = ?", (task,)).fetchall()
    return own + waiting


def _take_back(db: Db, task: int) -> None:
    """Remove an unfinished task from its row; whoever holds that row loses it."""
    row = rows.covering(db, task)
    if row is None:
        return
    if row.state is SegmentState.CLAIMED:
        commits.put_back(db, row)
    joins.take_out(db, rows.around(db, row, task), [task])


def _offer(db: Db, run: Run, tasks: Sequence[int], at: int, now: int) -> None:
    """Masked rows for the tasks: waiting where their join is not full, else in the later round."""
    groups: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for task in sorted(tasks):
        join = db.execute("SELECT filled = parts FROM joins WHERE id = ? AND task = id", (task,)).fetchone()
        waits = join is not None and not join[0]
        if join is not None and not waits:
            db.execute("UPDATE joins SET fired = 1 WHERE id = ?", (task,))
        span = _span(db, task)
        groups[span.first, (task - span.first) // MASK_WIDTH, waits].append(task)
    for (first, _, waits), members in groups.items():
        span = rows.span_at(db, first)
        low, last, left = trim(members[0], mask_of(members, members[0]))
        round = at if run.order is Order.ROUNDS else span.round
        state = SegmentState.WAITING if waits else rows.state_for(run, round)
        (highest,) = db.execute(
            "SELECT max(n) FROM event WHERE task IN (SELECT value FROM json_each(?))", (str(members),)
        ).fetchall()[0]
        SegmentRow(
            0, span.first, run.id, round, span.kind, span.queue, span.lane, low, last, left,
            rows.rank(run, span, now), None, state, highest or 0,
        ).insert(db)  # fmt: skip
