"""Runs in the reference store: starting, advancing, sweeping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict, replace

from ramify.model.arrivals import Arrival, Arrivals
from ramify.model.awaiting import Questions, awaits_others
from ramify.model.event import Status, Tally
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
from ramify.model.segment import SegmentState, tasks_in
from ramify.store.memory import joins, keys
from ramify.store.memory.place import Place, RunRow, SegmentRow
from ramify.store.reads import Sweep

WORKING = (SegmentState.READY, SegmentState.GATED, SegmentState.CLAIMED)


def create(place: Place, new: NewRun, now: int) -> RunRow:
    """Write the run row."""
    if new.follows is not None:
        place.run(new.follows.run)
    row = RunRow(new, RunState.OPEN, now, since=len(place.commits))
    place.runs[new.id] = row
    if new.name is not None:
        place.names[new.name, new.generation] = new.id
    return row


def as_run(row: RunRow) -> Run:
    """A run as readers see it."""
    return Run(
        **asdict(row.new),
        state=row.state,
        round=row.round,
        reason=row.reason,
        created=row.created,
        ended=row.ended,
        since=row.since,
        decision=row.decision,
    )


def live(place: Place, run: int) -> list[SegmentRow]:
    """All live rows of a run."""
    return [row for row in place.segments.values() if row.run == run and row.state <= SegmentState.CLAIMED]


def begin(place: Place, run: RunRow, now: int) -> None:
    """Open the next round of a run to which tasks were added, if any of them is ready. It never ends here."""
    if any(row.state in WORKING for row in live(place, run.new.id)):
        advance(place, run, run.round, now)


def advance(place: Place, run: RunRow, round: int, now: int) -> Advanced:
    """Judge the run; see the contract."""
    answer = _judge(place, run, round, now)
    return (
        replace(answer, time_left=seconds_left(run.new.deadline, run.into, now))
        if answer.state is RunState.OPEN
        else answer
    )


def _judge(place: Place, run: RunRow, round: int, now: int) -> Advanced:
    rows = live(place, run.new.id)
    if run.state not in (RunState.OPEN, RunState.DRAINING) or round != run.round:
        return Advanced(run.state, run.round)
    if run.state is RunState.OPEN and (late := too_late(run.new, run.into, now)) is not None:
        run.state, run.into, run.reason = RunState.DRAINING, RunState.FAILED, late
        return replace(_drain(place, run, rows, now), moved=True)
    if run.state is RunState.DRAINING:
        return _drain(place, run, rows, now)
    working = [row for row in rows if row.state in WORKING]
    barrier = run.new.order is Order.ROUNDS or run.round < 0
    if run.new.endless and not barrier:
        # A queue has no rounds and no end to judge, and may be long: nothing of it is counted.
        return Advanced(run.state, run.round, _ungate(run, rows))
    holding = [row for row in working if row.round <= round or not barrier]
    if holding:
        moved = _ungate(run, rows)
        return Advanced(run.state, run.round, moved, sum(row.count for row in holding))
    if working:
        return _open_next(place, run, min(row.round for row in working), rows)
    waiting = [row for row in rows if row.state is SegmentState.WAITING]
    if run.new.endless or (waiting and _waits_for_others(place, run)):
        return Advanced(run.state, run.round)
    return _end(place, run, waiting, now)


def _waits_for_others(place: Place, run: RunRow) -> bool:
    """Whether a task of this run may still start because of what others do."""

    def awaited(number: int) -> Iterable[int]:
        unfired = {join.id for join in place.joins.values() if join.run == number and not join.fired}
        return [task for join in unfired for task in place.linked.get(join, {}).values()]

    def row(task: int) -> tuple[int, SegmentState] | None:
        found = place.covering(task)
        return None if found is None else (found.run, found.state)

    def follows(number: int) -> int | None:
        leader = place.run(number).new.follows
        return None if leader is None else leader.run

    def works(number: int) -> bool:
        return any(each.state in WORKING for each in live(place, number))

    return awaits_others(run.new.id, Questions(awaited, row, works, follows))


def _open_next(place: Place, run: RunRow, next_round: int, rows: list[SegmentRow]) -> Advanced:
    follows = run.new.follows
    if follows is not None:
        leader = place.run(follows.run)
        if not leader.state.is_end and leader.round <= next_round + follows.lead:
            return Advanced(run.state, run.round, gated_by=follows.run)
    run.round = next_round
    _ungate(run, rows)
    return Advanced(run.state, run.round, moved=True)


def _ungate(run: RunRow, rows: list[SegmentRow]) -> bool:
    moved = [row for row in rows if row.state is SegmentState.GATED and run.state_for(row.round) is SegmentState.READY]
    for row in moved:
        row.state = SegmentState.READY
    return bool(moved)


def _end(place: Place, run: RunRow, waiting: list[SegmentRow], now: int) -> Advanced:
    stuck = [task for row in waiting for task in tasks_in(row.first, row.last, row.left)]
    state = ends_as(
        run.new,
        run.into,
        failures=_count(place, run, Status.FAILED, Status.QUARANTINED),
        cancelled=_count(place, run, Status.CANCELLED),
        stuck=len(stuck),
    )
    sweep(place, run, waiting, now)
    return _close(place, run, state, stalled(stuck) if stuck else run.reason if state is run.into else None, now)


def _count(place: Place, run: RunRow, *statuses: Status | Tally) -> int:
    counters = place.counters.items()
    return sum(count for (owner, _, what, _), count in counters if owner == run.new.id and what in statuses)


def _close(place: Place, run: RunRow, state: RunState, reason: str | None, now: int) -> Advanced:
    run.state, run.reason, run.ended = state, reason, now
    place.marks.pop(run.new.id, None)
    return Advanced(run.state, run.round, moved=True)


def _drain(place: Place, run: RunRow, rows: list[SegmentRow], now: int) -> Advanced:
    idle = [row for row in rows if row.state is not SegmentState.CLAIMED]
    sweep(place, run, idle, now)
    held = [row for row in live(place, run.new.id) if row.state is SegmentState.CLAIMED]
    if held:
        return Advanced(run.state, run.round, bool(idle), sum(row.count for row in held))
    return _close(place, run, run.into, run.reason, now)


def sweep(place: Place, run: RunRow, rows: Sequence[SegmentRow], now: int) -> None:
    """End everything these rows stand for as cancelled: one range each instead of one event per task.

    Keys are released and joins of other runs are told, as with every end; joins of this run will never fire.
    """
    if not rows:
        return
    seq = place.new_commit(0, 0, now)
    arrivals: list[Arrival] = []
    for row in rows:
        swept = Sweep(row.run, row.first, row.last, row.left, seq)
        place.sweeps[row.run].append(swept)
        place.commits[-1][2].append(swept)
        place.count(row.run, row.span.kind, Status.CANCELLED, 0, row.count)
        for task in tasks_in(row.first, row.last, row.left):
            keys.release(place, row.span, task, Status.CANCELLED, now)
            for join, slot in joins.memberships(place, task):
                if place.joins[join].run != run.new.id:
                    arrivals.append((join, slot, Status.CANCELLED))
        place.drop_segment(row)
    joins.arrive(place, [Arrivals(run.new.id, run.round + 1, arrivals)], {})


def hold_to_caps(place: Place, runs: Iterable[int], now: int) -> None:
    """Halt those of the runs that have more tasks than they may have."""
    for run in map(place.run, runs):
        why = too_many(run.new, _count(place, run, Tally.ADDED)) if run.new.max_tasks is not None else None
        if why is not None and not run.state.is_end:
            if run.state is not RunState.DRAINING:
                run.state, run.into, run.reason = RunState.DRAINING, RunState.HALTED, why
            advance(place, run, run.round, now)
