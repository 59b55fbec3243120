"""Runs in the SQLite store: starting, advancing, sweeping. One writer at a time is the run's lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, assert_never

from msgspec.structs import asdict

from ramify.model.arrivals import Arrival, Arrivals
from ramify.model.awaiting import AwaitingQuestions, awaits_others
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.moving import Drain, End, Move, Open, RunStanding, Stay, Ungate, next_move
from ramify.model.run import Advanced, NewRun, Order, RunState, StoredRun, ends_as, seconds_left, stalled, too_many
from ramify.model.segment import SegmentState, pack, tasks_in
from ramify.store.sqlite import commits, counters, joins, keys, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment

WORKING = "state IN (0, 1, 3)"
#: Where a run stands, with all of its live work that matters, in one statement; the columns are those of `RunStanding`.
STANDING = f"""SELECT id, state, round, becomes, ordering, endless, deadline, follows, lead,
    (SELECT led.round FROM run AS led WHERE led.id = run.follows AND led.ended IS NULL),
    (SELECT min(round) FROM segment INDEXED BY segment_run WHERE run = run.id AND {WORKING}) AS lowest,
    (SELECT min(round) FROM segment INDEXED BY gated WHERE run = run.id AND state = 1) AS gated,
    state = 'draining' AND EXISTS (SELECT 1 FROM segment WHERE run = run.id AND state = 3),
    state = 'draining' AND EXISTS (SELECT 1 FROM segment WHERE run = run.id AND state IN (0, 1, 2)),
    NOT EXISTS (SELECT 1 FROM segment INDEXED BY segment_run WHERE run = run.id AND {WORKING})
        AND EXISTS (SELECT 1 FROM segment INDEXED BY segment_run WHERE run = run.id AND state = 2)"""
ASKED = f"{STANDING} FROM carray(?) AS asked CROSS JOIN run ON id = asked.value"
#: The open runs that may be able to move: all but those that certainly are not, which are most. `next_move` judges.
#: What costs a search comes last on its side: there may be very many runs that wait.
MAY_MOVE = f"""SELECT * FROM ({STANDING} FROM run INDEXED BY run_open WHERE ended IS NULL) WHERE state = 'draining'
    OR state = 'open' AND (deadline <= ? OR NOT endless AND lowest IS NULL
        OR (ordering = 'rounds' OR round < 0) AND lowest > round
        OR gated <= iif(ordering = 'rounds', round, gated)) ORDER BY id"""

CAPPED = f"{rows.RUN} WHERE id IN (SELECT value FROM carray(?)) AND max_tasks IS NOT NULL"
AWAITED = (
    "SELECT DISTINCT waiter.task FROM joins CROSS JOIN waiter ON waiter.id = joins.id"
    " WHERE joins.run = ? AND NOT joins.fired"
)
UNGATE = "UPDATE segment INDEXED BY gated SET state = 0 WHERE run = ? AND round <= ? AND state = 1"
COUNTS = (
    "SELECT run, what, sum(counter.value) FROM carray(?) AS ending CROSS JOIN counter ON run = ending.value"
    " GROUP BY run, what"
)
WAITING = "INDEXED BY segment_run WHERE run IN (SELECT value FROM carray(?)) AND state = 2 ORDER BY id"
#: How many tasks of a run count: those that were added, without those that were replaced.
COUNTED = (
    f"SELECT ifnull(sum(iif(what = {Tally.ADDED:d}, value, -value)), 0) FROM counter"
    f" WHERE run = ? AND what IN ({Tally.ADDED:d}, {Status.REPLACED:d})"
)
WAKE = (
    "UPDATE segment INDEXED BY awaiting SET due = NULL, awaits = NULL"
    " WHERE awaits IS NOT NULL AND awaits IN (SELECT value FROM carray(?))"
)


def create(db: Db, new: NewRun, now: int, round: int) -> StoredRun:
    """Write the run row, at this round."""
    if new.follows is not None:
        rows.run_row(db, new.follows.run)
    follows, lead = (None, None) if new.follows is None else (new.follows.run, new.follows.lead)
    (since,) = db.execute(
        f"INSERT INTO run ({rows.RUN_COLUMNS}, becomes) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,NULL,?,NULL,"
        "(SELECT ifnull(max(seq), 0) FROM commits),NULL,?) RETURNING since",
        (
            new.id, new.name, new.generation, new.shape, new.order.value, follows, lead, new.endless, new.params,
            new.digest, new.shown, rows.write_owner(new.owner), new.max_running, new.max_tasks, new.deadline,
            new.fails_as.value, new.tolerates.value, RunState.OPEN.value, round, now, RunState.DONE.value,
        ),
    ).fetchall()[0]  # fmt: skip
    return StoredRun(**asdict(new), state=RunState.OPEN, round=round, reason=None, created=now, ended=None, since=since)


def movable(db: Db, limit: int, now: int) -> tuple[tuple[int, int], ...]:
    """Runs that `advance` would change, each with its round."""
    # Read to the end: a statement that is left half read costs the connection.
    found = map(_standing, db.execute(MAY_MOVE, (now,)).fetchall())
    moves = ((at, _next(db, at, now)) for at in found)
    return tuple(islice(((at.run, at.round) for at, move in moves if not isinstance(move, Stay)), limit))


def look(db: Db, asked: Sequence[tuple[int, int]], now: int) -> tuple[Advanced, ...] | None:
    """Return what `advance` would answer that changes nothing; None when there is something to change. It writes
    nothing.
    """
    moves = _moves(db, asked, now)
    still = (_answer(at, now, gated_by=move.gated_by) for at, move in moves if isinstance(move, Stay))
    return tuple(still) if all(isinstance(move, Stay) for _, move in moves) else None


def begin(db: Db, run: int, now: int) -> Advanced | None:
    """Open the next round of a run to which tasks were added, if some are ready or more may come; never an end."""
    at = standings(db, [run])[run]
    return _move(db, [(at, _next(db, at, now))], now)[0] if at.endless or at.lowest is not None else None


def advance(db: Db, asked: Sequence[tuple[int, int]], now: int) -> tuple[Advanced, ...]:
    """Judge runs in their turn; see the contract. Those that concern nobody else are moved together."""
    moves = _moves(db, asked, now)
    if len({run for run, _ in asked}) == len(asked) and all(_is_alone(at, move) for at, move in moves):
        return _move(db, moves, now)
    return tuple(_move(db, _moves(db, [each], now), now)[0] for each in asked)


def _is_alone(at: RunStanding, move: Move) -> bool:
    """Return whether neither its leader nor its sweep ties what becomes of a run to what becomes of others."""
    return at.leader is None and not isinstance(move, Drain) and not (isinstance(move, End) and at.waits)


def standings(db: Db, runs: Collection[int]) -> dict[int, RunStanding]:
    """Where these runs stand, in one statement however many they are."""
    found = db.execute(ASKED, (rows.ids(runs),)).fetchall() if runs else []
    known = {at.run: at for at in map(_standing, found)}
    for run in runs:
        if run not in known:
            raise rows.unknown(run)
    return known


def _standing(row: tuple[Any, ...]) -> RunStanding:
    run, state, round, bound_for, order, endless, *rest = row
    return RunStanding(run, RunState(state), round, RunState(bound_for), Order(order), bool(endless), *rest)


def _moves(db: Db, asked: Sequence[tuple[int, int]], now: int) -> list[tuple[RunStanding, Move]]:
    """How each of these goes on that is at the round at which it is believed to be."""
    known = standings(db, [run for run, _ in asked])
    each = ((known[run], round) for run, round in asked)
    return [(at, _next(db, at, now) if round == at.round else Stay()) for at, round in each]


def _next(db: Db, at: RunStanding, now: int) -> Move:
    return next_move(at, now, lambda run: _waits_for_others(db, run))


def _answer(at: RunStanding, now: int, *, moved: bool = False, gated_by: int | None = None) -> Advanced:
    left = seconds_left(at.deadline, at.bound_for, now) if at.state is RunState.OPEN else None
    return Advanced(at.state, at.round, moved, gated_by, left)


def _move(db: Db, moves: Sequence[tuple[RunStanding, Move]], now: int) -> tuple[Advanced, ...]:
    """Move runs on, in a few statements for those that open a round or end."""
    opened = [(move.round, at.run) for at, move in moves if isinstance(move, Open)]
    db.executemany("UPDATE run SET round = ? WHERE id = ?", opened)
    moved = [(at._replace(round=move.round) if isinstance(move, Open) else at, move) for at, move in moves]
    # Without a barrier the gate is opened for the rows of all rounds.
    opening = [at for at, move in moved if isinstance(move, Open | Ungate)]
    db.executemany(UNGATE, [(at.run, at.round if at.order is Order.ROUNDS else 2**62) for at in opening])
    ended = _end(db, [at for at, move in moved if isinstance(move, End)], now)
    answers: list[Advanced] = []
    for at, move in moved:
        match move:
            case Stay(gated_by):
                answers.append(_answer(at, now, gated_by=gated_by))
            case Drain(late):
                if late is not None:
                    _begin_drain(db, at.run, RunState.FAILED, late)
                answers.append(_drain(db, rows.run_row(db, at.run), now))
            case Open() | Ungate():
                answers.append(_answer(at, now, moved=True))
            case End():
                answers.append(ended[at.run])
            case _:
                assert_never(move)
    return tuple(answers)


def _begin_drain(db: Db, run: int, into: RunState, reason: str | None) -> None:
    db.execute(
        "UPDATE run SET state = ?, becomes = ?, reason = ? WHERE id = ?",
        (RunState.DRAINING.value, into.value, reason, run),
    )


def _is_any(db: Db, where: str, values: tuple[object, ...]) -> bool:
    return db.execute(f"SELECT 1 FROM {where} LIMIT 1", values).fetchone() is not None


def _waits_for_others(db: Db, run: int) -> bool:
    """Return whether a task of this run may still start because of what others do."""

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

    return awaits_others(run, AwaitingQuestions(awaited, row, works, follows))


def _end(db: Db, ending: Sequence[RunStanding], now: int) -> dict[int, Advanced]:
    """End runs; what of them waits for what can never come is swept."""
    if not ending:
        return {}
    numbers = rows.ids(at.run for at in ending)
    counts: dict[int, dict[int, int]] = defaultdict(dict)
    for run, what, many in db.execute(COUNTS, (numbers,)).fetchall():
        counts[run][what] = many
    waiting = rows.segments(db, WAITING, (numbers,)) if any(at.waits for at in ending) else []
    runs = rows.runs_at(db, (at.run for at in ending))
    answers: dict[int, Advanced] = {}
    closed: list[tuple[str, str | None, int, int]] = []
    for at in ending:
        run, counted = runs[at.run], counts[at.run]
        theirs = [row for row in waiting if row.run == run.id] if at.waits else []
        stuck = [task for row in theirs for task in tasks_in(row.first, row.last, row.left)]
        state = ends_as(
            run,
            at.bound_for,
            failures=counted.get(Status.FAILED, 0) + counted.get(Status.QUARANTINED, 0),
            cancelled=counted.get(Status.CANCELLED, 0),
            stuck=len(stuck),
        )
        sweep(db, run, theirs, now)
        reason = stalled(stuck) if stuck else run.reason if state is at.bound_for else None
        closed.append((state.value, reason, now, run.id))
        answers[run.id] = Advanced(state, run.round, moved=True)
    _close(db, closed)
    return answers


def _into(db: Db, run: StoredRun) -> RunState:
    """Return what the run was last drained into, and DONE if it never was."""
    (becomes,) = db.execute("SELECT becomes FROM run WHERE id = ?", (run.id,)).fetchall()[0]
    return RunState(becomes)


def _close(db: Db, closed: Sequence[tuple[str, str | None, int, int]]) -> None:
    """Runs are over: the state, the reason, when and the run of each."""
    db.executemany("UPDATE run SET state = ?, reason = ?, ended = ? WHERE id = ?", closed)
    ended = rows.ids(run for *_, run in closed)
    counters.close(db, ended)
    db.execute("DELETE FROM mark WHERE run IN (SELECT value FROM carray(?))", (ended,))
    db.execute(WAKE, (ended,))


def _drain(db: Db, run: StoredRun, now: int) -> Advanced:
    sweep(db, run, rows.segments(db, "WHERE run = ? AND state IN (0, 1, 2) ORDER BY id", (run.id,)), now)
    if _is_any(db, "segment WHERE run = ? AND state = 3", (run.id,)):
        return Advanced(run.state, run.round, moved=True)
    state = _into(db, run)
    _close(db, [(state.value, run.reason, now, run.id)])
    return Advanced(state, run.round, moved=True)


def sweep(db: Db, run: StoredRun, swept: Sequence[SqliteSegment], now: int) -> None:
    """End everything these rows stand for as cancelled: one range each instead of one event per task."""
    if not swept:
        return
    log = CommitLog(db, 0, 0, now)
    arrivals: list[Arrival] = []
    for row in swept:
        db.execute("INSERT INTO sweep VALUES (?,?,?,?,?)", (row.run, row.first, row.last, pack(row.left), log.seq))
        counters.count(db, row.run, row.kind, row.queue, Status.CANCELLED, 0, row.count)
        span = rows.span_at(db, row.span)
        if span.keyed and span.hold not in (Hold.LABEL, Hold.ONCE):
            tasks = tasks_in(row.first, row.last, row.left)
            keys.release(db, span, ((task, Status.CANCELLED) for task in tasks), now)
        ended = commits.EndedTasks(tasks_in(row.first, row.last, row.left), Status.CANCELLED)
        arrivals += commits.arrivals_of(db, span, ended)
        rows.drop(db, row)
    log.close()
    # Joins of this run will never fire, and are not told.
    owners = joins.runs_of(db, {join for join, _, _ in arrivals})
    elsewhere = [each for each in arrivals if owners.get(each[0], run.id) != run.id]
    joins.arrive(db, [Arrivals(run.id, run.round + 1, elsewhere)], {}, now)


def hold_to_caps(db: Db, grown: Collection[int], now: int) -> None:
    """Halt those of the runs that have more tasks than they may have."""
    capped = db.execute(CAPPED, (rows.ids(sorted(grown)),)).fetchall() if grown else []
    for run in map(rows.read_run, capped):
        (added,) = db.execute(COUNTED, (run.id,)).fetchall()[0]
        if (why := too_many(run, added)) is not None and not run.state.is_end:
            if run.state is not RunState.DRAINING:
                _begin_drain(db, run.id, RunState.HALTED, why)
            advance(db, [(run.id, run.round)], now)
