"""Runs in the SQLite store: starting, advancing, sweeping. One writer at a time is the run's lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import asdict, replace

from ramify.model.arrivals import Arrival, Arrivals
from ramify.model.awaiting import Questions, awaits_others
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.run import (
    Advanced,
    NewRun,
    Order,
    Run,
    RunState,
    ends_as,
    seconds_left,
    stalled,
    too_late,
    too_many,
)
from ramify.model.segment import SegmentState, pack, tasks_in
from ramify.store.sqlite import commits, joins, keys, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SegmentRow

WORKING = "state IN (0, 1, 3)"
#: Live work of the round that is open or of an earlier one; without a barrier, of any.
HOLDING = f"run = ? AND {WORKING} AND (round <= ? OR NOT ?)"

CAPPED = f"{rows.RUN} WHERE id IN (SELECT value FROM carray(?)) AND max_tasks IS NOT NULL"
AWAITED = (
    "SELECT DISTINCT waiter.task FROM joins CROSS JOIN waiter ON waiter.id = joins.id"
    " WHERE joins.run = ? AND NOT joins.fired"
)
COUNTED = "SELECT ifnull(sum(value), 0) FROM counter WHERE run = ? AND what = ?"


def create(db: Db, new: NewRun, now: int) -> Run:
    """Write the run row."""
    if new.follows is not None:
        rows.run_row(db, new.follows.run)
    follows, lead = (None, None) if new.follows is None else (new.follows.run, new.follows.lead)
    (since,) = db.execute(
        f"INSERT INTO run ({rows.RUN_COLUMNS}, becomes) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,-1,NULL,?,NULL,"
        "(SELECT ifnull(max(seq), 0) FROM commits),NULL,?) RETURNING since",
        (
            new.id, new.name, new.generation, new.shape, new.order.value, follows, lead, new.endless, new.params,
            new.digest, new.shown, rows.write_owner(new.owner), new.max_running, new.max_tasks, new.deadline,
            new.fails_as.value, new.tolerates.value, RunState.OPEN.value, now, RunState.DONE.value,
        ),
    ).fetchall()[0]  # fmt: skip
    return Run(**asdict(new), state=RunState.OPEN, round=-1, reason=None, created=now, ended=None, since=since)


def look(db: Db, run: Run, round: int, now: int) -> Advanced | None:
    """What `advance` would answer that changes nothing; None when there is something to change. It writes nothing."""
    still = _look(db, run, round, now)
    return None if still is None else _timed(db, still, run, now)


def _timed(db: Db, answer: Advanced, run: Run, now: int) -> Advanced:
    """The answer with how long the run may still go on."""
    if run.deadline is None or answer.state is not RunState.OPEN:
        return answer
    return replace(answer, time_left=seconds_left(run.deadline, _into(db, run), now))


def _look(db: Db, run: Run, round: int, now: int) -> Advanced | None:
    here = Advanced(run.state, run.round)
    if run.state not in (RunState.OPEN, RunState.DRAINING) or round != run.round:
        return here
    if _too_late(db, run, now) is not None:
        return None
    if run.state is RunState.DRAINING:
        idle = _is_any(db, "segment WHERE run = ? AND state IN (0, 1, 2)", (run.id,))
        held = 0 if idle else _tasks(db, "run = ? AND state = 3", (run.id,))
        return Advanced(run.state, run.round, holding=held) if held else None
    if _is_queue(run) or _holds(db, run):
        gated = _is_any(db, "segment INDEXED BY gated WHERE run = ? AND round <= ? AND state = 1", _reached(run, round))
        return None if gated else Advanced(run.state, run.round, holding=_holding(db, run))
    lowest = _lowest_round(db, run)
    if lowest is None:
        return here if run.endless or _waits_for_others(db, run) else None
    leader = _gated_by(db, run, lowest)
    return None if leader is None else Advanced(run.state, run.round, gated_by=leader)


def begin(db: Db, run: Run, now: int) -> Advanced | None:
    """Open the next round of a run to which tasks were added, if any of them is ready. It never ends here."""
    return advance(db, run, run.round, now) if _lowest_round(db, run) is not None else None


def advance(db: Db, run: Run, round: int, now: int) -> Advanced:
    """Judge the run; see the contract."""
    still = look(db, run, round, now)
    return still if still is not None else _timed(db, _move(db, run, round, now), run, now)


def _move(db: Db, run: Run, round: int, now: int) -> Advanced:
    late = _too_late(db, run, now)
    if late is not None:
        _begin_drain(db, run, RunState.FAILED, late)
        return replace(_drain(db, rows.run_row(db, run.id), now), moved=True)
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


def _too_late(db: Db, run: Run, now: int) -> str | None:
    """Why an open run is out of time; None while it is not."""
    has_passed = run.state is RunState.OPEN and run.deadline is not None and run.deadline <= now
    return too_late(run, _into(db, run), now) if has_passed else None


def _begin_drain(db: Db, run: Run, into: RunState, reason: str | None) -> None:
    db.execute(
        "UPDATE run SET state = ?, becomes = ?, reason = ? WHERE id = ?",
        (RunState.DRAINING.value, into.value, reason, run.id),
    )


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


def _waits_for_others(db: Db, run: Run) -> bool:
    """Whether a task of this run may still start because of what others do."""
    if not _is_any(db, "segment WHERE run = ? AND state = 2", (run.id,)):
        return False

    def awaited(number: int) -> Iterable[int]:
        return [task for (task,) in db.execute(AWAITED, (number,)).fetchall()]

    def row(task: int) -> tuple[int, SegmentState] | None:
        found = rows.covering(db, task)
        return None if found is None else (found.run, found.state)

    def works(number: int) -> bool:
        return _is_any(db, f"segment WHERE run = ? AND {WORKING}", (number,))

    def follows(number: int) -> int | None:
        leader = rows.run_row(db, number).follows
        return None if leader is None else leader.run

    return awaits_others(run.id, Questions(awaited, row, works, follows))


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
        run,
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
    arrivals: list[Arrival] = []
    for row in swept:
        db.execute("INSERT INTO sweep VALUES (?,?,?,?,?)", (row.run, row.first, row.last, pack(row.left), log.seq))
        rows.count(db, row.run, row.kind, Status.CANCELLED, 0, row.count)
        span = rows.span_at(db, row.span)
        if span.keyed and span.hold not in (Hold.LABEL, Hold.ONCE):
            tasks = tasks_in(row.first, row.last, row.left)
            keys.release(db, span, ((task, Status.CANCELLED) for task in tasks), now)
        ended = commits.Ended(tasks_in(row.first, row.last, row.left), Status.CANCELLED)
        arrivals += commits.arrivals_of(db, span, ended)
        rows.drop(db, row)
    log.close()
    # Joins of this run will never fire, and are not told.
    owners = joins.runs_of(db, {join for join, _, _ in arrivals})
    elsewhere = [each for each in arrivals if owners.get(each[0], run.id) != run.id]
    joins.arrive(db, [Arrivals(run.id, run.round + 1, elsewhere)], {})


def hold_to_caps(db: Db, grown: Collection[int], now: int) -> None:
    """Halt those of the runs that have more tasks than they may have."""
    capped = db.execute(CAPPED, (rows.ids(sorted(grown)),)).fetchall() if grown else []
    for run in map(rows.read_run, capped):
        (added,) = db.execute(COUNTED, (run.id, Tally.ADDED)).fetchall()[0]
        if (why := too_many(run, added)) is not None and not run.state.is_end:
            if run.state is not RunState.DRAINING:
                _begin_drain(db, run, RunState.HALTED, why)
            advance(db, rows.run_row(db, run.id), run.round, now)
