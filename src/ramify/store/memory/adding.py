"""Putting tasks into the log of the reference store: groups, keys, staged ranges, the tail row of single appends."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrival
from ramify.model.event import Status, Tally
from ramify.model.key import Hold, looked_at
from ramify.model.policy import deep_rank, is_young, rank_of
from ramify.model.run import Order
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, stretches
from ramify.model.task import Appended, NewTasks, check_apart
from ramify.store.memory import joins, keys
from ramify.store.memory.tables import MemorySegment, MemorySpan, MemoryTables, RunRow


def check_room(tables: MemoryTables, groups: Sequence[NewTasks]) -> None:
    """Refuse ids that were never reserved or are in the log."""
    check_apart(groups)
    for tasks in groups:
        if tasks.last >= tables.next_id:
            raise BadPayload(f"ids {tasks.first} to {tasks.last} were not reserved from this store")
        # The last span that begins at or before our last id is the only one that can overlap.
        at = bisect_right(tables.firsts, tasks.last)
        if at and tables.spans[tables.firsts[at - 1]].last >= tasks.first:
            raise BadPayload(f"ids {tasks.first} to {tasks.last} are already in the log")


@dataclass(frozen=True)
class MemoryAdded:
    """The id each task has or lost its key to, the positions of those that lost it, and the arrivals they cause."""

    ids: tuple[int, ...]
    taken: Collection[int]
    arrivals: list[Arrival]

    def moved(self, tasks: NewTasks) -> dict[int, int]:
        """The tasks of the group that have another id than it gave them: dropped for another, or closer in rank."""
        if tasks.keys is None:
            return {}
        return {given: task for given, task in zip(tasks.ids, self.ids, strict=True) if given != task}


def add(tables: MemoryTables, run: RunRow, tasks: NewTasks, round: int, process: int, now: int) -> MemoryAdded:
    """Publish one group."""
    if tasks.keys is None:
        _insert(tables, run, _span(run, tasks, round, tasks.first, range(len(tasks.bodies))), tasks.waits, now)
        tables.count(run.new.id, tasks.kind, tasks.queue, Tally.ADDED, process, len(tasks.bodies))
        return MemoryAdded(tuple(tasks.ids), (), [])
    in_place = tasks.join is not None or tasks.waits
    holders: dict[int, int] = {}
    kept: list[int] = []
    ids: list[int] = []
    stretch = _span(run, tasks, round)
    at = looked_at(now, again=tasks.again)
    for i in range(len(tasks.bodies)):
        key = tasks.keys[i]
        taken = key is not None and tasks.hold is not Hold.LABEL
        other = keys.holder(tables, tasks.hold, run.new.id, tasks.kind, key, at) if taken and key is not None else None
        if other is not None:
            holders[i] = other
            ids.append(other)
            continue
        # Unless a join knows them by their place, the kept tasks close ranks, so that the range stays dense.
        task = tasks.first + (i if in_place else len(kept))
        kept.append(i)
        ids.append(task)
        if key is not None:
            keys.take(tables, stretch, task, key)
    for chosen in stretches(kept) if in_place else [kept]:
        if chosen:
            first = tasks.first + (chosen[0] if in_place else 0)
            _insert(tables, run, _span(run, tasks, round, first, chosen), tasks.waits, now)
    tables.count(run.new.id, tasks.kind, tasks.queue, Tally.ADDED, process, len(kept))
    tables.count(run.new.id, tasks.kind, tasks.queue, Tally.DUPLICATE, process, len(holders))
    arrivals: list[Arrival] = []
    if tasks.join is not None:
        for i, other in holders.items():
            arrivals += joins.wait_for(tables, other, tasks.join, tasks.slot + i)
    return MemoryAdded(tuple(ids), holders.keys(), arrivals)


def _span(run: RunRow, tasks: NewTasks, round: int, first: int | None = None, chosen: Sequence[int] = ()) -> MemorySpan:
    parents = tasks.parent_column()
    return MemorySpan(
        first=tasks.first if first is None else first,
        run=run.new.id,
        round=round,
        kind=tasks.kind,
        queue=tasks.queue,
        lane=tasks.lane,
        priority=tasks.priority,
        due=tasks.due,
        hold=tasks.hold,
        keep=tasks.keep,
        join=tasks.join,
        shift=tasks.slot - tasks.first if tasks.join is not None else 0,
        bodies=[tasks.bodies[i] for i in chosen],
        parents=[parents[i] for i in chosen],
        keys=None if tasks.keys is None else [tasks.keys[i] for i in chosen],
        details=None if tasks.details is None else [tasks.details[i] for i in chosen],
        lanes=None if tasks.lanes is None else [tasks.lanes[i] for i in chosen],
        awaited=tasks.awaited,
    )


def _insert(tables: MemoryTables, run: RunRow, span: MemorySpan, waits: bool, now: int) -> None:
    span.added = now
    tables.add_span(span)
    state = SegmentState.WAITING if waits else run.state_for(span.round)
    step = MASK_WIDTH if waits else len(span.bodies)
    for first in range(span.first, span.last + 1, step):
        last = min(first + step - 1, span.last)
        tables.add_segment(
            span,
            round=span.round,
            first=first,
            last=last,
            left=None,
            rank=rank(run, span, now),
            due=span.due,
            state=state,
        )


def rank(run: RunRow, span: MemorySpan, now: int) -> int:
    """The place in line of a span's tasks."""
    if run.new.order is Order.DEPTH_FIRST:
        return deep_rank(run.created, span.priority, span.round)
    return rank_of(now, span.priority)


def known(tables: MemoryTables, run: int, groups: Sequence[NewTasks], now: int) -> Appended:
    """The answer to an append that was applied before: the ids its tasks have, or lost their keys to."""
    ids: list[tuple[int, ...]] = []
    taken: set[tuple[int, int]] = set()
    for g, tasks in enumerate(groups):
        task, found = tasks.first, []
        for i in range(len(tasks.bodies)):
            key = tasks.keys[i] if tasks.keys is not None else None
            task = tasks.first + i if tasks.join is not None or tasks.waits else task
            span = tables.span_of(task)
            if span is not None and (span.keys[task - span.first] if span.keys is not None else None) == key:
                found.append(task)
                task += 1
            else:
                other = keys.holder(tables, tasks.hold, run, tasks.kind, key, now) if key is not None else None
                found.append(other or 0)
                taken.add((g, i))
        ids.append(tuple(found))
    return Appended(tuple(ids), frozenset(taken), already=True, run=run)


def extend_tail(tables: MemoryTables, run: RunRow, tasks: NewTasks, round: int, process: int, now: int) -> bool:
    """Add a single task to the unclaimed row it follows on; False when there is no such row."""
    if (
        len(tasks.bodies) != 1
        or tasks.due is not None
        or tasks.join is not None
        or tasks.waits
        or tasks.lanes
        or tasks.awaited
    ):
        return False
    span = tables.span_of(tasks.first - 1)
    mine = (run.new.id, round, tasks.kind, tasks.queue, tasks.lane, tasks.priority, None, tasks.hold, tasks.keep, None)
    if span is None or span.last != tasks.first - 1 or mine != (
        span.run, span.round, span.kind, span.queue, span.lane, span.priority, span.due, span.hold, span.keep, span.join
    ):  # fmt: skip
        return False
    row = tables.covering(span.last)
    if row is None or not _may_grow(run, row, tasks.priority, now):
        return False
    key = tasks.keys[0] if tasks.keys is not None else None
    if (
        (span.keys is None) != (tasks.keys is None)
        or (span.details is None) != (tasks.details is None)
        or span.lanes
        or span.awaited
    ):
        return False
    if key is not None:
        at = looked_at(now, again=tasks.again)
        if keys.holder(tables, tasks.hold, run.new.id, tasks.kind, key, at) is not None:
            return False
        keys.take(tables, span, tasks.first, key)
    for column, value in (
        (span.bodies, tasks.bodies[0]), (span.parents, tasks.parent_column()[0]), (span.keys, key),
        (span.details, tasks.details[0] if tasks.details is not None else None),
    ):  # fmt: skip
        if column is not None:
            column.append(value)  # type: ignore[arg-type]
    span.later[tasks.first] = now
    row.last += 1
    tables.count(run.new.id, tasks.kind, tasks.queue, Tally.ADDED, process)
    return True


def _may_grow(run: RunRow, row: MemorySegment, priority: int, now: int) -> bool:
    unclaimed = row.state in (SegmentState.READY, SegmentState.GATED, SegmentState.LIMITED) and row.left is None
    untouched = not row.deaths.count and not row.attempt and row.last == row.span.last
    young = run.new.order is Order.DEPTH_FIRST or is_young(row.rank, now, priority)
    return unclaimed and untouched and young and row.last - row.first + 1 < MASK_WIDTH


# Staged ranges


def stage(tables: MemoryTables, run: RunRow, tasks: NewTasks, owner: MemorySegment) -> None:
    """Write unpublished rows under a staged segment, extending the last one of this claim where they follow on."""
    span = _span(run, tasks, owner.round + 1, tasks.first, range(len(tasks.bodies)))
    span.published = False
    before = tables.span_of(tasks.first - 1)
    for row in tables.segments.values():
        if (
            row.state is SegmentState.STAGED
            and row.token == owner.token
            and row.span is before
            and _alike(before, span)
            # Each parent publishes its own range, and perhaps not in the same commit.
            and before.parents[-1] == span.parents[0]
        ):
            for ours, theirs in ((before.bodies, span.bodies), (before.parents, span.parents)):
                ours.extend(theirs)  # type: ignore[arg-type]
            for mine, more in ((before.keys, span.keys), (before.details, span.details), (before.lanes, span.lanes)):
                if mine is not None and more is not None:
                    mine.extend(more)  # type: ignore[arg-type]
            row.last = before.last
            return
    tables.add_span(span)
    tables.add_segment(
        span, round=span.round, first=span.first, last=span.last, left=None, rank=0, due=span.due,
        state=SegmentState.STAGED, owner=owner.owner, token=owner.token,
    )  # fmt: skip


def _alike(a: MemorySpan, b: MemorySpan) -> bool:
    return _shared(a) == _shared(b)


def _shared(s: MemorySpan) -> tuple[object, ...]:
    """Return what rows must have in common to lie in one span."""
    return (
        s.run, s.round, s.kind, s.queue, s.lane, s.priority, s.due, s.hold, s.keep, s.join, s.shift,
        s.keys is None, s.details is None, s.lanes is None, s.awaited,
    )  # fmt: skip


def staged(tables: MemoryTables, first: int, token: bytes) -> MemorySegment:
    """The staged row of this claim that begins at `first`; BadPayload otherwise."""
    for row in tables.segments.values():
        if row.state is SegmentState.STAGED and row.first == first and row.token == token:
            return row
    raise BadPayload(f"no staged range of this claim begins at {first}")


def publish(tables: MemoryTables, run: RunRow, row: MemorySegment, process: int, now: int) -> list[Arrival]:
    """Make a staged range visible. A child whose key is taken ends as skipped in favour of the one that holds it."""
    span = row.span
    span.published, span.added = True, now
    row.owner = row.token = None
    row.rank = rank(run, span, now)
    row.state = run.state_for(row.round)
    tables.count(run.new.id, span.kind, span.queue, Tally.ADDED, process, row.count)
    arrivals: list[Arrival] = []
    dropped: list[int] = []
    for i, key in enumerate(span.keys or ()):
        task = span.first + i
        if key is None:
            continue
        other = keys.holder(tables, span.hold, span.run, span.kind, key, now) if span.hold is not Hold.LABEL else None
        if other is None:
            keys.take(tables, span, task, key)
            continue
        dropped.append(task)
        tables.write_event(task, Status.SKIPPED, msgspec.json.encode({"duplicate_of": other}))
        tables.count(run.new.id, span.kind, span.queue, Status.SKIPPED, process)
        if span.join is not None:
            arrivals += joins.wait_for(tables, other, span.join, task + span.shift)
    if dropped:
        _leave_out(tables, row, set(dropped))
    return arrivals


def _leave_out(tables: MemoryTables, row: MemorySegment, dropped: set[int]) -> None:
    """Rows of at most `MASK_WIDTH` in place of `row`, without the dropped tasks."""
    tables.drop_segment(row)
    for first in range(row.first, row.last + 1, MASK_WIDTH):
        last = min(first + MASK_WIDTH - 1, row.last)
        tasks = [t for t in range(first, last + 1) if t not in dropped]
        if tasks:
            left = None if len(tasks) == last - first + 1 else mask_of(tasks, first)
            tables.copy_segment(row, first=first, last=last, left=left)


def discard(row: MemorySegment) -> None:
    """Nobody will publish this staged range: list it for vacuum."""
    row.state, row.owner, row.token = SegmentState.GARBAGE, None, None


def discard_of(tables: MemoryTables, token: bytes | None) -> None:
    """Discard everything staged under a claim."""
    for row in tables.segments.values():
        if row.state is SegmentState.STAGED and row.token == token:
            discard(row)
