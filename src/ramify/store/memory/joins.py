"""Joins in the reference store: its rows are the values that `model/arrivals.py` works on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ramify.model.arrivals import Arrival, Arrivals, JoinChanges, Standing, created, dues, settle, skipped_as
from ramify.model.event import Event, Status
from ramify.model.join import AHEAD, BEFORE, NewJoins, NewWaiters, Rule, nearest
from ramify.model.links import Needs, check_links
from ramify.model.segment import SegmentState, full, mask_of, trim
from ramify.model.task import NewTasks
from ramify.store.memory.tables import MemorySegment, MemoryTables


def create(tables: MemoryTables, run: int, joins: Iterable[NewJoins], round: int) -> dict[int, tuple[int, int]]:
    """Write join rows; those that wait for nobody, with the run and round they were made in."""
    empty: dict[int, tuple[int, int]] = {}
    for new in joins:
        for join in created(run, new):
            tables.joins[join.id] = join
            if not join.needs:
                empty[join.id] = (run, round)
    return empty


def check(
    tables: MemoryTables, groups: Sequence[NewTasks], new_joins: Sequence[NewJoins], waiters: Sequence[NewWaiters]
) -> None:
    """Refuse links that do not fit."""

    def stored(joins: Collection[int]) -> Needs:
        return {join: tables.joins[join].needs for join in joins if join in tables.joins}

    def missing(tasks: Collection[int]) -> Collection[int]:
        return [task for task in tasks if tables.kept(task) is None]

    check_links(groups, new_joins, waiters, stored=stored, missing=missing)


def wait_for(tables: MemoryTables, task: int, join: int, slot: int) -> list[Arrival]:
    """Make the end of `task` an arrival; if it has ended, that is the arrival now."""
    tables.waiters[task].append((join, slot))
    # Of several, the youngest: it continues the others.
    tables.linked[join][slot] = max(task, tables.linked[join].get(slot, 0))
    ended = ending(tables, task)
    return [] if ended is None else [(join, slot, arriving(tables, task, ended))]


def arriving(tables: MemoryTables, task: int, ended: Status) -> Status:
    """How a task arrives that ended like this."""
    return skipped_as(tables.joins.get(task)) if ended is Status.SKIPPED else ended


def wait(tables: MemoryTables, waiters: Iterable[NewWaiters], became: Mapping[int, int]) -> list[Arrival]:
    """Make the ends of tasks arrivals; those of tasks that have ended are the answer."""
    arrivals: list[Arrival] = []
    for some in waiters:
        for task, join, slot in zip(some.tasks, some.joins, some.slots, strict=True):
            if some.behind and join in became:
                # The task of the join lost its key: nobody can come behind it.
                continue
            member = _last_behind(tables, task) if some.behind else task
            if some.behind:
                tables.behind[task] = join
            arrivals += wait_for(tables, became.get(member, member), join, slot)
    return arrivals


def _last_behind(tables: MemoryTables, task: int) -> int:
    """The last task in line behind this one; the task itself when there is none, or it was forgotten."""
    last = tables.behind.get(task, task)
    return in_line(tables, last, task) if tables.kept(last) is not None else task


def in_line(tables: MemoryTables, task: int, ahead: int) -> int:
    """The task, or if it was ended before its join fired, the nearest one before it that was not."""
    while task != ahead and ending(tables, task) is not None and _waits_behind(tables, task):
        before = tables.linked[task].get(BEFORE)
        if before is None:
            break
        task = before
    return task


def _waits_behind(tables: MemoryTables, task: int) -> bool:
    join = tables.joins.get(task)
    return join is not None and join.rule is Rule.BEHIND and not join.fired


def leave(tables: MemoryTables, tasks: Iterable[int], run: int = 0) -> list[Arrival]:
    """These have ended: whoever came next to one that still waited itself waits for who was before it. A `run` that is
    swept is not told.
    """
    arrivals: list[Arrival] = []
    for task in tasks:
        if not _waits_behind(tables, task):
            continue
        for join, slot in list(tables.waiters.get(task, ())):
            if slot == BEFORE and tables.joins[join].rule is Rule.BEHIND and tables.joins[join].run != run:
                disown(tables, task, join, slot)
                ahead = min((each for each, pairs in tables.waiters.items() if (join, AHEAD[0]) in pairs), default=0)
                arrivals += wait_for(tables, in_line(tables, task, ahead), join, slot)
    return arrivals


def members(tables: MemoryTables, join: int) -> dict[int, int]:
    """The task in each slot: of groups, and of waiters, which win where a group's task lost its key or has an heir."""
    grouped = {
        task + span.shift: task
        for span in sorted(tables.grouped.get(join, ()), key=lambda span: span.first)
        if span.published
        for task in range(span.first, span.last + 1)
    }
    return grouped | tables.linked.get(join, {})


def members_after(tables: MemoryTables, join: int, after: int, count: int) -> list[tuple[int, int]]:
    """The tasks in the next slots, at least `count` if there are so many."""
    spans = sorted(tables.grouped.get(join, ()), key=lambda span: span.first + span.shift)
    groups = (
        (max(span.first, after + 1 - span.shift), span.last, span.shift)
        for span in spans
        if span.published and span.last + span.shift > after
    )
    linked = tables.linked.get(join, {})
    found = nearest(groups, count)
    return sorted({**found, **{slot: linked[slot] for slot in linked if slot > after}}.items())


def firing(tables: MemoryTables, task: int) -> Iterator[int]:
    """The commits in which those ended that may arrive at a task's join, and in which the task was reopened."""
    linked = [member for member, pairs in tables.waiters.items() if any(join == task for join, _ in pairs)]
    grouped = (range(span.first, span.last + 1) for span in tables.grouped.get(task, ()) if span.published)
    for member in chain(linked, *grouped):
        yield from (event.seq for event in tables.events.get(member, ()) if event.status.is_end)
    yield from (event.seq for event in tables.events.get(task, ()) if event.status is Status.REOPENED)


def heirs(tables: MemoryTables, task: int, join: int, slot: int) -> list[int]:
    """Return those that arrive in a slot in the stead of a task, whose own it is."""
    if tables.linked.get(join, {}).get(slot, 0) <= task:
        return []
    return [later for later, pairs in tables.waiters.items() if later > task and (join, slot) in pairs]


def disown(tables: MemoryTables, heir: int, join: int, slot: int) -> None:
    """Let a task not arrive in a slot any more."""
    tables.waiters[heir] = [pair for pair in tables.waiters[heir] if pair != (join, slot)]
    tables.linked[join].pop(slot, None)
    if rest := [task for task, pairs in tables.waiters.items() if (join, slot) in pairs]:
        tables.linked[join][slot] = max(rest)


def memberships(tables: MemoryTables, task: int) -> list[tuple[int, int]]:
    """The join slots that the end of a task fills."""
    span = tables.span_of(task)
    assert span is not None
    own = [] if span.join is None else [(span.join, task + span.shift)]
    return [pair for pair in own + tables.waiters.get(task, []) if pair[0] in tables.joins]


def ending(tables: MemoryTables, task: int) -> Status | None:
    """How a task ended, sweeps included; None while it is unfinished."""
    last = last_event(tables, task)
    return last.status if last is not None and last.status.is_end else None


def last_event(tables: MemoryTables, task: int) -> Event | None:
    """The last that happened to a task, if anything did. A sweep is as good as an event: it ends the life that was
    present then.
    """
    events = tables.events.get(task)
    last, span = events[-1] if events else None, tables.span_of(task)
    for sweep in tables.sweeps.get(span.run, ()) if span is not None else ():
        if sweep.covers(task) and (last is None or sweep.seq > last.seq):
            last = Event(task, 0, Status.CANCELLED, seq=sweep.seq)
    return last


def arrive(tables: MemoryTables, arrivals: Sequence[Arrivals], empty: Mapping[int, tuple[int, int]], now: int) -> None:
    """Settle arrivals, and publish the tasks of the joins that fired."""

    def load(wanted: Mapping[int, Collection[int]]) -> Mapping[int, Standing]:
        return {join: tables.joins[join] for join in wanted if join in tables.joins}

    _publish(tables, settle(arrivals, empty, load), now)


def _publish(tables: MemoryTables, changes: JoinChanges, now: int) -> None:
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for task, (run, round) in sorted(changes.fired.items()):
        row = tables.covering(task)
        if row is not None and row.state is SegmentState.WAITING:
            rows[row.id, round if row.run == run else tables.run(row.run).round + 1].append(task)
    for (number, round), members in rows.items():
        row = tables.segments[number]
        state = tables.run(row.run).state_for(round)
        take_out(tables, row, members)
        for due, some in dues(members, row.due, now, tables.joins.__getitem__).items():
            first, last, left = trim(row.first, mask_of(some, row.first))
            tables.copy_segment(row, round=round, first=first, last=last, left=left, due=due, state=state)


def take_out(tables: MemoryTables, row: MemorySegment, tasks: list[int]) -> None:
    """Clear the bits of `tasks`; the row goes when nothing is left of it."""
    left = full(row.last - row.first + 1) if row.left is None else row.left
    left &= ~mask_of(tasks, row.first)
    if left:
        row.left = left
    else:
        tables.drop_segment(row)
