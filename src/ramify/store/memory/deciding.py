"""People's decisions in the reference store: pausing, resuming and cancelling runs, settling tasks.

What follows from a decision is said by `ramify.model.deciding`; here it is written.
"""

from __future__ import annotations

from ramify.model.arrivals import Arrivals
from ramify.model.deciding import AfterDecision, Settle, cancelled, decide, settling
from ramify.model.decision import Said, What
from ramify.model.event import Status, fold
from ramify.model.mark import Settled
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.store.memory import claims, commits, joins, runs
from ramify.store.memory.tables import MemorySegment, MemorySpan, MemoryTables, RunRow
from ramify.store.reads import RunDecision


def note(tables: MemoryTables, run: RunRow, what: What, said: Said, now: int) -> bool:
    """Note a decision in a commit of its own, and move the run; False when it changes nothing."""
    moved = decide(what, run.state, run.decision, said, now)
    if moved is not None:
        tables.new_commit(0, 0, now)
        keep(tables, run, moved)
    return moved is not None


def keep(tables: MemoryTables, run: RunRow, moved: AfterDecision) -> None:
    """Keep a decision in the newest commit, and move the run."""
    run.state = moved.state
    run.decisions.append(RunDecision(run.new.id, len(tables.commits), moved.decision))


def pause(tables: MemoryTables, run: RunRow, said: Said, now: int) -> RunState:
    """Put every claimable row of the run behind the gate."""
    if note(tables, run, What.PAUSED, said, now):
        for row in runs.live(tables, run.new.id):
            if row.state in (SegmentState.READY, SegmentState.LIMITED):
                # The head of a line was due when its place opens: it asks again when it is back.
                row.state, row.due, row.line = SegmentState.GATED, None if row.line is not None else row.due, None
    return run.state


def resume(tables: MemoryTables, run: RunRow, said: Said, now: int) -> RunState:
    """Open the gate again."""
    was = run.state
    if note(tables, run, What.RESUMED, said, now) and was is RunState.PAUSED:
        runs.advance(tables, run, run.round, now)
    return run.state


def cancel(tables: MemoryTables, run: RunRow, said: Said, into: RunState, now: int) -> Settled:
    """Drain the run; when nobody holds anything of it any more, it ends here."""
    before = run.state
    if note(tables, run, What.CANCELLED, said, now):
        assert run.decision is not None
        run.into, run.reason = into, run.decision.reason or None
    if run.state is RunState.DRAINING:
        runs.advance(tables, run, run.round, now)
    return cancelled(before, run.state)


def settle(tables: MemoryTables, run: RunRow, ask: Settle, now: int) -> Settled:
    """End a task that nobody holds; leave a mark on one that is held, and for its descendants."""
    span, row = tables.published(ask.task), tables.covering(ask.task)
    plan = settling(
        ask,
        run.new.id,
        run.state,
        is_here=span is not None and span.run == run.new.id,
        row=None if row is None else row.state,
        life=lambda: fold(tables.events.get(ask.task, ())).life,
        is_marked=lambda mark: mark in tables.marks.get(run.new.id, ()),
    )
    if plan.mark is not None:
        tables.marks[run.new.id].append(plan.mark)
    if plan.events:
        assert span is not None
        assert row is not None
        tables.new_commit(0, 0, now)
        statuses, values = [status for status, _ in plan.events], [value for _, value in plan.events]
        if plan.ends:
            _end(tables, span, row, ask.task, statuses, values, now)
        else:
            for status, value in plan.events:
                tables.write_event(ask.task, status, value)
                tables.count(span.run, span.kind, span.queue, status, 0)
            row.attempt = max(row.attempt, len(tables.events[ask.task]))
    return plan.answer


def _end(
    tables: MemoryTables,
    span: MemorySpan,
    row: MemorySegment,
    task: int,
    statuses: list[Status],
    values: list[bytes | None],
    now: int,
) -> None:
    """The end of a task that nobody holds: a claim and a commit in one."""
    row = claims.around(tables, row, task)
    commits.write_ends(tables, span, [task] * len(statuses), statuses, values, 0, now)
    arrivals = joins.leave(tables, [task]) + commits.arrivals_of(tables, row, [task])
    joins.take_out(tables, row, [task])
    joins.arrive(tables, [Arrivals(span.run, row.round + 1, arrivals)], {}, now)
