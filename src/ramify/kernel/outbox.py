"""The outbox: outcomes that wait for the next commit, as columns per claim, and the parts they become.

What is in here is finished but not yet true: a crash loses it, and its tasks run again. Nothing leaves except in a
commit, and what was sent stays the batch's business until it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

from ramify.kernel.offspring import Brood, Fork, Offspring, sorted_out
from ramify.kernel.work import Ran
from ramify.model.call import LONGEST_DELAY, Call, Group
from ramify.model.claim import Claim
from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.join import NewJoin
from ramify.model.policy import SECOND, due_bucket
from ramify.model.task import NewTasks

Take = Callable[[int], int]


@dataclass(slots=True)
class Finished:
    """Outcomes of tasks of one claim. `statuses` and `values` are None while every task ended as done with no result.

    `again` are tasks that stay in memory for a short wait, `later` those that leave it: `(task, seconds)` each.
    """

    claim: Claim
    tasks: list[int] = field(default_factory=list)
    statuses: list[Status] | None = None
    values: list[bytes | None] | None = None
    offspring: Offspring = field(default_factory=Offspring)
    again: list[tuple[int, float]] = field(default_factory=list)
    later: list[tuple[int, float]] = field(default_factory=list)

    def done(self, ran: Ran) -> None:
        """Take over the tasks of a chunk that ended well."""
        before, more = len(self.tasks), len(ran.done)
        if ran.values is not None or self.values is not None:
            if self.values is None:
                self.values = [None] * before
            self.values += ran.values if ran.values is not None else [None] * more
        if self.statuses is not None:
            self.statuses += [Status.DONE] * more
        self.tasks += ran.done
        self.offspring.extend(ran.offspring)

    def add(self, task: int, status: Status, value: bytes | None) -> None:
        """One outcome of another kind."""
        if self.statuses is None:
            self.statuses = [Status.DONE] * len(self.tasks)
        if self.values is None:
            self.values = [None] * len(self.tasks)
        self.tasks.append(task)
        self.statuses.append(status)
        self.values.append(value)


class Outbox:
    """What waits for the next commit, by token; `unsent` counts it; it came in from `since` to `latest`."""

    def __init__(self) -> None:
        self.finished: dict[bytes, Finished] = {}
        self.unsent = 0
        self.since: float | None = None
        self.latest = 0.0

    def of(self, claim: Claim, now: float) -> Finished:
        """The place for outcomes of a claim."""
        self.latest = now
        finished = self.finished.get(claim.token)
        if finished is None:
            finished = self.finished[claim.token] = Finished(claim)
            self.since = now if self.since is None else self.since
        return finished

    def take(self) -> tuple[Finished, ...]:
        """All of it, for a commit."""
        batch = tuple(self.finished.values())
        self.finished, self.unsent, self.since = {}, 0, None
        return batch

    def forget(self, token: bytes) -> None:
        """Outcomes of a claim that was lost: they must not be sent."""
        finished = self.finished.pop(token, None)
        if finished is not None:
            self.unsent -= len(finished.tasks)
        if not self.finished:
            self.since = None


def part_of(finished: Finished, take: Take, now: int, exact: bool = False) -> Part:
    """The part of a commit; `take` gives contiguous ids, `now` is the store's clock; `exact` rounds no waits."""
    offspring = finished.offspring
    children = [new_tasks(group, take(len(brood.bodies)), brood, now) for group, brood in sorted_out(offspring.broods)]
    joins: list[NewJoin] = []
    withheld: list[int] = []
    for fork in offspring.forks:
        heir = finished.claim.join is not None
        if heir:
            withheld.append(fork.parent)
        children += _fork(fork, finished.claim, take, now, joins)
    return Part(
        finished.claim.token,
        _tasks(finished.tasks),
        Status.DONE if finished.statuses is None else finished.statuses,
        finished.values,
        children=children,
        joins=joins,
        later=_later(finished.later, now, exact) if finished.later else (),
        publish=offspring.published,
        discard=offspring.discarded,
        withheld=frozenset(withheld),
    )


def _tasks(tasks: list[int]) -> Sequence[int]:
    """The same tasks, as a range if they are one: stores need not look at each of a range."""
    whole = range(tasks[0], tasks[0] + len(tasks)) if tasks else range(0)
    return whole if tasks and tasks[-1] == whole[-1] and tasks == list(whole) else tasks


def new_tasks(group: Group, first: int, brood: Brood, now: int, join: int | None = None, slot: int = 0) -> NewTasks:
    """Children of one row as columns, from their first id on."""
    lanes = brood.lanes or [None]
    lane = lanes[0] if lanes.count(lanes[0]) == len(lanes) else None
    return NewTasks(
        first,
        group.kind,
        brood.bodies,
        brood.parents,
        queue=group.queue,
        lane=lane,
        priority=group.priority,
        due=due_of(group, now),
        keys=brood.labels,
        hold=group.hold,
        keep=group.keep,
        mores=brood.extras,
        # Those of no lane never share a row with others.
        lanes=cast("list[str]", lanes) if lane is None and lanes[0] is not None else None,
        join=join,
        slot=slot,
    )


def due_of(group: Group, now: int) -> int | None:
    """When tasks of a group may start, by the store's clock."""
    return group.due if group.delay is None else now + round(group.delay * SECOND)


def _fork(fork: Fork, claim: Claim, take: Take, now: int, joins: list[NewJoin]) -> list[NewTasks]:
    """Members in call order, and the continuation under a join of their number.

    The continuation of a member takes over its slot, so that whoever waits for the member gets the final result.
    """
    join = take(1)
    joins.append(NewJoin(join, len(fork.members), join))
    then = fork.then
    outer = claim.join
    children = [
        NewTasks(
            join,
            then.group.kind,
            [then.body],
            fork.parent,
            queue=then.group.queue,
            lane=then.in_lane,
            priority=then.group.priority,
            keys=None if then.label is None else [then.label],
            hold=then.group.hold,
            keep=then.group.keep,
            mores=None if then.extra is None else [then.extra],
            join=outer,
            slot=fork.parent + claim.shift if outer is not None else 0,
            waits=True,
        )
    ]
    slot = 0
    for (group, _), calls in groupby(fork.members, key=_row_of):
        brood = Brood()
        for call in calls:
            brood.add(fork.parent, call)
        children.append(new_tasks(group, take(len(brood.bodies)), brood, now, join, slot))
        slot += len(brood.bodies)
    return children


def _row_of(call: Call[Any]) -> tuple[Group, str | None]:
    return call.group, call.in_lane


def _later(waits: Sequence[tuple[int, float]], now: int, exact: bool) -> list[Later]:
    """Tasks that leave memory, by due time: waits of about the same length share a row."""
    rows: dict[int, list[int]] = {}
    for task, wait in waits:
        # No store can keep the moment at which a wait of 1e300 seconds would be over.
        seconds = min(wait, LONGEST_DELAY)
        due = now + round(seconds * SECOND) if exact else due_bucket(now, seconds)
        rows.setdefault(due, []).append(task)
    return [Later(tasks, due) for due, tasks in rows.items()]
