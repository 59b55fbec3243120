"""Shapes: a shape makes a plan of a root, and the plan becomes the beginning of a run.

A shape is a function that looks at a root and gives its plan, or None for a root of another shape. All that is
particular about a shape is in its plans: with which tasks, joins and waiters a run begins, what makes two starts the
same one, and how it is shown. The rule at a join goes with the join. What follows the end of a run is a task that joins
its ends. So nobody who works on a run, waits for it or shows it has to ask which shape it has.

Does not start anything: `start.py` does, for every shape.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from types import CodeType
from typing import Any, Protocol, TypeVar

import msgspec

from ramify.kernel.outgoing.offspring import Brood, new_tasks, sorted_out
from ramify.model.addition import Addition
from ramify.model.call import Call, Group, with_headers
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.run import NewRun, Order, RunState
from ramify.model.task import Appended, NewTasks, Row

R_co = TypeVar("R_co", covariant=True)


class Added(msgspec.Struct, frozen=True):
    """The result of adding one call: the task it is now or, if it was not `created`, the task that has its key.

    `task` is None if that one has given up the key since.
    """

    task: int | None
    created: bool


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first tasks of a run, with the joins and waiters among them.

    `order` has the place of each task, group after group, among the calls of its plan; without it nobody asks.
    """

    tasks: Sequence[NewTasks]
    joins: Sequence[NewJoins] = ()
    waiters: Sequence[NewWaiters] = ()
    order: Sequence[int] = ()

    def into(self, run: int, opens: NewRun | None = None) -> Addition:
        """The same for a run that is there, or for the one that it `opens` by its name."""
        return Addition(run, self.tasks, self.joins, self.waiters, opens)

    def inheriting(self, headers: Mapping[str, str]) -> Beginning:
        """The same with these headers, but for those that a task has itself under the same name."""
        if not headers:
            return self
        carried = ((each, each.details or [None] * len(each.bodies)) for each in self.tasks)
        return replace(
            self,
            tasks=[
                msgspec.structs.replace(each, details=[with_headers(extra, headers) for extra in extras])
                for each, extras in carried
            ],
        )

    def added(self, appended: Appended) -> tuple[Added, ...]:
        """Return what became of each call, in the order of the calls; nothing when that is not known."""
        if not self.order:
            return ()
        became = [
            Added(task or None, (g, i) not in appended.taken)
            for g, tasks in enumerate(appended.ids)
            for i, task in enumerate(tasks)
        ]
        return tuple(each for _, each in sorted(zip(self.order, became, strict=bool(became)), key=itemgetter(0)))


class Plan(Protocol[R_co]):
    """A run to be started, as its shape understands it. Its `str` is how it is shown."""

    @property
    def name(self) -> str | None:
        """The name of the definition that it is a run of; None for a run of plain calls."""

    @property
    def calls(self) -> Sequence[Call[R_co]]:
        """The calls that become its first tasks."""

    @property
    def order(self) -> Order:
        """The default order in which its tasks are claimed."""

    @property
    def fails_as(self) -> RunState:
        """The end state of a run whose tasks failed: failed or halted."""

    @property
    def size(self) -> int:
        """The number of ids its beginning takes: one for each task, and one for each join without a task."""

    @property
    def launches(self) -> bool:
        """True if tasks of its run may start other runs, which whoever works on it works on as well."""

    @property
    def given(self) -> object:
        """The named inputs of a run as plain values, shown as its `params`. None if there are none."""

    def identities(self, older: Mapping[str, Sequence[str]]) -> Iterable[bytes]:
        """Texts that tell this plan from others of its shape: with the present names of its kinds, then older ones."""

    def difference(self, rows: Iterable[Row]) -> str:
        """Describe how it differs from the run that began with these; empty if that is clear."""

    def beginning(self, first: int, now: int) -> Beginning:
        """Make its tasks, joins and waiters, with ids from `first` on; delays count from `now`."""


#: From a root to its plan; None for a root of another shape. Generators of these functions are no roots: somebody
#: called a task.
Shape = Callable[[object, Container[CodeType]], Plan[Any] | None]


def laid_out(calls: Sequence[Call[Any]], first: int, now: int) -> Beginning:
    """Calls as columns, with ids from `first` on, those of one group next to each other."""
    broods: dict[Group, Brood] = {}
    for position, call in enumerate(calls):
        # Nobody is their parent: in that column is the place of each among the calls.
        broods.setdefault(call.group, Brood()).add(position, call)
    tasks: list[NewTasks] = []
    order: list[int] = []
    for group, brood in sorted_out(broods):
        tasks.append(msgspec.structs.replace(new_tasks(group, first, brood, now), parents=None))
        order += brood.parents
        first += len(brood.bodies)
    return Beginning(tasks, order=order)
