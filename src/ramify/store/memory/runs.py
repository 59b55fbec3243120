"""Runs in the reference store: starting, advancing, cancelling, pausing."""

from __future__ import annotations

from collections.abc import Sequence

from ramify.errors import BadPayload
from ramify.model.event import Status
from ramify.model.mark import CancelAnswer, Mark, Scope, reason_value
from ramify.model.run import Advanced, NewRun, Order, Run, RunState, ends_as, stalled
from ramify.model.segment import SegmentState, tasks_in
from ramify.store.memory import claims, commits, joins, keys
from ramify.store.memory.place import Place, RunRow, SegmentRow
from ramify.store.reads import Sweep

WORKING = (SegmentState.READY, SegmentState.GATED, SegmentState.CLAIMED)


def create(place: Place, new: NewRun, now: int) -> RunRow:
    """Write the run row."""
    if new.follows is not None and new.follows.run == new.id:
        raise BadPayload(f"run {new.id} cannot follow itself")
    if new.follows is not None:
        place.run(new.follows.run)
    row = RunRow(new, RunState.OPEN, now)
    place.runs[new.id] = row
    if new.name is not None:
        place.names[new.name, new.generation] = new.id
    return row


def as_run(row: RunRow) -> Run:
    """A run as readers see it."""
    n = row.new
    return Run(
        n.id, n.name, n.generation, n.shape, n.order, n.follows, n.endless, n.params, n.roots,
        row.state, row.round, row.reason, row.created, row.ended,
    )  # fmt: skip


def live(place: Place, run: int) -> list[SegmentRow]:
    """All live rows of a run."""
    return [row for row in place.segments.values() if row.run == run and row.state <= SegmentState.CLAIMED]


def advance(place: Place, run: RunRow, round: int, now: int) -> Advanced:
    """Judge the run; see the contract."""
    rows = live(place, run.new.id)
    if run.state not in (RunState.OPEN, RunState.DRAINING) or round != run.round:
        return Advanced(run.state, run.round)
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
    if run.new.endless:
        return Advanced(run.state, run.round)
    return _end(place, run, [row for row in rows if row.state is SegmentState.WAITING], now)


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
        run.into,
        failures=_count(place, run, Status.FAILED, Status.QUARANTINED),
        cancelled=_count(place, run, Status.CANCELLED),
        stuck=len(stuck),
    )
    sweep(place, run, waiting, now)
    return _close(place, run, state, stalled(stuck) if stuck else run.reason if state is run.into else None, now)


def _count(place: Place, run: RunRow, *statuses: Status) -> int:
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
    arrivals: list[joins.Arrival] = []
    for row in rows:
        swept = Sweep(row.run, row.first, row.last, row.left, seq)
        place.sweeps[row.run].append(swept)
        place.commits[-1][2].append(swept)
        place.count(row.run, row.span.kind, Status.CANCELLED, 0, row.count)
        for task in tasks_in(row.first, row.last, row.left):
            keys.release(place, row.span, task, Status.CANCELLED, now)
            arrivals += ((join, slot, True) for join, slot in joins.memberships(place, task))
        place.drop_segment(row)
    elsewhere = [a for a in arrivals if a[0] in place.joins and place.joins[a[0]].run != run.new.id]
    joins.settle(place, elsewhere, (), run.new.id, run.round + 1, now)


def gate_all(place: Place, run: int) -> None:
    """Put every claimable row of a run behind the gate."""
    for row in live(place, run):
        if row.state is SegmentState.READY:
            row.state = SegmentState.GATED


def cancel_run(place: Place, run: RunRow, reason: str, into: RunState, now: int) -> CancelAnswer:
    """Drain the run; when nobody holds anything of it, it ends here."""
    if run.state.is_end:
        return CancelAnswer.ENDED
    if run.state is not RunState.DRAINING:
        run.state, run.into, run.reason = RunState.DRAINING, into, reason or None
    return CancelAnswer.CERTAIN if advance(place, run, run.round, now).state.is_end else CancelAnswer.REQUESTED


def cancel_task(place: Place, run: RunRow, task: int, below: bool, reason: str, now: int) -> CancelAnswer:
    """End a task that nobody holds; leave a mark on one that is held, and with `below` for its descendants."""
    span = place.published(task)
    if span is None or span.run != run.new.id:
        return CancelAnswer.UNKNOWN
    if run.state.is_end:
        return CancelAnswer.ENDED
    if below:
        place.marks[run.new.id].append(Mark(run.new.id, Scope.SUBTREE, task, Status.CANCELLED, reason))
    row = place.covering(task)
    if row is None:
        return CancelAnswer.REQUESTED if below else CancelAnswer.ENDED
    if row.state is SegmentState.CLAIMED:
        if not below:
            place.marks[run.new.id].append(Mark(run.new.id, Scope.TASK, task, Status.CANCELLED, reason))
        return CancelAnswer.REQUESTED
    row = claims.around(place, row, task)
    place.new_commit(0, 0, now)
    commits.write_ends(place, span, [task], [Status.CANCELLED], [reason_value(reason)], 0, now)
    arrivals = commits.arrivals_of(place, span, [task])
    joins.take_out(place, row, [task])
    joins.settle(place, arrivals, (), run.new.id, row.round + 1, now)
    return CancelAnswer.REQUESTED if below else CancelAnswer.CERTAIN
