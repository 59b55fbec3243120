"""Links between new tasks, new joins and waiters: what does not fit is refused before anything is written.

Pure but for two questions that only a store can answer, which are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ramify.errors import BadPayload
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.segment import bounds
from ramify.model.task import MAX_ID, NewTasks

#: How many slots joins have, by id.
Needs = Mapping[int, int]


def check_links(
    groups: Sequence[NewTasks],
    new_joins: Sequence[NewJoins],
    waiters: Sequence[NewWaiters],
    *,
    stored: Callable[[Collection[int]], Needs],
    missing: Callable[[Collection[int]], Collection[int]],
) -> None:
    """Refuse joins that cannot be created, and tasks or waiters that name a join, slot or task that is not there.

    `stored` tells how many slots those joins have that exist, `missing` which tasks are not in the log.
    """
    if not (new_joins or waiters or any(tasks.join is not None or tasks.waits for tasks in groups)):
        return
    check_once(new_joins)
    for new in new_joins:
        _check_joins(new)
    fresh = {join: needs for new in new_joins for join, needs in zip(new.ids, new.needs, strict=True)}
    named = {tasks.join for tasks in groups if tasks.join is not None}
    named.update(*(waiters_of.joins for waiters_of in waiters))
    known = stored({*fresh, *named})
    if taken := known.keys() & fresh.keys():
        raise BadPayload(f"join {min(taken)} exists; reserve a fresh id for it")
    for tasks in groups:
        if tasks.waits and not all(task in fresh for task in tasks.ids):
            raise BadPayload(f"{tasks.kind!r} tasks wait for joins that are not created with them")
    all_needs = {**known, **fresh}
    for tasks in groups:
        if tasks.join is not None:
            _check_slots(all_needs, tasks.join, tasks.slot, len(tasks.bodies))
    for waiters_of in waiters:
        _check_waiters(waiters_of, all_needs)
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


def _check_waiters(waiters: NewWaiters, all_needs: Needs) -> None:
    if not len(waiters.tasks) == len(waiters.joins) == len(waiters.slots):
        raise BadPayload(f"the columns of {len(waiters.tasks)} waiters are not of the same length")
    for join, slot in zip(waiters.joins, waiters.slots, strict=True):
        if not 0 <= slot < all_needs.get(join, 0):
            _check_slots(all_needs, join, slot, 1)


def _check_slots(all_needs: Needs, join: int, slot: int, count: int) -> None:
    if (needs := all_needs.get(join)) is None:
        raise BadPayload(f"join {join} does not exist")
    if slot < 0 or slot + count > needs:
        raise BadPayload(f"join {join} of {needs} members has no slots {slot} to {slot + count - 1}")


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
