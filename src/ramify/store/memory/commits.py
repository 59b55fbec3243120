"""Commits in the reference store: the one path that writes ends.

Order within a part: what tasks set in the context; events with their counters and key releases; then joins, children,
waiters and staged ranges; then arrivals. Keys are released before children ask for them, so that a task may hand its
key to its successor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrival, Arrivals
from ramify.model.commit import NO_TIMES, Part, check_part, check_together
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.lanes import apart
from ramify.model.links import check_once
from ramify.model.mark import Scope
from ramify.model.process import Stamp
from ramify.model.segment import SegmentState, full, mask_of, tasks_in, trim
from ramify.model.task import NewTasks
from ramify.store.memory import adding, claims, context, entries, joins, keys, lines, runs, topics
from ramify.store.memory.tables import MemorySegment, MemorySpan, MemoryTables
from ramify.store.reads import Refusal


def check(tables: MemoryTables, stamp: Stamp, parts: Sequence[Part]) -> None:
    """Refuse the whole batch, before anything is written, when a part that would be applied does not fit."""
    children: list[NewTasks] = []
    new_joins: list[NewJoins] = []
    for part in parts:
        check_part(part)
    check_together(parts)
    for part in parts:
        row = holding(tables, stamp.process, part.token)
        if row is None:
            continue
        left = full(row.last - row.first + 1) if row.left is None else row.left
        if part.tasks and (min(part.tasks) < row.first or mask_of(part.tasks, row.first) & ~left):
            raise BadPayload("a part names a task that is not unfinished in its claim")
        joins.check(tables, part.children, part.joins, part.waiters)
        for first in (*part.publish, *part.discard):
            adding.staged(tables, first, part.token)
        children += part.children
        children += (tasks for each in part.additions for tasks in each.tasks)
        entries.check_opening(tables, part.additions)
        new_joins += part.joins
    check_once(new_joins)
    adding.check_room(tables, children)


def holding(tables: MemoryTables, process: int, token: bytes) -> MemorySegment | None:
    """The row that this process holds under this token."""
    row = tables.tokens.get(token)
    return row if row is not None and row.owner == process else None


def refuse(tables: MemoryTables, stamp: Stamp, part: Part, now: int) -> None:
    """Record a part that came too late, once."""
    late = Refusal(stamp.process, stamp.n, part.token, len(part.tasks), now)
    if not any((r.process, r.n, r.token) == (late.process, late.n, late.token) for r in tables.refusals):
        tables.refusals.append(late)


def apply(tables: MemoryTables, stamp: Stamp, parts: Sequence[Part], now: int) -> None:
    """Write the parts whose token is valid, in their order, and settle what they mean to joins together."""
    held = [(holding(tables, stamp.process, part.token), part) for part in parts]
    guarded = [(row, part) for row, part in held if row is not None]
    empty: dict[int, tuple[int, int]] = {}
    arrivals = [Arrivals(row.run, row.round + 1, _apply(tables, stamp, row, part, empty, now)) for row, part in guarded]
    joins.arrive(tables, arrivals, empty, now)


def _apply(
    tables: MemoryTables, stamp: Stamp, row: MemorySegment, part: Part, empty: dict[int, tuple[int, int]], now: int
) -> list[Arrival]:
    """Write one guarded part; the arrivals that it causes."""
    process = stamp.process
    run = tables.run(row.run)
    below = row.round + 1
    if part.sets:
        context.write(tables, row.span, part.sets, process, now)
    highest = write_ends(
        tables, row.span, part.tasks, part.status_column(), part.value_column(), process, now, part.took
    )
    empty.update(joins.create(tables, row.run, part.joins, below))
    arrivals: list[Arrival] = []
    became: dict[int, int] = {}
    for tasks in part.children:
        added = adding.add(tables, run, tasks, below, process, now)
        arrivals += added.arrivals
        became.update(added.moved(tasks))
    arrivals += joins.wait(tables, part.waiters, became)
    for task, heir in part.heirs.items():
        for join, slot in joins.memberships(tables, task):
            arrivals += joins.wait_for(tables, became.get(heir, heir), join, slot)
    entries.queue(tables, part.additions, len(tables.commits) - 1, process, now)
    topics.publish(tables, part.publications, now)
    topics.tell_failures(tables, runs.as_run(run), row.span, part, now)
    # The part before may have ended the last task of the claim: then what it staged is garbage by now.
    for first in part.discard if part.token in tables.tokens else ():
        adding.discard(adding.staged(tables, first, part.token))
    for first in part.publish:
        arrivals += adding.publish(tables, run, adding.staged(tables, first, part.token), process, now)
    ended = part.ended()
    arrivals += arrivals_of(tables, row, [task for task in ended if task not in part.heirs])
    lines.close(tables, row, part, now)
    _shrink(tables, row, part, ended, highest)
    return arrivals


def write_ends(
    tables: MemoryTables,
    span: MemorySpan,
    tasks: Sequence[int],
    statuses: Sequence[Status],
    values: Sequence[bytes | None],
    process: int,
    now: int,
    took: Mapping[int, int] = NO_TIMES,
) -> int:
    """Write one event each, with counters, key releases and the removal of marks; the highest event number."""
    highest = tables.write_events(tasks, statuses, values, took)
    for status, times in Counter(statuses).items():
        tables.count(span.run, span.kind, span.queue, status, process, times)
    if span.keys is not None:
        for task, status in zip(tasks, statuses, strict=True):
            if status.is_end:
                keys.release(tables, span, task, status, now)
    if marks := tables.marks.get(span.run):
        ended = {task for task, status in zip(tasks, statuses, strict=True) if status.is_end}
        marks[:] = [mark for mark in marks if mark.scope is not Scope.TASK or mark.task not in ended]
        # What ran out of time has its event now, and may be tried again.
        marks[:] = [mark for mark in marks if mark.status is not Status.RETRYING or mark.task not in set(tasks)]
    return highest


def arrivals_of(tables: MemoryTables, row: MemorySegment, ended: Iterable[int]) -> list[Arrival]:
    """Return what the ends of these tasks mean to joins: their group's slot, and whoever waits for them."""
    found: list[Arrival] = []
    span = row.span
    if span.join is None and not tables.waiters:
        return found
    for task in ended:
        status = tables.events[task][-1].status if task in tables.events else Status.CANCELLED
        status = joins.arriving(tables, task, status)
        slots = [(span.join, task + span.shift)] if span.join is not None else []
        for join, slot in [*slots, *tables.waiters.get(task, ())]:
            found.append((join, slot, status))
    return found


def _shrink(tables: MemoryTables, row: MemorySegment, part: Part, ended: Sequence[int], highest: int) -> None:
    """Clear the bits of what ended and of what comes back later; a row without bits goes, its staged ranges with it."""
    run = tables.run(row.run)
    left = full(row.last - row.first + 1) if row.left is None else row.left
    left &= ~mask_of(ended, row.first)
    for later in part.later:
        mask = mask_of(later.tasks, row.first)
        left &= ~mask
        first, last, kept = trim(row.first, mask)
        awaited = None if later.awaits is None else tables.runs.get(later.awaits)
        due, awaits = later.wait(awaited is not None and awaited.ended is not None)
        tables.copy_segment(
            row, first=first, last=last, left=kept, due=due, state=run.state_for(row.round),
            attempt=max(row.attempt, highest), awaits=awaits,
        )  # fmt: skip
    if left:
        row.left = left
        row.attempt = max(row.attempt, highest) if len(ended) < len(part.tasks) else row.attempt
    else:
        adding.discard_of(tables, row.token)
        tables.drop_segment(row)


def put_back(tables: MemoryTables, row: MemorySegment) -> None:
    """Offer a claimed row again as it is, and discard what was staged under it."""
    adding.discard_of(tables, row.token)
    if row.token is not None:
        tables.tokens.pop(row.token, None)
    row.owner = row.token = None
    row.state = tables.run(row.run).state_for(row.round)
    assert row.state is not SegmentState.CLAIMED


def come_apart(tables: MemoryTables, row: MemorySegment) -> None:
    """Put rows of one lane each in the place of one that has several."""
    lanes = claims.lanes_of(row) if row.lane is None else None
    if lanes is None:
        return
    tables.drop_segment(row)
    for lane, first, last, left in apart(tasks_in(row.first, row.last, row.left), lanes):
        tables.copy_segment(row, lane=lane, first=first, last=last, left=left)
