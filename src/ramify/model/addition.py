"""Additions: tasks that come into runs from outside, while these are open.

Several in one verb are there together or not at all, whichever runs they are for, and may name each other's tasks and
joins. So any of them tells whether all were added before.

An addition names its run by id, or brings a run that it *opens* where none of that name takes tasks. So a queue needs
no look-up, and a job that comes in while its queue ends goes into the next generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from ramify.errors import BadPayload
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.run import NewRun, Order, RunState, StoredRun, check_run
from ramify.model.task import NewTasks, check_tasks


class Addition(msgspec.Struct, frozen=True):
    """Tasks for one run, with the joins and waiters among them.

    With `opens`, an endless run with a name, they go into the newest run of that name, and `run` says nothing. If that
    one takes no tasks, or there is none, `opens` begins in the same transaction, as the next generation.
    """

    run: int
    tasks: Sequence[NewTasks]
    joins: Sequence[NewJoins] = ()
    waiters: Sequence[NewWaiters] = ()
    opens: NewRun | None = None

    @classmethod
    def opening(cls, opens: NewRun, tasks: Sequence[NewTasks]) -> Addition:
        """Tasks for a run by its name."""
        return cls(opens.id, tasks, opens=opens)


def check_opens(opens: NewRun) -> NewRun:
    """Refuse a run that cannot be opened by what comes into it."""
    check_run(opens)
    is_plain = opens.endless and opens.order is not Order.ROUNDS and opens.follows is None and opens.max_tasks is None
    if opens.name is None or not is_plain:
        raise BadPayload(
            f"run {opens.id}: only an endless run with a name, without rounds, leader and `max_tasks` can be opened by "
            "what comes into it"
        )
    return opens


def check_queued(new: Addition, *, links: bool = False) -> None:
    """Refuse what goes along with other work and cannot be decided there: tasks for a run that may have ended, or,
    unless they are decided with it, `links` into a run that is not known before.
    """
    if new.opens is None:
        raise BadPayload(f"tasks for run {new.run} come along with other work, and it may have ended: give `opens`")
    check_opens(new.opens)
    if not links and (new.joins or new.waiters or any(tasks.join is not None or tasks.waits for tasks in new.tasks)):
        raise BadPayload("what comes into a queue along with other work has no joins and waits for nobody")
    for tasks in new.tasks:
        check_tasks(tasks)


def opened(opens: NewRun, newest: StoredRun | None) -> NewRun | None:
    """Return the run to begin: the next generation after the `newest` of that name; None while that one takes tasks."""
    if newest is None:
        return replace(opens, generation=1)
    if newest.shape != opens.shape:
        raise BadPayload(
            f"run {newest.id} has the name {opens.name!r} and is {newest.shape or 'of no shape'}, not {opens.shape}. "
            "Choose another name"
        )
    if newest.state.is_end or newest.state is RunState.DRAINING:
        return replace(opens, generation=newest.generation + 1)
    return None


def applied_before(additions: Sequence[Addition], owner: Callable[[int, int], int | None]) -> bool:
    """Return whether they are in the log already; `owner(first, last)` is the run that has any id of a range.

    They are there all or none. A group without holds is there whole or not at all. Of a group that takes keys perhaps
    nothing was kept: then the next group tells; if none does, adding them once more drops the same tasks again.
    """
    for each in additions:
        for tasks in each.tasks:
            run = owner(tasks.first, tasks.last)
            if run is not None and (each.opens is not None or run == each.run):
                return True
            if tasks.keys is None or tasks.hold is Hold.LABEL:
                return False
    return False
