"""People's decisions in the SQLite store: pausing, resuming and cancelling runs, settling tasks.

What follows from a decision is said by `ramify.model.deciding`; here it is written.
"""

from __future__ import annotations

import msgspec

from ramify.model.arrivals import Arrivals
from ramify.model.deciding import Settle, Settling, cancelled, decide, settling
from ramify.model.decision import Said, What
from ramify.model.event import Status
from ramify.model.mark import Settled
from ramify.model.run import RunState, StoredRun
from ramify.store.sqlite import commits, counters, held, joins, rows, runs
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan


def note(db: Db, run: StoredRun, what: What, said: Said, now: int) -> StoredRun | None:
    """Note a decision and move the run: as it is now, None when the decision changes nothing."""
    moved = decide(what, run.state, run.decision, said, now)
    if moved is None:
        return None
    decision = msgspec.json.encode(moved.decision).decode()
    db.execute("UPDATE run SET state = ?, decision = ? WHERE id = ?", (moved.state.value, decision, run.id))
    return rows.run_row(db, run.id)


def pause(db: Db, run: StoredRun, said: Said, now: int) -> RunState:
    """Put every claimable row of the run behind the gate."""
    paused = note(db, run, What.PAUSED, said, now)
    if paused is not None:
        db.execute("UPDATE segment SET state = 1 WHERE run = ? AND state = 0", (run.id,))
    return (paused or run).state


def resume(db: Db, run: StoredRun, said: Said, now: int) -> RunState:
    """Open the gate again."""
    resumed = note(db, run, What.RESUMED, said, now)
    if resumed is not None and run.state is RunState.PAUSED:
        return runs.advance(db, [(run.id, run.round)], now)[0].state
    return (resumed or run).state


def cancel(db: Db, run: StoredRun, said: Said, into: RunState, now: int) -> Settled:
    """Drain the run; when nobody holds anything of it any more, it ends here."""
    draining = note(db, run, What.CANCELLED, said, now)
    if draining is not None:
        assert draining.decision is not None
        reason = draining.decision.reason or None
        db.execute("UPDATE run SET becomes = ?, reason = ? WHERE id = ?", (into.value, reason, run.id))
    elif run.state is not RunState.DRAINING:
        return cancelled(run.state, run.state)
    return cancelled(run.state, runs.advance(db, [(run.id, run.round)], now)[0].state)


def settle(db: Db, run: StoredRun, ask: Settle, now: int) -> Settled:
    """End a task that nobody holds; leave a mark on one that is held, and for its descendants."""
    span, row = rows.span_of(db, ask.task), rows.covering(db, ask.task)
    plan = settling(
        ask,
        run.id,
        run.state,
        is_here=span is not None and span.published and span.run == run.id,
        row=None if row is None else row.state,
        life=lambda: _life(db, ask.task),
        is_marked=lambda mark: mark in held.marks_of(db, [run.id]).get(run.id, ()),
    )
    if plan.mark is not None:
        rows.add_marks(db, [plan.mark])
    if plan.events:
        assert span is not None
        assert row is not None
        _write(db, span, row, ask.task, plan, now)
    return plan.answer


def _life(db: Db, task: int) -> int:
    again = "SELECT count(*) FROM event WHERE task = ? AND status = ?"
    return 1 + int(db.execute(again, (task, Status.REOPENED)).fetchall()[0][0])


def _write(db: Db, span: SqliteSpan, row: SqliteSegment, task: int, plan: Settling, now: int) -> None:
    log = CommitLog(db, 0, 0, now)
    for status, value in plan.events:
        log.write(task, status, value)
        counters.count(db, span.run, span.kind, span.queue, status, 0, 1)
    log.close()
    if plan.ends:
        # A claim and a commit in one.
        row = rows.around(db, row, task)
        ended = commits.EndedTasks([task], plan.events[-1][0])
        commits.end_tasks(db, span, ended, now)
        arrivals = commits.arrivals_of(db, span, ended)
        joins.take_out(db, row, [task])
        joins.arrive(db, [Arrivals(span.run, row.round + 1, arrivals)], {}, now)
    else:
        # Whoever holds it must number its next event after these.
        db.execute(
            "UPDATE segment SET attempt = max(attempt, (SELECT max(n) FROM event WHERE task = ?)) WHERE id = ?",
            (task, row.id),
        )
