"""Runs in the reference store: starting, advancing, sweeping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import assert_never

from msgspec.structs import asdict, replace

from ramify.model.arrivals import Arrivals
from ramify.model.awaiting import AwaitingQuestions, awaits_others
from ramify.model.event import Status, Tally
from ramify.model.moving import Drain, End, Move, Open, RunStanding, Stay, Ungate, next_move
from ramify.model.run import Advanced, NewRun, RunState, StoredRun, ends_as, seconds_left, stalled, too_many
from ramify.model.segment import LIVE_STATES, SegmentState, tasks_in
from ramify.store.memory import joins, keys, topics
from ramify.store.memory.tables import MemorySegment, MemoryTables, RunRow
from ramify.store.reads import Sweep

WORKING = (SegmentState.READY, SegmentState.GATED, SegmentState.CLAIMED, SegmentState.LIMITED)


def create(tables: MemoryTables, new: NewRun, since: int, now: int) -> RunRow:
    """Write the run row; its start is in the log right after `since`."""
    row = RunRow(new, RunState.OPEN, now, since)
    tables.runs[new.id] = row
    if new.name is not None:
        tables.names[new.name, new.generation] = new.id
    return row


def as_run(row: RunRow) -> StoredRun:
    """A run as readers see it."""
    return StoredRun(
        **asdict(row.new),
        state=row.state,
        round=row.round,
        reason=row.reason,
        created=row.created,
        ended=row.ended,
        since=row.since,
        decision=row.decision,
    )


def live(tables: MemoryTables, run: int) -> list[MemorySegment]:
    """All live rows of a run."""
    return [row for row in tables.segments.values() if row.run == run and row.state in LIVE_STATES]


def begin(tables: MemoryTables, run: RunRow, now: int) -> None:
    """Open the next round of a run to which tasks were added, if some are ready or more may come; never an end."""
    if run.new.endless or any(row.state in WORKING for row in live(tables, run.new.id)):
        advance(tables, run, run.round, now)


def movable(tables: MemoryTables, limit: int, now: int) -> tuple[tuple[int, int], ...]:
    """Runs that `advance` would change, each with its round."""
    rows: dict[int, list[MemorySegment]] = {
        number: [] for number, run in sorted(tables.runs.items()) if run.ended is None
    }
    for row in tables.segments.values():
        if row.state in LIVE_STATES and row.run in rows:
            rows[row.run].append(row)
    moves = ((tables.run(number), _next(tables, tables.run(number), some, now)) for number, some in rows.items())
    return tuple(islice(((run.new.id, run.round) for run, move in moves if not isinstance(move, Stay)), limit))


def advance(tables: MemoryTables, run: RunRow, round: int, now: int) -> Advanced:
    """Judge the run; see the contract."""
    move = Stay() if round != run.round else _next(tables, run, live(tables, run.new.id), now)
    answer = _move(tables, run, move, now)
    return (
        replace(answer, time_left=seconds_left(run.new.deadline, run.into, now))
        if answer.state is RunState.OPEN
        else answer
    )


def _next(tables: MemoryTables, run: RunRow, rows: Sequence[MemorySegment], now: int) -> Move:
    new = run.new
    leader = None if new.follows is None else tables.run(new.follows.run)
    lowest = min((row.round for row in rows if row.state in WORKING), default=None)
    at = RunStanding(
        new.id, run.state, run.round, run.into, new.order, new.endless, new.deadline,
        leader=None if leader is None else leader.new.id,
        lead=None if new.follows is None else new.follows.lead,
        leader_round=None if leader is None or leader.state.is_end else leader.round,
        lowest=lowest,
        gated=min((row.round for row in rows if row.state is SegmentState.GATED), default=None),
        held=any(row.state is SegmentState.CLAIMED for row in rows),
        loose=any(row.state is not SegmentState.CLAIMED for row in rows),
        waits=lowest is None and any(row.state is SegmentState.WAITING for row in rows),
    )  # fmt: skip
    return next_move(at, now, lambda run: _waits_for_others(tables, run))


def _move(tables: MemoryTables, run: RunRow, move: Move, now: int) -> Advanced:
    match move:
        case Stay(gated_by):
            return Advanced(run.state, run.round, gated_by=gated_by)
        case Drain(late):
            if late is not None:
                run.state, run.into, run.reason = RunState.DRAINING, RunState.FAILED, late
            return _drain(tables, run, now)
        case Open(round):
            run.round = round
            _ungate(tables, run)
            return Advanced(run.state, run.round, moved=True)
        case Ungate():
            _ungate(tables, run)
            return Advanced(run.state, run.round, moved=True)
        case End():
            return _end(tables, run, now)
        case _:
            assert_never(move)


def _waits_for_others(tables: MemoryTables, run: int) -> bool:
    """Return whether a task of this run may still start because of what others do."""

    def awaited(number: int) -> Iterable[int]:
        unfired = {join.id for join in tables.joins.values() if join.run == number and not join.fired}
        return [task for join in unfired for task in tables.linked.get(join, {}).values()]

    def row(task: int) -> tuple[int, SegmentState] | None:
        found = tables.covering(task)
        return None if found is None else (found.run, found.state)

    def follows(number: int) -> int | None:
        leader = tables.run(number).new.follows
        return None if leader is None else leader.run

    def works(number: int) -> bool:
        return any(each.state in WORKING for each in live(tables, number))

    return awaits_others(run, AwaitingQuestions(awaited, row, works, follows))


def _ungate(tables: MemoryTables, run: RunRow) -> None:
    for row in live(tables, run.new.id):
        if row.state is SegmentState.GATED:
            row.state = run.state_for(row.round)


def _end(tables: MemoryTables, run: RunRow, now: int) -> Advanced:
    waiting = [row for row in live(tables, run.new.id) if row.state is SegmentState.WAITING]
    stuck = [task for row in waiting for task in tasks_in(row.first, row.last, row.left)]
    state = ends_as(
        run.new,
        run.into,
        failures=_count(tables, run, Status.FAILED, Status.QUARANTINED),
        cancelled=_count(tables, run, Status.CANCELLED),
        stuck=len(stuck),
    )
    sweep(tables, run, waiting, now)
    return _close(tables, run, state, stalled(stuck) if stuck else run.reason if state is run.into else None, now)


def _count(tables: MemoryTables, run: RunRow, *statuses: Status | Tally) -> int:
    counters = tables.counters.items()
    return sum(count for (owner, _, _, what, _), count in counters if owner == run.new.id and what in statuses)


def _close(tables: MemoryTables, run: RunRow, state: RunState, reason: str | None, now: int) -> Advanced:
    run.state, run.reason, run.ended = state, reason, now
    topics.tell_end(tables, as_run(run), now)
    tables.marks.pop(run.new.id, None)
    for row in tables.segments.values():
        if row.awaits == run.new.id:
            row.due = row.awaits = None
    return Advanced(run.state, run.round, moved=True)


def _drain(tables: MemoryTables, run: RunRow, now: int) -> Advanced:
    sweep(tables, run, [row for row in live(tables, run.new.id) if row.state is not SegmentState.CLAIMED], now)
    if live(tables, run.new.id):
        return Advanced(run.state, run.round, moved=True)
    return _close(tables, run, run.into, run.reason, now)


def sweep(tables: MemoryTables, run: RunRow, rows: Sequence[MemorySegment], now: int) -> None:
    """End everything these rows stand for as cancelled: one range each instead of one event per task.

    Keys are released and joins of other runs are told, as with every end; joins of this run will never fire.
    """
    if not rows:
        return
    seq = tables.new_commit(0, 0, now)
    for row in rows:
        swept = Sweep(row.run, row.first, row.last, row.left, seq)
        tables.sweeps[row.run].append(swept)
        tables.commits[-1][2].append(swept)
    swept_tasks = [task for row in rows for task in tasks_in(row.first, row.last, row.left)]
    arrivals = joins.leave(tables, swept_tasks, run.new.id)
    for row in rows:
        tables.count(row.run, row.span.kind, row.span.queue, Status.CANCELLED, 0, row.count)
        for task in tasks_in(row.first, row.last, row.left):
            keys.release(tables, row.span, task, Status.CANCELLED, now)
            for join, slot in joins.memberships(tables, task):
                if tables.joins[join].run != run.new.id:
                    arrivals.append((join, slot, Status.CANCELLED))
        tables.drop_segment(row)
    joins.arrive(tables, [Arrivals(run.new.id, run.round + 1, arrivals)], {}, now)


def bounded(tables: MemoryTables) -> Mapping[int, int]:
    """How many tasks were ever added to each run that is bounded."""
    runs = ((number, run) for number, run in tables.runs.items() if run.new.max_tasks is not None)
    return {number: _count(tables, run, Tally.ADDED) for number, run in runs}


def hold_to_caps(tables: MemoryTables, before: Mapping[int, int], now: int) -> None:
    """Halt those of the bounded runs that have grown since, and have more tasks than they may have."""
    for run in [tables.run(number) for number, many in bounded(tables).items() if many > before.get(number, many)]:
        why = too_many(run.new, _count(tables, run, Tally.ADDED) - _count(tables, run, Status.REPLACED))
        if why is not None and not run.state.is_end:
            if run.state is not RunState.DRAINING:
                run.state, run.into, run.reason = RunState.DRAINING, RunState.HALTED, why
            advance(tables, run, run.round, now)
