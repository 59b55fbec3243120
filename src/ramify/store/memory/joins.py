"""Joins in the reference store: arrivals, firing, and setting a join back."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from ramify.model.event import Status, fold
from ramify.model.join import PART_SLOTS, NewJoin, NewWaiter, part_sizes
from ramify.model.links import check_links
from ramify.model.segment import SegmentState, mask_of, trim
from ramify.model.task import NewTasks
from ramify.store.memory.place import JoinRow, PartRow, Place, SegmentRow
from ramify.store.reads import Sweep

Arrival = tuple[int, int, bool]


def create(place: Place, run: int, joins: Iterable[NewJoin]) -> None:
    """Write join rows; `settle` afterwards fires the ones that need nobody."""
    for new in joins:
        parts = [PartRow(size) for size in part_sizes(new.needs)]
        place.joins[new.id] = JoinRow(new.id, run, new.needs, new.task, new.outer, parts)


def check(place: Place, groups: Sequence[NewTasks], new_joins: Sequence[NewJoin], waiters: Sequence[NewWaiter]) -> None:
    """Refuse links that do not fit."""
    check_links(
        groups, new_joins, waiters, sizes_of=lambda join: _sizes(place.joins.get(join)), has_task=place.is_published
    )


def _sizes(join: JoinRow | None) -> list[int] | None:
    return None if join is None else [part.size for part in join.parts]


def add_slots(place: Place, join: int, count: int) -> int:
    """New slots for members named late; the first of them. They start a part of their own, so no full part reopens."""
    row = place.joins[join]
    slot = len(row.parts) * PART_SLOTS
    row.parts.extend(PartRow(size) for size in part_sizes(count))
    row.needs += count
    return slot


def wait_for(place: Place, task: int, join: int, slot: int) -> list[Arrival]:
    """Make the end of `task` an arrival; if it has ended, that is the arrival now."""
    place.waiters[task].append((join, slot))
    ended = ending(place, task)
    return [] if ended is None else [(join, slot, ended is not Status.DONE)]


def memberships(place: Place, task: int) -> list[tuple[int, int]]:
    """The join slots that the end of a task fills."""
    span = place.span_of(task)
    assert span is not None
    own = [] if span.join is None else [(span.join, task + span.shift)]
    return [pair for pair in own + place.waiters.get(task, []) if pair[0] in place.joins]


def ending(place: Place, task: int) -> Status | None:
    """How a task ended, sweeps included; None while it is unfinished. A sweep ends the life that was present then."""
    events = place.events.get(task, ())
    ended = fold(events).ended
    if ended is not None:
        return ended
    span, since = place.span_of(task), events[-1].seq if events else 0
    sweeps = place.sweeps.get(span.run, ()) if span is not None else ()
    return Status.CANCELLED if any(s.seq > since and _sweeps(s, task) for s in sweeps) else None


def _sweeps(sweep: Sweep, task: int) -> bool:
    first, last, left = sweep.first, sweep.last, sweep.left
    return first <= task <= last and (left is None or bool(left >> (task - first) & 1))


def settle(
    place: Place, arrivals: Iterable[Arrival], created: Iterable[NewJoin], run: int, round: int, now: int
) -> None:
    """Set the bits of the arrivals, pass full joins on to their outer ones, and publish the tasks of those that fired.

    One loop, no recursion: a chain of nested joins may be as long as it likes.
    """
    queue = deque(arrivals)
    firing = deque(place.joins[new.id] for new in created if new.needs == 0)
    fired: list[int] = []
    while queue or firing:
        if firing:
            join = firing.popleft()
            join.fired = True
            if join.outer is not None:
                queue.append((*join.outer, any(part.broken for part in join.parts)))
            if join.task is not None:
                fired.append(join.task)
        else:
            name, slot, broken = queue.popleft()
            if (row := place.joins.get(name)) is not None and _arrive(row, slot, broken) and not row.fired:
                firing.append(row)
    _publish(place, fired, run, round, now)


def _arrive(join: JoinRow, slot: int, broken: bool) -> bool:
    """Set one bit; True when that filled the join. A bit set twice counts once."""
    number, bit = slot // PART_SLOTS, 1 << slot % PART_SLOTS
    if number >= len(join.parts) or join.parts[number].arrived & bit:
        return False
    part = join.parts[number]
    part.arrived |= bit
    part.broken |= bit if broken else 0
    join.full += part.arrived.bit_count() == part.size
    return join.full == len(join.parts)


def _publish(place: Place, tasks: list[int], run: int, round: int, now: int) -> None:
    rows: dict[int, list[int]] = defaultdict(list)
    for task in sorted(tasks):
        row = place.covering(task)
        if row is not None and row.state is SegmentState.WAITING:
            rows[row.id].append(task)
    for number, members in rows.items():
        row = place.segments[number]
        owner = place.run(row.run)
        at = round if row.run == run else owner.round + 1
        take_out(place, row, members)
        first, last, left = trim(row.first, mask_of(members, row.first))
        place.copy_segment(row, round=at, first=first, last=last, left=left, due=None, state=owner.state_for(at))


def take_out(place: Place, row: SegmentRow, tasks: list[int]) -> None:
    """Clear the bits of `tasks`; the row goes when nothing is left of it."""
    left = row.left if row.left is not None else (1 << (row.last - row.first + 1)) - 1
    left &= ~mask_of(tasks, row.first)
    if left:
        row.left = left
    else:
        place.drop_segment(row)


def set_back(place: Place, join: JoinRow, slots: Iterable[int], *, anew: bool) -> None:
    """Forget the arrivals in `slots`; `anew` makes the fired join a new instance that will fire again."""
    for slot in slots:
        part, bit = join.parts[slot // PART_SLOTS], 1 << slot % PART_SLOTS
        if part.arrived & bit:
            join.full -= part.arrived.bit_count() == part.size
            part.arrived &= ~bit
            part.broken &= ~bit
    if anew:
        join.fired = False
        join.instance += 1
