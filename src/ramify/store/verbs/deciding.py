"""People's decisions: pausing, resuming and cancelling runs, settling tasks.

What follows from a decision is said by `ramify.model.deciding`; here it is carried out.
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.deciding import Settle, Settling, cancelled, decide, settling
from ramify.model.decision import Said, What
from ramify.model.mark import Settled
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import MASK_WIDTH, mask_of
from ramify.store.changes import Changes, RunDecided, RunDrained
from ramify.store.rows import SegmentRow, SpanRow
from ramify.store.tables import Tables
from ramify.store.verbs import advancing
from ramify.store.verbs.arriving import Arriving, EndedTasks
from ramify.store.verbs.keys import Keys
from ramify.store.verbs.lines import lines_of, refill


def run_of(tables: Tables, run: int) -> StoredRun:
    """One run; UnknownRun when there is none."""
    found = tables.runs([run], decides=True)
    if run not in found:
        raise UnknownRun(f"there is no run {run} in this store")
    return found[run]


def note(changes: Changes, run: StoredRun, what: What, said: Said) -> RunDecided | None:
    """Note a decision about a run; None when it changes nothing."""
    moved = decide(what, run.state, run.decision, said, changes.now)
    if moved is None:
        return None
    decided = RunDecided(run.id, moved.state, moved.decision)
    changes.decide(decided)
    return decided


def pause(tables: Tables, number: int, said: Said, now: int) -> RunState:
    """Put every claimable row of the run behind the gate."""
    run, changes = run_of(tables, number), Changes(0, 0, now)
    paused = note(changes, run, What.PAUSED, said)
    if paused is None:
        return run.state
    limits = tables.limits()
    lines = tables.lines_headed_by(run.id) if limits else ()
    changes.gated.append(run.id)
    tables.write(changes)
    refill(tables, limits, lines, now)
    return paused.state


def resume(tables: Tables, number: int, said: Said, now: int) -> RunState:
    """Open the gate again."""
    run, changes = run_of(tables, number), Changes(0, 0, now)
    resumed = note(changes, run, What.RESUMED, said)
    if resumed is None:
        return run.state
    tables.write(changes)
    if run.state is RunState.PAUSED:
        return advancing.advance(tables, [(run.id, run.round)], now)[0].state
    return resumed.state


def cancel(tables: Tables, number: int, said: Said, into: RunState, now: int) -> Settled:
    """Drain the run; when nobody holds anything of it any more, it ends here."""
    run, changes = run_of(tables, number), Changes(0, 0, now)
    draining = note(changes, run, What.CANCELLED, said)
    if draining is not None:
        changes.drained.append(RunDrained(run.id, into, draining.decision.reason or None))
        tables.write(changes)
    elif run.state is not RunState.DRAINING:
        return cancelled(run.state, run.state)
    return cancelled(run.state, advancing.advance(tables, [(run.id, run.round)], now)[0].state)


def settle(tables: Tables, number: int, ask: Settle, now: int) -> Settled:
    """End a task that nobody holds; leave a mark on one that is held, and for its descendants."""
    run = run_of(tables, number)
    span, rows = tables.spans_of([ask.task]).get(ask.task), tables.covering([ask.task])
    plan = settling(
        ask,
        run.id,
        run.state,
        is_here=span is not None and span.published and span.run == run.id,
        row=rows[0].state if rows else None,
        life=lambda: tables.life(ask.task),
        is_marked=lambda mark: mark in tables.marks_of(run.id),
    )
    changes, limits = Changes(0, 0, now), tables.limits()
    lines = lines_of(limits, rows) if plan.ends else ()
    if plan.mark is not None:
        changes.marks.append(plan.mark)
    if plan.events:
        assert span is not None
        _tell(tables, changes, span, rows[0], ask.task, plan)
    if plan.mark is not None or plan.events:
        tables.write(changes)
        refill(tables, limits, lines, now)
    return plan.answer


def _tell(tables: Tables, changes: Changes, span: SpanRow, row: SegmentRow, task: int, plan: Settling) -> None:
    changes.is_logged = True
    before = tables.numbers([task]).get(task, 0)
    for n, (status, value) in enumerate(plan.events, before + 1):
        changes.tell([task], (task, task), n, status, [value])
        changes.counts[span.run, span.kind, span.queue, status] += 1
    if plan.ends:
        # A claim and a commit in one.
        ended = EndedTasks([task], plan.events[-1][0])
        if span.releases_keys:
            Keys(tables, changes).release(span, tables.keys_of([task]), ended)
        changes.unmarked.append((span.run, task))
        arriving = Arriving(tables, changes, {}, tables.waiters([task]))
        arriving.leave(span.run, row.round + 1, [ended])
        arriving.add(span.run, row.round + 1, span, ended)
        take_out(changes, around(changes, row, task), [task])
        arriving.settle()
    else:
        # Whoever holds it must number its next event after these.
        row.attempt = max(row.attempt, before + len(plan.events))
        changes.masked.append(row)


def around(changes: Changes, row: SegmentRow, task: int) -> SegmentRow:
    """A row of maskable width that holds `task`, split off a wider one if need be."""
    while row.last - row.first + 1 > MASK_WIDTH:
        head = row.split_off(row.first + MASK_WIDTH * max(1, (task - row.first) // MASK_WIDTH))
        changes.segments.append(head)
        if row.id and (not changes.cut or changes.cut[-1] is not row):
            changes.cut.append(row)
        row = head if task <= head.last else row
    return row


def take_out(changes: Changes, row: SegmentRow, tasks: list[int]) -> None:
    """Clear the bits of `tasks`; the row goes when nothing is left of it."""
    row.left = row.bits & ~mask_of(tasks, row.first)
    if row.id:
        (changes.masked if row.left else changes.dropped).append(row)
    elif not row.left:
        changes.segments.remove(row)


def cut_out(changes: Changes, row: SegmentRow, first: int, last: int) -> int:
    """Take the tasks of a range out of a stored row, ranges in their order; how many those were. What stays of a wide
    row stays wide.
    """
    if row.last - row.first < MASK_WIDTH:
        tasks = [task for task in row.tasks if first <= task <= last]
        if tasks:
            take_out(changes, row, tasks)
        return len(tasks)
    if row.first < first:
        changes.segments.append(row.split_off(first))
    if row.last <= last:
        changes.dropped.append(row)
        return row.count
    changes.cut.append(row)
    return row.split(last + 1).count
