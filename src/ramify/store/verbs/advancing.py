"""Runs that go on: rounds that open, runs that drain and end. `model/moving.py` judges; here it is carried out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import assert_never

from msgspec.structs import replace

from ramify.errors import UnknownRun
from ramify.model.awaiting import AwaitingQuestions, awaits_others
from ramify.model.event import Status
from ramify.model.moving import Drain, End, Move, Open, RunStanding, Stay, Ungate, next_move
from ramify.model.run import Advanced, Order, RunState, StoredRun, ends_as, seconds_left, stalled, too_many
from ramify.model.segment import SegmentState
from ramify.store.changes import Changes, RunDrained, RunEnd
from ramify.store.rows import SegmentRow
from ramify.store.tables import Tables
from ramify.store.verbs.arriving import Arriving, EndedTasks
from ramify.store.verbs.keys import Keys
from ramify.store.verbs.lines import refill
from ramify.store.verbs.telling import tell_ends

#: After all rounds.
_ALL_ROUNDS = 2**62


def movable(tables: Tables, limit: int, now: int) -> tuple[tuple[int, int], ...]:
    """Runs that `advance` would change, each with its round."""
    moves = ((at, _next(tables, at, now)) for at in tables.may_move(now))
    return tuple(islice(((at.run, at.round) for at, move in moves if not isinstance(move, Stay)), limit))


def look(tables: Tables, asked: Sequence[tuple[int, int]], now: int) -> tuple[Advanced, ...] | None:
    """Return what `advance` would answer that changes nothing; None when there is something to change. It writes
    nothing.
    """
    moves = _moves(tables, asked, now)
    still = (_answer(at, now, gated_by=move.gated_by) for at, move in moves if isinstance(move, Stay))
    return tuple(still) if all(isinstance(move, Stay) for _, move in moves) else None


def unmoved(tables: Tables, asked: Sequence[tuple[int, int]], now: int) -> tuple[Advanced, ...]:
    """Return what `advance` answers whoever could not have the runs to themselves: where they stand."""
    known = _standings(tables, [run for run, _ in asked])
    return tuple(_answer(known[run], now) for run, _ in asked)


def begin(tables: Tables, run: int, now: int) -> Advanced | None:
    """Open the next round of a run to which tasks were added, if some are ready or more may come; never an end."""
    at = _standing(tables, run)
    if not at.endless and at.lowest is None:
        return None
    ended: list[StoredRun] = []
    (answer,) = _move(tables, [(at, _next(tables, at, now))], ended, now)
    tell_ends(tables, ended, now)
    return answer


def advance(tables: Tables, asked: Sequence[tuple[int, int]], now: int) -> tuple[Advanced, ...]:
    """Judge runs in their turn; see the contract. Those that concern nobody else are moved together."""
    ended: list[StoredRun] = []
    answers = _advance(tables, asked, ended, now)
    tell_ends(tables, ended, now)
    return answers


def _advance(
    tables: Tables, asked: Sequence[tuple[int, int]], ended: list[StoredRun], now: int
) -> tuple[Advanced, ...]:
    moves = _moves(tables, asked, now)
    if len({run for run, _ in asked}) == len(asked) and all(_is_alone(at, move) for at, move in moves):
        return _move(tables, moves, ended, now)
    return tuple(_move(tables, _moves(tables, [each], now), ended, now)[0] for each in asked)


def halt(tables: Tables, runs: Collection[int], now: int) -> Sequence[StoredRun]:
    """Halt those of the runs that have more tasks than they may have. Those that end are still to be told."""
    ended: list[StoredRun] = []
    counted = tables.counted(runs)
    for run in tables.runs(counted).values():
        if (why := too_many(run, counted[run.id])) is not None and not run.state.is_end:
            if run.state is not RunState.DRAINING:
                changes = Changes(0, 0, now, drained=[RunDrained(run.id, RunState.HALTED, why)])
                tables.write(changes)
            _advance(tables, [(run.id, run.round)], ended, now)
    return ended


def _is_alone(at: RunStanding, move: Move) -> bool:
    """Return whether neither its leader nor its sweep ties what becomes of a run to what becomes of others."""
    return at.leader is None and not isinstance(move, Drain) and not (isinstance(move, End) and at.waits)


def _standing(tables: Tables, run: int) -> RunStanding:
    return _standings(tables, [run])[run]


def _standings(tables: Tables, runs: Collection[int]) -> dict[int, RunStanding]:
    known = {at.run: at for at in tables.standings(runs)} if runs else {}
    for run in runs:
        if run not in known:
            raise UnknownRun(f"there is no run {run} in this store")
    return known


def _moves(tables: Tables, asked: Sequence[tuple[int, int]], now: int) -> list[tuple[RunStanding, Move]]:
    """How each of these goes on that is at the round at which it is believed to be."""
    known = _standings(tables, [run for run, _ in asked])
    each = ((known[run], round) for run, round in asked)
    return [(at, _next(tables, at, now) if round == at.round else Stay()) for at, round in each]


def _next(tables: Tables, at: RunStanding, now: int) -> Move:
    return next_move(at, now, lambda run: _waits_for_others(tables, run))


def _waits_for_others(tables: Tables, run: int) -> bool:
    """Return whether a task of this run may still start because of what others do."""

    def row(task: int) -> tuple[int, SegmentState] | None:
        found = tables.covering([task])
        return (found[0].run, found[0].state) if found else None

    def follows(number: int) -> int | None:
        leader = tables.runs([number])[number].follows
        return None if leader is None else leader.run

    return awaits_others(run, AwaitingQuestions(tables.awaited, row, tables.works, follows))


def _answer(at: RunStanding, now: int, *, moved: bool = False, gated_by: int | None = None) -> Advanced:
    left = seconds_left(at.deadline, at.bound_for, now) if at.state is RunState.OPEN else None
    return Advanced(at.state, at.round, moved, gated_by, left)


def _move(
    tables: Tables, moves: Sequence[tuple[RunStanding, Move]], over: list[StoredRun], now: int
) -> tuple[Advanced, ...]:
    """Move runs on; several at once only if they concern nobody else. Those that end are added to what is `over`."""
    changes = Changes(0, 0, now)
    moved = [(at._replace(round=move.round) if isinstance(move, Open) else at, move) for at, move in moves]
    changes.opened = [(at.round, at.run) for at, move in moved if isinstance(move, Open)]
    # Without a barrier the gate is opened for the rows of all rounds.
    opening = [at for at, move in moved if isinstance(move, Open | Ungate)]
    changes.ungated = [(at.run, at.round if at.order is Order.ROUNDS else _ALL_ROUNDS) for at in opening]
    ended = _end(tables, changes, [at for at, move in moved if isinstance(move, End)], over)
    answers: list[Advanced] = []
    headless: set[str] = set()
    for at, move in moved:
        match move:
            case Stay(gated_by):
                answers.append(_answer(at, now, gated_by=gated_by))
            case Drain(late):
                answers.append(_drain(tables, changes, at, late, headless, over))
            case Open() | Ungate():
                answers.append(_answer(at, now, moved=True))
            case End():
                answers.append(ended[at.run])
            case _:
                assert_never(move)
    if any(not isinstance(move, Stay) for _, move in moved):
        tables.write(changes)
    if headless:
        refill(tables, tables.limits(), headless, now)
    return tuple(answers)


def _end(tables: Tables, changes: Changes, ending: Sequence[RunStanding], over: list[StoredRun]) -> dict[int, Advanced]:
    """End runs; what of them waits for what can never come is swept."""
    if not ending:
        return {}
    numbers = [at.run for at in ending]
    runs, counts = tables.runs(numbers), tables.counts(numbers)
    answers: dict[int, Advanced] = {}
    for at in ending:
        run, counted = runs[at.run], counts.get(at.run, {})
        waiting = tables.rows_of(run.id, [SegmentState.WAITING]) if at.waits else ()
        stuck = [task for row in waiting for task in row.tasks]
        state = ends_as(
            run,
            at.bound_for,
            failures=counted.get(Status.FAILED, 0) + counted.get(Status.QUARANTINED, 0),
            cancelled=counted.get(Status.CANCELLED, 0),
            stuck=len(stuck),
        )
        sweep(tables, changes, run.id, run.round, waiting)
        reason = stalled(stuck) if stuck else run.reason if state is at.bound_for else None
        changes.ended.append(RunEnd(run.id, state, reason))
        over.append(replace(run, state=state, reason=reason))
        answers[run.id] = Advanced(state, run.round, moved=True)
    return answers


def _drain(
    tables: Tables, changes: Changes, at: RunStanding, late: str | None, headless: set[str], over: list[StoredRun]
) -> Advanced:
    run = tables.runs([at.run])[at.run]
    into, reason = at.bound_for, run.reason
    if late is not None:
        into, reason = RunState.FAILED, late
        changes.drained.append(RunDrained(at.run, into, late))
    states = [SegmentState.READY, SegmentState.GATED, SegmentState.WAITING, SegmentState.LIMITED]
    swept = tables.rows_of(at.run, states)
    headless.update(row.line for row in swept if row.line is not None)
    sweep(tables, changes, at.run, at.round, swept)
    if tables.rows_of(at.run, [SegmentState.CLAIMED], limit=1):
        return Advanced(RunState.DRAINING, at.round, moved=True)
    changes.ended.append(RunEnd(at.run, into, reason))
    over.append(replace(run, state=into, reason=reason))
    return Advanced(into, at.round, moved=True)


def sweep(tables: Tables, changes: Changes, run: int, round: int, swept: Sequence[SegmentRow]) -> None:
    """End everything these rows stand for as cancelled: one range each instead of one event per task."""
    if not swept:
        return
    changes.is_logged = True
    changes.swept += swept
    changes.dropped += swept
    spans = tables.spans({row.span for row in swept})
    keys = Keys(tables, changes)
    for row in swept:
        changes.counts[row.run, row.kind, row.queue, Status.CANCELLED] += row.count
        if spans[row.span].releases_keys:
            keys.release(spans[row.span], tables.keys_of(row.tasks), _cancelled(row))
    # Joins of this run will never fire, and are not told.
    waiters = [each for row in swept for each in tables.waiters(row.tasks)]
    named = {join for _, join, _ in waiters} | {span.join for span in spans.values() if span.join is not None}
    owners = tables.runs_of_joins(named)
    elsewhere = [each for each in waiters if owners.get(each[1], run) != run]
    arriving = Arriving(tables, changes, {}, elsewhere)
    arriving.leave(run, round + 1, map(_cancelled, swept))
    for row in swept:
        span = spans[row.span]
        is_told = span.join is not None and owners.get(span.join, run) != run
        arriving.add(run, round + 1, span if is_told else replace(span, join=None), _cancelled(row))
    arriving.settle()


def _cancelled(row: SegmentRow) -> EndedTasks:
    return EndedTasks(row.tasks, Status.CANCELLED)
