"""Links between new tasks, new joins and waiters: what does not fit is refused before anything is written.

Pure but for two questions that only a store can answer, which are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ramify.errors import BadPayload
from ramify.model.join import PART_SLOTS, NewJoins, NewWaiters, part_sizes
from ramify.model.segment import bounds
from ramify.model.task import MAX_ID, NewTasks

#: The sizes of the parts of joins, by id.
Sizes = Mapping[int, Sequence[int]]


def check_links(
    groups: Sequence[NewTasks],
    new_joins: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    *,
    stored: Callable[[Collection[int]], Sizes],
    missing: Callable[[Collection[int]], Collection[int]],
) -> None:
    """Refuse joins that cannot be created, and tasks or waiters that name a join, slot or task that is not there.

    `stored` tells the sizes of the parts of those joins that exist, `missing` which tasks are not in the log.
    """
    if not (new_joins or waiters or any(tasks.join is not None or tasks.waits for tasks in groups)):
        return
    check_once(new_joins)
    for new in new_joins:
        _check_joins(new)
    parts_of = {needs: part_sizes(needs) for new in new_joins for needs in set(new.needs)}
    fresh = {join: parts_of[needs] for new in new_joins for join, needs in zip(new.ids, new.needs, strict=True)}
    named = {join for join, _, _ in _named_slots(groups)}
    named.update(*(waiters_of.joins for waiters_of in waiters))
    known = stored({*fresh, *named})
    if taken := known.keys() & fresh.keys():
        raise BadPayload(f"join {min(taken)} exists; reserve a fresh id for it")
    for tasks in groups:
        if tasks.waits and not all(task in fresh for task in tasks.ids):
            raise BadPayload(f"{tasks.kind!r} tasks wait for joins that are not created with them")
    sizes = {**known, **fresh}
    for join, slot, count in _named_slots(groups):
        _check_slots(sizes, join, slot, count)
    for waiters_of in waiters:
        _check_waiters(waiters_of, sizes)
    _check_awaited(groups, waiters, missing)


def _check_joins(new: NewJoins) -> None:
    if len(new.needs) != len(new.ids):
        raise BadPayload(f"the columns of {len(new.ids)} new joins are not of the same length")
    if new.needs and min(new.needs) < 0:
        raise BadPayload(
            f"join {new.ids[new.needs.index(min(new.needs))]} needs {min(new.needs)} arrivals; give 0 or more"
        )


def check_once(new_joins: Sequence[NewJoins]) -> None:
    """Refuse joins of one call that share an id."""
    if len({join for new in new_joins for join in new.ids}) != sum(len(new.ids) for new in new_joins):
        raise BadPayload("a join is created twice in one call; reserve an id for each")


def _named_slots(groups: Sequence[NewTasks]) -> Iterator[tuple[int, int, int]]:
    """Which slots are named: the join, the first slot, how many. Slots that are to be added only need their join."""
    for tasks in groups:
        if tasks.join is not None:
            yield (tasks.join, 0, 0) if tasks.slot is None else (tasks.join, tasks.slot, len(tasks.bodies))


def _check_waiters(waiters: NewWaiters, sizes: Sizes) -> None:
    if not len(waiters.tasks) == len(waiters.joins) == len(waiters.slots):
        raise BadPayload(f"the columns of {len(waiters.tasks)} waiters are not of the same length")
    for join, slot in zip(waiters.joins, waiters.slots, strict=True):
        if (parts := sizes.get(join)) is None or len(parts) != 1 or not 0 <= slot < parts[0]:
            _check_slots(sizes, join, slot, 1)


def _check_slots(sizes: Sizes, join: int, slot: int, count: int) -> None:
    if (parts := sizes.get(join)) is None:
        raise BadPayload(f"join {join} does not exist")
    if count and not _has_slots(parts, slot, slot + count - 1):
        raise BadPayload(f"join {join} of {sum(parts)} members has no slots {slot} to {slot + count - 1}")


def _has_slots(sizes: Sequence[int], first: int, last: int) -> bool:
    """Whether parts of these sizes hold the slots. One too many would fill a part before its members are done."""
    parts = range(first // PART_SLOTS, last // PART_SLOTS + 1)
    if first < 0 or parts.stop > len(sizes):
        return False
    return all(min(PART_SLOTS, last + 1 - n * PART_SLOTS) <= sizes[n] for n in parts)


def _check_awaited(
    groups: Sequence[NewTasks],
    waiters: Sequence[NewWaiters],
    missing: Callable[[Collection[int]], Collection[int]],
) -> None:
    """Refuse to wait for tasks that are neither in the log nor added now."""
    older = older_tasks(groups, waiters)
    # No store can look for what is no id.
    unknown = [task for task in older if not 0 < task < MAX_ID] or (older and missing(older))
    if unknown:
        raise BadPayload(f"task {min(unknown)} is not in the log; nobody can wait for it")


def older_tasks(groups: Iterable[NewTasks], waiters: Sequence[NewWaiters]) -> set[int]:
    """The tasks that somebody waits for and that are not among these new ones."""
    ends = [end for some in waiters if some.tasks for end in bounds(some.tasks)]
    new = _merged(tasks.ids for tasks in groups)
    # A graph is added together with all that it waits for: then nobody need be looked at one by one.
    if not ends or any(min(ends) in ids and max(ends) in ids for ids in new):
        return set()
    return {task for some in waiters for task in some.tasks}.difference(*new)


def _merged(ranges: Iterable[range]) -> list[range]:
    """Ranges of ids in their order, as one where they follow on each other."""
    found: list[range] = []
    for ids in sorted(ranges, key=lambda ids: ids.start):
        if found and found[-1].stop == ids.start:
            found[-1] = range(found[-1].start, ids.stop)
        else:
            found.append(ids)
    return found
