"""Offspring: the children that attempts made, as columns by group, until a commit gives them ids; and what they set.

Those of an attempt that fails are taken out again, so what is here always belongs to tasks that ended well. Forks
(children with a continuation that waits for them) and subgraphs (children that wait for each other) are kept apart,
because their ids must be known together. So is all that comes of a task which swaps values, because it is committed by
itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from ramify.errors import BadPayload
from ramify.kernel.attempts.values import DraftSwap
from ramify.kernel.core.handler import Handler
from ramify.model.call import LONGEST_DELAY, Call, Extra, Group
from ramify.model.context import SetValue
from ramify.model.join import Rule
from ramify.model.lanes import FEW, by_row
from ramify.model.policy import PARKED, SECOND
from ramify.model.task import NewTasks
from ramify.model.topic import Publication

T = TypeVar("T")

_group = attrgetter("group")
_body = attrgetter("body")
_label, _extra, _lane = attrgetter("label"), attrgetter("extra"), attrgetter("in_lane")


class Brood:
    """Children of one group: parallel columns. `labels`, `extras` and `lanes` stay None until a child has one."""

    __slots__ = ("bodies", "extras", "labels", "lanes", "parents")

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.parents: list[int] = []
        self.labels: list[bytes | None] | None = None
        self.extras: list[bytes | None] | None = None
        self.lanes: list[str | None] | None = None

    def add(self, parent: int, call: Call[Any]) -> None:
        """One child with whatever it has."""
        if call.label is not None or self.labels is not None:
            if self.labels is None:
                self.labels = [None] * len(self.bodies)
            self.labels.append(call.label)
        if call.extra is not None or self.extras is not None:
            if self.extras is None:
                self.extras = [None] * len(self.bodies)
            self.extras.append(call.extra)
        if call.in_lane is not None or self.lanes is not None:
            if self.lanes is None:
                self.lanes = [None] * len(self.bodies)
            self.lanes.append(call.in_lane)
        self.bodies.append(call.body)
        self.parents.append(parent)

    def add_all(self, parent: int, calls: Sequence[Call[Any]]) -> None:
        """Children of one task with one group among them."""
        before, more = len(self.bodies), len(calls)
        if not calls[0].group.plain or self.labels or self.extras or self.lanes:
            self.labels = _joined(self.labels, before, _column(_label, calls), more)
            self.extras = _joined(self.extras, before, _column(_extra, calls), more)
            self.lanes = _joined(self.lanes, before, _column(_lane, calls), more)
        self.bodies += map(_body, calls)
        self.parents += repeat(parent, more)

    def extend(self, other: Brood) -> None:
        """Take over the children of another brood of the same group."""
        self.labels = _joined(self.labels, len(self.bodies), other.labels, len(other.bodies))
        self.extras = _joined(self.extras, len(self.bodies), other.extras, len(other.bodies))
        self.lanes = _joined(self.lanes, len(self.bodies), other.lanes, len(other.bodies))
        self.bodies += other.bodies
        self.parents += other.parents

    def chosen(self, positions: Sequence[int]) -> Brood:
        """Some of the children."""
        if len(positions) == len(self.bodies):
            return self
        some = Brood()
        some.bodies = [self.bodies[i] for i in positions]
        some.parents = [self.parents[i] for i in positions]
        some.labels = self.labels and [self.labels[i] for i in positions]
        some.extras = self.extras and [self.extras[i] for i in positions]
        some.lanes = self.lanes and [self.lanes[i] for i in positions]
        return some


def sorted_out(broods: Mapping[Group, Brood]) -> Iterator[tuple[Group, Brood]]:
    """Children by the rows they will lie in."""
    for group, brood in broods.items():
        for positions in rows_of(group, brood):
            yield group, brood.chosen(positions)


def in_order(parent: int, calls: Iterable[Call[Any]]) -> Iterator[tuple[Group, Brood]]:
    """Children by the rows they will lie in, as neighbours: for those whose order matters."""
    for (group, _), some in groupby(calls, key=_row_of):
        brood = Brood()
        for call in some:
            brood.add(parent, call)
        yield group, brood


def _row_of(call: Call[Any]) -> tuple[Group, str | None]:
    return call.group, call.in_lane


def rows_of(group: Group, brood: Brood) -> Sequence[Sequence[int]]:
    """The positions of the children that will lie in one row each."""
    return [range(len(brood.bodies))] if brood.lanes is None else by_row(brood.lanes, _may_share(group))


def new_tasks(group: Group, first: int, brood: Brood, now: int, **links: Any) -> NewTasks:
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
        due=_delay_of(group) if links.get("waits") else due_of(group, now),
        keys=brood.labels,
        hold=group.hold,
        keep=group.keep or 0,
        details=brood.extras if group.expires is None else _expiring(group, brood, now),
        # Those of no lane never share a row with others.
        lanes=cast("list[str]", lanes) if lane is None and lanes[0] is not None else None,
        **links,
    )


def _expiring(group: Group, brood: Brood, now: int) -> list[bytes | None]:
    """Their extras, with the time by which they must have begun."""
    assert group.expires is not None
    until = now + round(group.expires * SECOND)
    extras = brood.extras or [None] * len(brood.bodies)
    return [msgspec.structs.replace(Extra.decode(extra), until=until).encode() for extra in extras]


def due_of(group: Group, now: int) -> int | None:
    """When tasks of a group may start, by the store's clock."""
    return group.due if group.delay is None else now + round(group.delay * SECOND)


def _delay_of(group: Group) -> int | None:
    """How long tasks of a group wait once their joins have fired."""
    if group.due is not None:
        raise BadPayload(
            f"{group.kind}: it waits for other tasks and cannot have a time as well. Use delay(seconds), which "
            "counts from when they have ended"
        )
    if group.delay is None:
        return None
    # The longest delay there is means for ever.
    return PARKED if group.delay >= LONGEST_DELAY else round(group.delay * SECOND)


def _may_share(group: Group) -> int:
    """How many tasks of a lane may share a row with others: no more than can run together when they are claimed."""
    handler = group.handler
    # With a rate, starts are counted one by one; with a limit of the store, a row waits in the line of its lane. And of
    # a kind that nobody here knows nothing is known.
    if not isinstance(handler, Handler) or handler.policy.rate is not None or handler.policy.per_lane:
        return 0
    return FEW if handler.policy.concurrency is None else handler.policy.concurrency


def _column(which: attrgetter[T], calls: Sequence[Call[Any]]) -> list[T | None] | None:
    """Which of something each call has; None where none has any."""
    column: list[T | None] = list(map(which, calls))
    return None if column.count(None) == len(column) else column


def _joined(mine: list[T | None] | None, many: int, others: list[T | None] | None, more: int) -> list[T | None] | None:
    if mine is None and others is None:
        return None
    joined: list[T | None] = [None] * many if mine is None else mine
    joined += [None] * more if others is None else others
    return joined


@dataclass(frozen=True, slots=True)
class Fork:
    """Members, and the continuation that starts when all of them have ended.

    Of very many members, which are staged already, only the number is known, and the id of the continuation, their
    `join`.
    """

    parent: int
    members: Sequence[Call[Any]]
    then: Call[Any]
    join: int | None = None
    staged: int = 0

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.members) + self.staged

    @property
    def all(self) -> Sequence[Call[Any]]:
        """The members that are not staged, and the continuation."""
        return [*self.members, self.then]

    def made_of(self, calls: Sequence[Call[Any]]) -> Fork:
        """The same with other calls in their place."""
        return replace(self, members=calls[:-1], then=calls[-1])


class LinkedCall(NamedTuple):
    """A call of a subgraph, which starts when those that it needs, by their places, have ended as its rule says.

    With `brings`, it takes their results.
    """

    call: Call[Any]
    needs: Sequence[int]
    rule: Rule
    brings: bool


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Calls that wait for each other, each behind those it needs. The last of them arrives for their parent."""

    parent: int
    calls: Sequence[LinkedCall]

    @property
    def members(self) -> Sequence[LinkedCall]:
        """All but the one with which it goes on."""
        return self.calls[:-1]

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.calls) - 1

    @property
    def all(self) -> Sequence[Call[Any]]:
        """All of the calls."""
        return [each.call for each in self.calls]

    def made_of(self, calls: Sequence[Call[Any]]) -> Subgraph:
        """The same with other calls in their place."""
        return replace(self, calls=[each._replace(call=call) for each, call in zip(self.calls, calls, strict=True)])


@dataclass(slots=True)
class Offspring:
    """The children of tasks of one claim. `published` names ranges that were staged while they ran.

    `sets` are the values that they set in the context of their run; None while there is none. `jobs` are calls that go
    into queues with the ends of these tasks. `swaps` are the values that a single task swaps with its end, and `apart`
    are tasks that do so, each with what came of it. `publications` go into topics with the ends of their tasks; None
    while there is none.
    """

    broods: dict[Group, Brood] = field(default_factory=dict)
    forks: list[Fork | Subgraph] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    staged: int = 0
    sets: list[SetValue] | None = None
    jobs: list[Call[Any]] = field(default_factory=list)
    swaps: Sequence[DraftSwap] = ()
    apart: dict[int, Offspring] | None = None
    publications: list[Publication] | None = None
    _last: tuple[Group, Brood] | None = None

    def __bool__(self) -> bool:
        """True if anything is in it."""
        own = self.broods or self.forks or self.jobs or self.published or self.discarded or self.sets or self.staged
        return bool(own or self.swaps or self.apart or self.publications)

    def add(self, parent: int, calls: Sequence[Call[Any]]) -> None:
        """Children of one task that ended well."""
        if not calls:
            return
        group = calls[0].group
        if all(map(is_, map(_group, calls), repeat(group))):
            self.brood(group).add_all(parent, calls)
            return
        for call in calls:
            self.brood(call.group).add(parent, call)

    def brood(self, group: Group) -> Brood:
        """The children of one group."""
        # Most children in a row are of one group, and hashing one is dear.
        if self._last is not None and self._last[0] is group:
            return self._last[1]
        brood = self.broods.get(group)
        if brood is None:
            brood = self.broods[group] = Brood()
        self._last = (group, brood)
        return brood

    def publish(self, ranges: Sequence[int], count: int) -> None:
        """Children of one task that were staged while it ran, in these ranges."""
        self.published += ranges
        self.staged += count

    def keep(self, values: Collection[SetValue] | None) -> None:
        """Values that were set by tasks that ended well."""
        if values:
            self.sets = [] if self.sets is None else self.sets
            self.sets += values

    def tell(self, publications: Sequence[Publication]) -> None:
        """Publish with the ends of tasks that ended well."""
        if publications:
            self.publications = [] if self.publications is None else self.publications
            self.publications += publications

    def extend(self, other: Offspring) -> None:
        """Take over what another chunk of the same claim brought forth."""
        for group, brood in other.broods.items():
            mine = self.broods.get(group)
            if mine is None:
                self.broods[group] = brood
                self._last = None
            else:
                mine.extend(brood)
        self.forks += other.forks
        self.published += other.published
        self.discarded += other.discarded
        self.staged += other.staged
        self.jobs += other.jobs
        self.keep(other.sets)
        self.tell(other.publications or ())
        if other.apart:
            self.apart = (self.apart or {}) | other.apart

    def set_apart(self, task: int) -> Offspring:
        """Return the place for what comes of a task that swaps values."""
        self.apart = {} if self.apart is None else self.apart
        return self.apart.setdefault(task, Offspring())

    def undone(self) -> Offspring:
        """Return what is left of it when the attempt came to nothing: what was staged is to be discarded."""
        apart = [first for each in (self.apart or {}).values() for first in each.published]
        return Offspring(discarded=self.discarded + self.published + apart)

    @property
    def count(self) -> int:
        """How many children there are."""
        inside = sum(len(brood.bodies) for brood in self.broods.values())
        apart = sum(each.count for each in self.apart.values()) if self.apart else 0
        return inside + self.staged + sum(fork.size + 1 for fork in self.forks) + apart

    @property
    def is_fertile(self) -> bool:
        """True if something may be there once it is committed that was not there before."""
        if self.count > 0 or self.jobs:
            return True
        return bool(self.apart) and any(each.jobs for each in (self.apart or {}).values())
