"""Additions: what comes into runs from outside, while they are open.

Several in one verb are there together or not at all, whichever runs they are for, and may name each other's tasks and
joins. So they are told by any of them whether all were added before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.task import NewTasks


class Addition(msgspec.Struct, frozen=True):
    """Tasks for one run, with the joins and waiters among them."""

    run: int
    tasks: Sequence[NewTasks]
    joins: Sequence[NewJoins] = ()
    waiters: Sequence[NewWaiters] = ()


def applied_before(additions: Sequence[Addition], in_log: Callable[[int, int, int], bool]) -> bool:
    """Return whether they are in the log already; `in_log(run, first, last)` tells if any id of a range is, in that
    run.

    They are there all or none. A group without holds is there whole or not at all. Of a group that takes keys perhaps
    nothing was kept: then the next group tells; if none does, adding them once more drops the same tasks again.
    """
    for each in additions:
        for tasks in each.tasks:
            if in_log(each.run, tasks.first, tasks.last):
                return True
            if tasks.keys is None or tasks.hold is Hold.LABEL:
                return False
    return False
