"""The contents of a set of tasks and of all that it includes: tasks by name, handlers, schedules, limits, resources.

Promises: a name means one thing in all of them, else ConfigError says where the two are.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ramify.coordination.handling import Handling
from ramify.engine.around import within
from ramify.engine.resource import AnyResource
from ramify.engine.tasks.limit import TaskLimit, noted
from ramify.engine.tasks.task import AnyTask
from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.kernel.core.handler import Calling, Handler
from ramify.model.limit import Limit
from ramify.shapes.cron.schedule import Schedule
from ramify.shapes.table import OWN_HANDLERS

if TYPE_CHECKING:
    from ramify.engine.tasks.tasks import Tasks


def table_of(tasks: Tasks) -> Mapping[str, AnyTask]:
    """Every task of a set by its kind and its older names; ConfigError when a name means two functions.

    It is asked for with each job, so it is made once for as long as the sets are those they were.
    """
    sets = [each._own for each in tasks._sets()]
    made_of, found = tasks._table
    if len(made_of) == len(sets) and all(map(is_, made_of, sets)):
        return found
    found = {}
    for own in sets:
        for task in own.values():
            for name in (task.kind, *task.aliases):
                check_free(found, name, task)
                found[name] = task
    tasks._table = (sets, found)
    return found


def handlers_of(tasks: Tasks, stand_ins: Mapping[str, Callable[..., Any]]) -> dict[str, Handler]:
    """Return what a kernel needs to run the tasks of a set, and those that shapes bring along; `stand_ins` by kind."""
    # A set before those it includes, so that its hooks are around theirs.
    sets = sorted(tasks._sets(), key=lambda each: -len(each._sets()))
    hooks = {each: [hook for outer in sets if each in outer._sets() for hook in outer._hooks] for each in sets}
    around = {task: hooks[each] for each in sets for task in each._own.values()}
    found = {**OWN_HANDLERS}
    for schedule in schedules_of(tasks):
        found.update(schedule.handlers)
    for name, task in table_of(tasks).items():
        handler, fn = task.handler, stand_ins.get(name)
        if fn is not None:
            handler = replace(handler, fn=fn, calling=Calling.of(fn))
        found[name] = within(handler, around[task])
    return found


def definitions_of(tasks: Tasks) -> list[Definition]:
    """Return what runs can be made of by name, in a set and those it includes."""
    return [definition for each in tasks._sets() for definition in each._definitions]


def schedules_of(tasks: Tasks) -> list[Schedule]:
    """The schedules of a set and of those it includes; ConfigError when two of them have one name."""
    found: dict[str, Schedule] = {}
    for each in (schedule for one in tasks._sets() for schedule in one._schedules.values()):
        other = found.setdefault(each.name, each)
        if other.place != each.place:
            raise ConfigError(f"two schedules are called {each.name!r}: {other.place} and {each.place}. Rename one.")
    return list(found.values())


def readers_of(tasks: Tasks) -> list[Handling]:
    """The readers of topics of a set and of those it includes. Each has the name of its task, so no two have one."""
    return [reader for one in tasks._sets() for reader in one._readers.values()]


def declared_limits(tasks: Tasks) -> dict[str, TaskLimit]:
    """The limits of a set and of those it includes, by name; ConfigError when two of one name differ."""
    found: dict[str, TaskLimit] = {}
    for limit in (limit for each in tasks._sets() for limit in each._limits.values()):
        noted(found, limit)
    return found


def limits_of(tasks: Tasks) -> list[Limit]:
    """The same as they are declared in a store, with the kinds of tasks that keep to each."""
    kinds: dict[str, list[str]] = {}
    for kind, task in table_of(tasks).items():
        for limit in task.limits:
            kinds.setdefault(limit.name, []).append(kind)
    return [limit._stored(kinds=kinds.get(name, ())) for name, limit in declared_limits(tasks).items()]


def check_definitions(tasks: Tasks, new: Mapping[str, str] = MappingProxyType({})) -> None:
    """Refuse a DAG or pipeline whose name means another one, in a set and those it includes, with a new one perhaps."""
    clash = _clash(tasks, new)
    if clash is not None:
        # What nobody has any more may only not be collected yet.
        gc.collect()
        clash = _clash(tasks, new)
    if clash is not None:
        name, one, other = clash
        raise ConfigError(f"two pipelines or DAGs are called {name!r}: {one} and {other}. Rename one.")


def _clash(tasks: Tasks, new: Mapping[str, str]) -> tuple[str, str, str] | None:
    found = dict(new)
    for each in tasks._sets():
        for name in new or each._definitions.names:
            place = each._definitions.place(name)
            # The same place twice is a module that was loaded again, or a function that defines it at each call.
            if place is not None and found.setdefault(name, place) != place:
                return name, place, found[name]
    return None


def resources_of(tasks: Tasks) -> list[AnyResource]:
    """Every resource of a set and of those it includes."""
    return [resource for each in tasks._sets() for resource in each._resources]


def check_free(known: dict[str, AnyTask], name: str, task: AnyTask) -> None:
    other = known.get(name)
    # The same place twice is a module that was loaded again.
    if other is not None and other.defined_at != task.defined_at:
        raise ConfigError(
            f"two tasks are called {name!r}: {other.defined_at} and {task.defined_at}. "
            "Rename one, or give it another name with @task(name=...)."
        )
