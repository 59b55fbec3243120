"""Runs in the SQLite store: starting, advancing, cancelling, pausing. One writer at a time is the run's lock."""

from __future__ import annotations

from collections.abc import Sequence

from ramify.errors import BadPayload
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.model.mark import CancelAnswer, Scope, reason_value
from ramify.model.run import Advanced, NewRun, Order, Run, RunState, ends_as, stalled
from ramify.model.segment import SegmentState, pack, tasks_in
from ramify.store.sqlite import commits, joins, keys, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SegmentRow

WORKING = "state IN (0, 1, 3)"
#: Live work of the round that is open or of an earlier one; without a barrier, of any.
HOLDING = f"run = ? AND {WORKING} AND (round <= ? OR NOT ?)"


def create(db: Db, new: NewRun, now: int) -> Run:
    """Write the run row."""
    if new.follows is not None and new.follows.run == new.id:
        raise BadPayload(f"run {new.id} cannot follow itself")
    if new.follows is not None:
        rows.run_row(db, new.follows.run)
    follows, lead = (None, None) if new.follows is None else (new.follows.run, new.follows.lead)
    db.execute(
        "INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,?,?,-1,NULL,?,NULL,?)",
        (
            new.id, new.name, new.generation, new.shape, new.order.value, follows, lead, new.endless, new.params,
            new.roots, RunState.OPEN.value, now, RunState.DONE.value,
        ),
    )  # fmt: skip
    return rows.run_row(db, new.id)


def look(db: Db, run: Run, round: int) -> Advanced | None:
    """What `advance` would answer that changes nothing; None when there is something to change. It writes nothing."""
    here = Advanced(run.state, run.round)
    if run.state not in (RunState.OPEN, RunState.DRAINING) or round != run.round:
        return here
    if run.state is RunState.DRAINING:
        idle = _is_any(db, "segment WHERE run = ? AND state IN (0, 1, 2)", (run.id,))
        held = 0 if idle else _tasks(db, "run = ? AND state = 3", (run.id,))
        return Advanced(run.state, run.round, holding=held) if held else None
    if _is_queue(run) or _holds(db, run):
        gated = _is_any(db, "segment INDEXED BY gated WHERE run = ? AND round <= ? AND state = 1", _reached(run, round))
        return None if gated else Advanced(run.state, run.round, holding=_holding(db, run))
    lowest = _lowest_round(db, run)
    if lowest is None:
        return here if run.endless else None
    leader = _gated_by(db, run, lowest)
    return None if leader is None else Advanced(run.state, run.round, gated_by=leader)


def advance(db: Db, run: Run, round: int, now: int) -> Advanced:
    """Judge the run; see the contract."""
    still = look(db, run, round)
    if still is not None:
        return still
    if run.state is RunState.DRAINING:
        return _drain(db, run, now)
    if _is_queue(run) or _holds(db, run):
        return Advanced(run.state, run.round, _ungate(db, run, round), _holding(db, run))
    lowest = _lowest_round(db, run)
    if lowest is None:
        return _end(db, run, now)
    db.execute("UPDATE run SET round = ? WHERE id = ?", (lowest, run.id))
    _ungate(db, run, lowest)
    return Advanced(run.state, lowest, moved=True)


def _has_barrier(run: Run) -> bool:
    return run.order is Order.ROUNDS or run.round < 0


def _is_queue(run: Run) -> bool:
    """A queue has no rounds and no end to judge, and may be long: nothing of it is counted."""
    return run.endless and not _has_barrier(run)


def _holds(db: Db, run: Run) -> bool:
    """Whether live work keeps the run where it is."""
    return _is_any(db, f"segment WHERE {HOLDING}", (run.id, run.round, _has_barrier(run)))


def _holding(db: Db, run: Run) -> int:
    """How many tasks keep the run where it is."""
    return 0 if _is_queue(run) else _tasks(db, HOLDING, (run.id, run.round, _has_barrier(run)))


def _is_any(db: Db, where: str, values: tuple[object, ...]) -> bool:
    return db.execute(f"SELECT 1 FROM {where} LIMIT 1", values).fetchone() is not None


def _lowest_round(db: Db, run: Run) -> int | None:
    """The lowest round with work that is not done."""
    found = db.execute(f"SELECT min(round) FROM segment WHERE run = ? AND {WORKING}", (run.id,)).fetchall()
    lowest: int | None = found[0][0]
    return lowest


def _gated_by(db: Db, run: Run, round: int) -> int | None:
    """The run that must get further before this one opens a round."""
    if run.follows is None:
        return None
    leader = rows.run_row(db, run.follows.run)
    return None if leader.state.is_end or leader.round > round + run.follows.lead else leader.id


def _tasks(db: Db, where: str, values: tuple[object, ...]) -> int:
    """How many unfinished tasks the rows stand for."""
    return sum(row.count for row in rows.segments(db, f"WHERE {where}", values))


def _reached(run: Run, round: int) -> tuple[int, int]:
    """The run, and up to which round its gates open: without a barrier, all of them."""
    return run.id, round if run.order is Order.ROUNDS else 2**62


def _ungate(db: Db, run: Run, round: int) -> bool:
    """Open the gate for the rows of the rounds that are open."""
    db.execute(
        "UPDATE segment INDEXED BY gated SET state = 0 WHERE run = ? AND round <= ? AND state = 1", _reached(run, round)
    )
    return db.changes() > 0


def _end(db: Db, run: Run, now: int) -> Advanced:
    counted = "SELECT what, sum(value) FROM counter WHERE run = ? GROUP BY what"
    counts: dict[int, int] = dict(db.execute(counted, (run.id,)).fetchall())
    waiting = rows.segments(db, "WHERE run = ? AND state = 2 ORDER BY id", (run.id,))
    stuck = [task for row in waiting for task in tasks_in(row.first, row.last, row.left)]
    into = _into(db, run)
    state = ends_as(
        into,
        failures=counts.get(Status.FAILED, 0) + counts.get(Status.QUARANTINED, 0),
        cancelled=counts.get(Status.CANCELLED, 0),
        stuck=len(stuck),
    )
    sweep(db, run, waiting, now)
    return _close(db, run, state, stalled(stuck) if stuck else run.reason if state is into else None, now)


def _into(db: Db, run: Run) -> RunState:
    """What the run was last drained into, and DONE if it never was."""
    (becomes,) = db.execute("SELECT becomes FROM run WHERE id = ?", (run.id,)).fetchall()[0]
    return RunState(becomes)


def _close(db: Db, run: Run, state: RunState, reason: str | None, now: int) -> Advanced:
    db.execute("UPDATE run SET state = ?, reason = ?, ended = ? WHERE id = ?", (state.value, reason, now, run.id))
    db.execute("DELETE FROM mark WHERE run = ?", (run.id,))
    return Advanced(state, run.round, moved=True)


def _drain(db: Db, run: Run, now: int) -> Advanced:
    idle = rows.segments(db, "WHERE run = ? AND state IN (0, 1, 2) ORDER BY id", (run.id,))
    sweep(db, run, idle, now)
    held = _tasks(db, "run = ? AND state = 3", (run.id,))
    if held:
        return Advanced(run.state, run.round, bool(idle), held)
    return _close(db, run, _into(db, run), run.reason, now)


def sweep(db: Db, run: Run, swept: Sequence[SegmentRow], now: int) -> None:
    """End everything these rows stand for as cancelled: one range each instead of one event per task."""
    if not swept:
        return
    log = CommitLog(db, 0, 0, now)
    arrivals: list[joins.Arrival] = []
    for row in swept:
        db.execute("INSERT INTO sweep VALUES (?,?,?,?,?)", (row.run, row.first, row.last, pack(row.left), log.seq))
        rows.count(db, row.run, row.kind, Status.CANCELLED, 0, row.count)
        span = rows.span_at(db, row.span)
        if span.keyed and span.hold not in (Hold.LABEL, Hold.ONCE):
            tasks = tasks_in(row.first, row.last, row.left)
            keys.release(db, span, ((task, Status.CANCELLED) for task in tasks), now)
        waiting = db.execute("SELECT task, id, slot FROM waiter WHERE task BETWEEN ? AND ?", (row.first, row.last))
        arrivals += ((join, slot, True) for task, join, slot in waiting.fetchall() if row.covers(task))
        if span.join is not None and _run_of(db, span.join) != run.id:
            arrivals += ((span.join, task + span.shift, True) for task in tasks_in(row.first, row.last, row.left))
        rows.drop(db, row)
    log.close()
    elsewhere = [a for a in arrivals if _run_of(db, a[0]) not in (None, run.id)]
    joins.settle(db, elsewhere, (), run.id, run.round + 1)


def _run_of(db: Db, join: int) -> int | None:
    row = db.execute("SELECT run FROM joins WHERE id = ?", (join,)).fetchone()
    return None if row is None else row[0]


def gate_all(db: Db, run: int) -> None:
    """Put every claimable row of a run behind the gate."""
    db.execute("UPDATE segment SET state = 1 WHERE run = ? AND state = 0", (run,))


def set_state(db: Db, run: int, state: RunState) -> None:
    """Move the run."""
    db.execute("UPDATE run SET state = ? WHERE id = ?", (state.value, run))


def cancel_run(db: Db, run: Run, reason: str, into: RunState, now: int) -> CancelAnswer:
    """Drain the run; when nobody holds anything of it, it ends here."""
    if run.state.is_end:
        return CancelAnswer.ENDED
    if run.state is not RunState.DRAINING:
        db.execute(
            "UPDATE run SET state = ?, becomes = ?, reason = ? WHERE id = ?",
            (RunState.DRAINING.value, into.value, reason or None, run.id),
        )
    ended = advance(db, rows.run_row(db, run.id), run.round, now).state.is_end
    return CancelAnswer.CERTAIN if ended else CancelAnswer.REQUESTED


def cancel_task(db: Db, run: Run, task: int, below: bool, reason: str, now: int) -> CancelAnswer:
    """End a task that nobody holds; leave a mark on one that is held, and with `below` for its descendants."""
    span = rows.span_of(db, task)
    if span is None or not span.published or span.run != run.id:
        return CancelAnswer.UNKNOWN
    if run.state.is_end:
        return CancelAnswer.ENDED
    if below:
        _mark(db, run.id, Scope.SUBTREE, task, reason)
    row = rows.covering(db, task)
    if row is None:
        return CancelAnswer.REQUESTED if below else CancelAnswer.ENDED
    if row.state is SegmentState.CLAIMED:
        if not below:
            _mark(db, run.id, Scope.TASK, task, reason)
        return CancelAnswer.REQUESTED
    row = rows.around(db, row, task)
    log = CommitLog(db, 0, 0, now)
    log.write(task, Status.CANCELLED, reason_value(reason))
    log.close()
    ended = commits.Ended([task], Status.CANCELLED)
    rows.count(db, run.id, span.kind, Status.CANCELLED, 0, 1)
    commits.end_tasks(db, span, ended, now)
    arrivals = commits.arrivals_of(db, span, ended)
    joins.take_out(db, row, [task])
    joins.settle(db, arrivals, (), run.id, row.round + 1)
    return CancelAnswer.REQUESTED if below else CancelAnswer.CERTAIN


def _mark(db: Db, run: int, scope: Scope, task: int, reason: str) -> None:
    db.execute("INSERT INTO mark VALUES (?,?,?,?,?,NULL)", (run, scope, task, Status.CANCELLED, reason))
