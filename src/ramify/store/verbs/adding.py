"""Putting tasks into the log: groups with keys and without, the tail row of single appends, staged ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrival
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.links import check_links
from ramify.model.policy import is_young
from ramify.model.run import Order, StoredRun
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, stretches
from ramify.model.task import NewTasks, check_apart
from ramify.store.changes import Changes, Placed, TailRow
from ramify.store.rows import SegmentRow, SpanRow, rank, state_for
from ramify.store.tables import Loaded, Tables
from ramify.store.verbs.arriving import Arriving
from ramify.store.verbs.keys import KeptTasks, Keys


class AddedGroup:
    """The result of adding one group. The id of each task is worked out only on request."""

    def __init__(self, tasks: NewTasks, kept: KeptTasks | None = None) -> None:
        self._tasks, self._kept = tasks, kept
        self.arrivals: Sequence[Arrival] = ()  #: what dropped duplicates mean to a join that counts them

    @property
    def lost(self) -> Mapping[int, int]:
        """The positions that lost their key, with the task that holds it."""
        return {} if self._kept is None else self._kept.lost

    @property
    def ids(self) -> tuple[int, ...]:
        """The id each task has, or that of the task that holds its key."""
        if self._kept is None:
            return tuple(self._tasks.ids)
        known = {**dict(zip(self._kept.positions, self._kept.ids, strict=True)), **self._kept.lost}
        return tuple(known[i] for i in range(len(self._tasks.bodies)))

    def moved(self) -> dict[int, int]:
        """The tasks of the group that have another id than it gave them: dropped for another, or closer in rank."""
        if self._kept is None or not self._kept.lost:
            return {}
        return {given: task for given, task in zip(self._tasks.ids, self.ids, strict=True) if given != task}


def ranges(groups: Iterable[NewTasks]) -> Sequence[tuple[int, int]]:
    """The ids of groups, as an `Ask` names them."""
    return [(tasks.first, tasks.last) for tasks in groups]


def check_room(loaded: Loaded, groups: Sequence[NewTasks]) -> None:
    """Refuse ids that were never reserved or are in the log."""
    check_apart(groups)
    for tasks in groups:
        if tasks.last >= loaded.reserved:
            raise BadPayload(f"ids {tasks.first} to {tasks.last} were not reserved from this store")
        if loaded.taken and (tasks.first, tasks.last) in loaded.taken:
            raise BadPayload(f"ids {tasks.first} to {tasks.last} are already in the log")


def check_joins(
    tables: Tables, groups: Sequence[NewTasks], joins: Sequence[NewJoins], waiters: Sequence[NewWaiters]
) -> None:
    """Refuse links that do not fit."""
    if groups or joins or waiters:
        check_links(groups, joins, waiters, stored=tables.needs, missing=tables.missing)


class Adding:
    """Groups on their way into the log of one verb, which has loaded their runs."""

    def __init__(self, changes: Changes, keys: Keys, arriving: Arriving) -> None:
        self._changes, self._keys, self._arriving = changes, keys, arriving

    def add(self, run: StoredRun, tasks: NewTasks, round: int) -> AddedGroup:
        """Publish a group."""
        if tasks.keys is None:
            self._insert(run, new_span(run, tasks, round), tasks)
            self._changes.counts[run.id, tasks.kind, tasks.queue, Tally.ADDED] += len(tasks.bodies)
            return AddedGroup(tasks)
        in_place = tasks.join is not None or tasks.waits
        kept = self._keys.offer(run.id, tasks, in_place=in_place)
        self._insert_kept(run, tasks, round, kept, in_place=in_place)
        counts = self._changes.counts
        counts[run.id, tasks.kind, tasks.queue, Tally.ADDED] += len(kept.positions)
        counts[run.id, tasks.kind, tasks.queue, Tally.DUPLICATE] += len(kept.lost)
        added = AddedGroup(tasks, kept)
        if tasks.join is not None:
            lost = ((other, tasks.join, tasks.slot + i) for i, other in kept.lost.items())
            added.arrivals = [arrival for each in lost for arrival in self._arriving.wait_for(*each)]
        return added

    def _insert_kept(self, run: StoredRun, tasks: NewTasks, round: int, kept: KeptTasks, *, in_place: bool) -> None:
        span = new_span(run, tasks, round)
        if not kept.lost:
            self._insert(run, span, tasks)
            return
        # Unless a join knows them by their place, the kept tasks close ranks, so that the range stays dense.
        pieces = stretches(kept.positions) if in_place else [kept.positions] if kept.positions else []
        at = 0
        for chosen in pieces:
            first, at = kept.ids[at], at + len(chosen)
            self._insert(run, replace(span, first=first, last=first + len(chosen) - 1), tasks, chosen)

    def _insert(self, run: StoredRun, span: SpanRow, tasks: NewTasks, chosen: Sequence[int] | None = None) -> None:
        """Put a span, its tasks and its segments into the log."""
        changes = self._changes
        span.low_parent, span.high_parent = parents_of(tasks, chosen)
        span.added = changes.now
        changes.spans.append(span)
        changes.tasks.append(Placed(span.first, tasks, chosen))
        state = SegmentState.WAITING if tasks.waits else state_for(run, span.round)
        step = MASK_WIDTH if tasks.waits else span.last - span.first + 1
        place = rank(run, span.priority, span.round, changes.now)
        for first in range(span.first, span.last + 1, step):
            changes.segments.append(segment_of(span, first, min(first + step - 1, span.last), place, state))

    def extend_tail(self, tables: Tables, run: StoredRun, tasks: NewTasks, round: int) -> bool:
        """Add a single task to the unclaimed row it follows on; False when there is no such row."""
        if not is_single(tasks) or (span := tables.span_before(tasks.first)) is None:
            return False
        mine = new_span(run, tasks, round)
        tails = (TailRow(span, row) for row in tables.tails_of(span))
        tail = next((tail for tail in tails if may_extend(tail, run, mine, self._changes.now)), None)
        if tail is None or (tasks.keys is not None and self._keys.offer(run.id, tasks, in_place=False).lost):
            return False
        mine.low_parent, mine.high_parent = parents_of(tasks)
        changes = self._changes
        tail.span.grow(mine)
        tail.row.last = tasks.first
        changes.late.append(Placed(tasks.first, tasks))
        changes.longer.append(tail.span)
        changes.grown.append(tail.row)
        changes.counts[run.id, tasks.kind, tasks.queue, Tally.ADDED] += 1
        return True

    # staged ranges

    def publish(self, run: StoredRun, span: SpanRow, row: SegmentRow) -> None:
        """Make a staged range visible that has no keys."""
        changes = self._changes
        span.published, span.added = True, changes.now
        changes.published.append(span)
        row.owner = row.token = None
        row.rank, row.state = rank(run, span.priority, span.round, changes.now), state_for(run, row.round)
        changes.offered.append(row)
        changes.counts[run.id, span.kind, span.queue, Tally.ADDED] += row.count

    def publish_keyed(self, run: StoredRun, span: SpanRow, row: SegmentRow) -> list[Arrival]:
        """Make a staged range visible whose tasks have keys, after all that was decided before is written. A child
        whose key is taken ends as skipped in favour of the one that holds it.
        """
        self.publish(run, span, row)
        lost = self._keys.take_staged(span)
        changes, arrivals = self._changes, list[Arrival]()
        for task, other in lost.items():
            changes.tell([task], (task, task), 1, Status.SKIPPED, [msgspec.json.encode({"duplicate_of": other})])
            if span.join is not None:
                arrivals += self._arriving.wait_for(other, span.join, task + span.shift)
        if lost:
            changes.counts[run.id, span.kind, span.queue, Status.SKIPPED] += len(lost)
            changes.offered.remove(row)
            changes.dropped.append(row)
            changes.segments += _without(row, lost.keys())
        return arrivals


def parents_of(tasks: NewTasks, chosen: Sequence[int] | None = None) -> tuple[int | None, int | None]:
    """The lowest and the highest parent of some tasks; the lowest is 0 where not all of them have one."""
    parents = tasks.parents
    if parents is None or isinstance(parents, int):
        return parents, parents
    if chosen is not None:
        parents = [parents[i] for i in chosen]
    named = [parent for parent in parents if parent is not None] if None in parents else parents
    if not named:
        return None, None
    return min(named) if len(named) == len(parents) else 0, max(named)  # type: ignore[type-var]


def new_span(run: StoredRun, tasks: NewTasks, round: int, *, published: bool = True) -> SpanRow:
    """The range of the log for a group."""
    return SpanRow(
        tasks.first, tasks.last, run.id, round, tasks.kind, tasks.queue, tasks.lane, tasks.priority, tasks.due,
        tasks.hold, tasks.keep, tasks.join, tasks.slot - tasks.first if tasks.join is not None else 0,
        tasks.keys is not None, tasks.details is not None, tasks.lanes is not None, tasks.awaited, published,
    )  # fmt: skip


def segment_of(span: SpanRow, first: int, last: int, rank: int, state: SegmentState) -> SegmentRow:
    """A new row for tasks of a span, all of them unfinished."""
    return SegmentRow(
        0, span.first, span.run, span.round, span.kind, span.queue, span.lane, first, last, None, rank, span.due, state
    )


def is_single(tasks: NewTasks) -> bool:
    """Return whether these are one task that may share a row with the one before it."""
    is_plain = tasks.due is None and tasks.join is None and not tasks.waits and not tasks.lanes and not tasks.awaited
    return len(tasks.bodies) == 1 and is_plain


def may_extend(tail: TailRow, run: StoredRun, mine: SpanRow, now: int) -> bool:
    """Return whether a single task, which would have this span, may extend a row."""
    span, row = tail
    if not span.published or span.last != mine.first - 1 or mine.shared() != span.shared():
        return False
    unclaimed = row.state in (SegmentState.READY, SegmentState.GATED, SegmentState.LIMITED) and row.left is None
    untouched = not row.packed_deaths and not row.attempt and row.last == span.last
    young = run.order is Order.DEPTH_FIRST or is_young(row.rank, now, span.priority)
    return unclaimed and untouched and young and row.last - row.first + 1 < MASK_WIDTH


def _without(row: SegmentRow, dropped: Collection[int]) -> Iterable[SegmentRow]:
    """Rows of at most `MASK_WIDTH` in place of `row`, without the dropped tasks."""
    for first in range(row.first, row.last + 1, MASK_WIDTH):
        last = min(first + MASK_WIDTH - 1, row.last)
        tasks = [task for task in range(first, last + 1) if task not in dropped]
        if tasks:
            left = None if len(tasks) == last - first + 1 else mask_of(tasks, first)
            yield replace(row, id=0, first=first, last=last, left=left)
