"""Links between new tasks, new joins and waiters: what does not fit is refused before anything is written.

Pure but for two questions that only a store can answer, which are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ramify.errors import BadPayload
from ramify.model.join import PART_SLOTS, NewJoin, NewWaiter, part_sizes
from ramify.model.task import NewTasks


def check_links(
    groups: Sequence[NewTasks],
    new_joins: Sequence[NewJoin],
    waiters: Sequence[NewWaiter],
    *,
    sizes_of: Callable[[int], list[int] | None],
    has_task: Callable[[int], bool],
) -> None:
    """Refuse joins that cannot be created, and tasks or waiters that name a join, slot or task that is not there.

    `sizes_of` tells the sizes of the parts of a stored join, None when there is no such join.
    """
    check_once(new_joins)
    for new in new_joins:
        _check_join(new)
        if sizes_of(new.id) is not None:
            raise BadPayload(f"join {new.id} exists; reserve a fresh id for it")
    fresh = {new.id: part_sizes(new.needs) for new in new_joins}
    for tasks in groups:
        if tasks.waits and not all(task in fresh for task in tasks.ids):
            raise BadPayload(f"{tasks.kind!r} tasks wait for joins that are not created with them")
    for join, slot, count in _named_slots(groups, new_joins, waiters):
        sizes = fresh[join] if join in fresh else sizes_of(join)
        if sizes is None:
            raise BadPayload(f"join {join} does not exist")
        if count and not _has_slots(sizes, slot, slot + count - 1):
            raise BadPayload(f"join {join} of {sum(sizes)} members has no slots {slot} to {slot + count - 1}")
    appended = {task for tasks in groups for task in tasks.ids} if waiters else set()
    for waiter in waiters:
        if waiter.task not in appended and not has_task(waiter.task):
            raise BadPayload(f"task {waiter.task} is not in the log; nobody can wait for it")


def _check_join(new: NewJoin) -> None:
    if new.needs < 0:
        raise BadPayload(f"join {new.id} needs {new.needs} arrivals; give 0 or more")
    if new.task is None and new.outer is None:
        raise BadPayload(f"join {new.id} has neither a task nor an outer join: nothing would follow")
    if new.task not in (None, new.id):
        raise BadPayload(f"join {new.id} has task {new.task}; a join and its task share one id")


def check_once(new_joins: Sequence[NewJoin]) -> None:
    """Refuse joins of one call that share an id."""
    if len({new.id for new in new_joins}) != len(new_joins):
        raise BadPayload("a join is created twice in one call; reserve an id for each")


def _named_slots(
    groups: Sequence[NewTasks], new_joins: Sequence[NewJoin], waiters: Sequence[NewWaiter]
) -> Iterator[tuple[int, int, int]]:
    """Which slots are named: the join, the first slot, how many. Slots that are to be added only need their join."""
    for tasks in groups:
        if tasks.join is not None:
            yield (tasks.join, 0, 0) if tasks.slot is None else (tasks.join, tasks.slot, len(tasks.bodies))
    for new in new_joins:
        if new.outer is not None:
            yield *new.outer, 1
    for waiter in waiters:
        yield waiter.join, waiter.slot, 1


def _has_slots(sizes: list[int], first: int, last: int) -> bool:
    """Whether parts of these sizes hold the slots. One too many would fill a part before its members are done."""
    parts = range(first // PART_SLOTS, last // PART_SLOTS + 1)
    if first < 0 or parts.stop > len(sizes):
        return False
    return all(min(PART_SLOTS, last + 1 - n * PART_SLOTS) <= sizes[n] for n in parts)
