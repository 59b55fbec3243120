"""New lives in the reference store: `reopen`, the deliberate second chance of ended tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from ramify.model import reopening
from ramify.model.arrivals import due_after
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.outcome import storable
from ramify.model.reopening import Candidate, Reopened
from ramify.model.run import Order, RunState
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, trim
from ramify.store.memory import claims, commits, editions, joins, keys, runs
from ramify.store.memory.adding import rank
from ramify.store.memory.tables import MemorySpan, MemoryTables, RunRow


def reopen(
    tables: MemoryTables,
    run: RunRow,
    tasks: Sequence[int],
    settle: Mark | None,
    why: bytes | None,
    process: int,
    now: int,
) -> Reopened:
    """Begin new lives; see the contract."""
    reopening.check(runs.as_run(run), tasks)
    if run.state is RunState.DRAINING:
        return Reopened(round=run.round)
    ask = reopening.ReopeningQuestions(
        candidates=lambda tasks: _candidates(tables, run.new.id, tasks, now),
        joins=lambda wanted: {join: tables.joins[join] for join in wanted},
        edition=lambda makers: editions.find(tables, run.new.id, makers),
    )
    found = reopening.reopen(run.new.id, tasks, ask)
    for heir, join, slot in found.disowned:
        joins.disown(tables, heir, join, slot)
    for task in found.waiting:
        _take_back(tables, task)
    ended, superseded = found.ended, tuple(found.superseded)
    if not ended:
        return Reopened((), superseded, run.round, held=found.edition.held)
    replaced = editions.replace(tables, run, found.edition, process, now)
    tables.new_commit(process, 0, now)
    named = set() if settle is None else set(tasks)
    for task, status in ended.items():
        keys.retake(tables, _span(tables, task), task)
        _write_reopened(tables, task, status, why, process, settle if task in named else None)
    at = run.round + 1
    if run.state.is_end:
        # What it was cancelled for is kept: it may end as cancelled again.
        run.reason = None if run.into is RunState.DONE else run.reason
        run.state, run.ended = RunState.OPEN, None
    _offer(tables, run, [*ended, *found.waiting], at, now)
    if settle is not None:
        said = (storable(settle.reason), settle.value, storable(settle.by))
        tables.marks[run.new.id] += (
            Mark(run.new.id, Scope.TASK, task, settle.status, *said) for task in ended if task in named
        )
    return Reopened(tuple(sorted(ended)), superseded, at, found.makers, replaced)


def _candidates(tables: MemoryTables, run: int, tasks: Collection[int], now: int) -> dict[int, Candidate]:
    """Return those of some tasks that are published tasks of a run."""
    found: dict[int, Candidate] = {}
    for task in tasks:
        span = tables.published(task)
        if span is not None and span.run == run:
            slots = joins.memberships(tables, task)
            heirs = [(heir, *slot) for slot in slots for heir in joins.heirs(tables, task, *slot)]
            found[task] = Candidate(joins.ending(tables, task), keys.taken_by(tables, span, task, now), slots, heirs)
    return found


def _span(tables: MemoryTables, task: int) -> MemorySpan:
    span = tables.published(task)
    assert span is not None
    return span


def _write_reopened(
    tables: MemoryTables, task: int, status: Status, why: bytes | None, process: int, settle: Mark | None
) -> None:
    span = _span(tables, task)
    tables.count(span.run, span.kind, span.queue, status, process, -1)
    for written, value in ((Status.REOPENED, why), *(() if settle is None else settle.told)):
        tables.write_event(task, written, value)
        tables.count(span.run, span.kind, span.queue, written, process)


def _take_back(tables: MemoryTables, task: int) -> None:
    """Remove an unfinished task from its row; whoever holds that row loses it."""
    row = tables.covering(task)
    if row is None:
        return
    if row.state is SegmentState.CLAIMED:
        commits.put_back(tables, row)
    joins.take_out(tables, claims.around(tables, row, task), [task])


def _offer(tables: MemoryTables, run: RunRow, tasks: Sequence[int], at: int, now: int) -> None:
    """Masked rows for the tasks: waiting where their join is not full, else in the later round."""
    groups: dict[tuple[int, int, bool, int | None], list[int]] = defaultdict(list)
    for task in sorted(tasks):
        span = _span(tables, task)
        join = tables.joins.get(task)
        waits = join is not None and not join.is_full
        if join is not None and not waits:
            join.fired = True
        due = None if join is None else due_after(join, span.due, now)
        groups[span.first, (task - span.first) // MASK_WIDTH, waits, due].append(task)
    for (first, _, waits, due), members in groups.items():
        span = tables.spans[first]
        low, last, left = trim(members[0], mask_of(members, members[0]))
        round = at if run.new.order is Order.ROUNDS else span.round
        state = SegmentState.WAITING if waits else run.state_for(round)
        highest = max(len(tables.events.get(task, ())) for task in members)
        tables.add_segment(
            span, round=round, first=low, last=last, left=left, rank=rank(run, span, now), due=due, state=state,
            attempt=highest,
        )  # fmt: skip
