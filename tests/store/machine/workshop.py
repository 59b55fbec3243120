"""New work: tasks of all sorts, with the joins between them, drawn from so few kinds, keys and times that they meet.

Everything made here fits: what a store must refuse is made in `bad.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from ramify.model.addition import Addition
from ramify.model.join import AHEAD, BEFORE, NewJoins, NewWaiters, Rule
from ramify.model.key import Hold
from ramify.model.limit import LIMITS, Limit, Numbers, Pace, StoredLimit, write_limit
from ramify.model.own_topics import FAILURES_TOPIC, RUN_ENDS_TOPIC, TOPICS, StoredTopic, write_topic
from ramify.model.policy import SECOND
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.model.topic import Publication
from ramify.model.value import Swap
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Worker
from tests.store.machine.picture import KEYS, KINDS
from tests.store.machine.scene import LONGEST_WAIT, Scene

WAITS = (0, 1, 40, LONGEST_WAIT)
#: More than a narrow mask or join part holds.
LARGEST_GROUP = 6
#: Ids that one producer of single tasks takes at a time, and those of a streamed fan-out.
BLOCK = 6
STREAM = 8


@dataclass
class Work:
    """Tasks on their way in, with the joins between them."""

    groups: list[NewTasks] = field(default_factory=list)
    joins: list[NewJoins] = field(default_factory=list)
    waiters: list[NewWaiters] = field(default_factory=list)


class Workshop:
    """Where new work is made."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._block = range(0)
        self._spare: list[range] = []

    def ids(self, choose: Choices, count: int) -> int:
        """The first of `count` reserved ids. Some blocks are kept for later, so that ids do not tell the age."""
        for block in self._spare:
            if len(block) >= count and choose.chance():
                self._spare.remove(block)
                self._spare.append(block[count:])
                return block[0]
        if choose.chance(8):
            self._spare.append(self._reserve(4))
        return self._reserve(count)[0]

    def next_single(self, choose: Choices) -> int:
        """The next id of the producer of single tasks, who mostly goes on where he was."""
        if not self._block or choose.chance(8):
            self._block = self._reserve(BLOCK)
        first, self._block = self._block[0], self._block[1:]
        return first

    def _reserve(self, count: int) -> range:
        first = self._scene.front.ask("reserve", count)
        return range(first, first + count)

    def later(self, choose: Choices) -> int:
        """A time that comes sooner or later."""
        return self._scene.pair.clock.now() + choose.one(WAITS) * SECOND

    def group(self, choose: Choices, first: int, count: int, parents: Sequence[int] = (), **columns: Any) -> NewTasks:
        """New tasks with columns of all sorts."""
        options: dict[str, Any] = {"kind": choose.one((KINDS[0], *KINDS))}
        if choose.chance(4):
            options |= {"queue": "slow", "lane": choose.one((None, "left", "right"))}
        elif choose.chance(4):
            options["lanes"] = [choose.one(("left", "right")) for _ in range(count)]
        if choose.chance(4):
            options["priority"] = choose.one((-1, 1))
        if choose.chance(3) and not columns.get("waits"):
            options["due"] = self.later(choose)
        if choose.chance(2):
            options |= {"keys": [choose.one((*KEYS, *KEYS[1:], None)) for _ in range(count)]}
            options["hold"] = choose.one((*Hold, Hold.UNIQUE))
            options["keep"] = choose.one((0, 100 * SECOND))
            options["again"] = choose.chance(4)
        if choose.chance(4):
            options["details"] = [choose.one((None, b"", b"more")) for _ in range(count)]
        if parents:
            options["parents"] = choose.one((parents[0], [choose.one((None, *parents)) for _ in range(count)]))
        bodies = [choose.one((b"1", b"", b"\0\xff")) for _ in range(count)]
        return NewTasks(first, bodies=bodies, **(options | columns))

    def addition(self, choose: Choices) -> Addition:
        """Some groups for one of two queues, which may have to begin."""
        name = choose.one(("mail", "parcels"))
        opens = NewRun(self.ids(choose, 1), name, shape="queue", order=Order.ANY, endless=True)
        sizes = [choose.number(1, 3) for _ in range(choose.number(1, 2))]
        return Addition.opening(opens, [self.group(choose, self.ids(choose, size), size) for size in sizes])

    def swaps(self, choose: Choices) -> list[Swap]:
        """Some of two values are swapped, deleted or looked at, by what is there or by what is not."""
        swaps = []
        for name in choose.some(("a", "ü"), least=1):
            known = self._scene.front.reference.reads.value("quota", name)
            there = 0 if known is None else known.version
            seen = choose.one((there, there, None, 0, 1))
            value = choose.one((b"1", b"", b"\0\xff", None))
            expires = self.later(choose) if choose.chance(3) else None
            swaps.append(Swap("quota", name, seen, self.ids(choose, 1), value, expires))
            if seen is not None and choose.chance(4):
                swaps[-1] = Swap("quota", name, seen, 0)
        return swaps

    def publications(self, choose: Choices, done: Sequence[int] = ()) -> list[Publication]:
        """Some facts for two topics, of tasks that are done or of nobody."""
        return [
            Publication(
                choose.one(("bills", "ü.%")),
                choose.one((b"1", b"", b"\0\xff")),
                choose.one((None, "k", "ü")),
                choose.one((None, *WAITS)),
                choose.one((None, *done)),
            )
            for _ in range(choose.number(1, 4))
        ]

    def listens(self, choose: Choices) -> Swap:
        """Somebody listens to a topic of the store itself, for a while or for good; or no more."""
        topic = choose.one((FAILURES_TOPIC, RUN_ENDS_TOPIC))
        declared = StoredTopic(choose.one((None, *WAITS)))
        expires = self.later(choose) if choose.chance(3) else None
        value = None if choose.chance(4) else write_topic(declared)
        return Swap(TOPICS, topic, None, self.ids(choose, 1), value, expires)

    def limit(self, choose: Choices) -> Swap:
        """One of three limits: of a kind or two, per lane or of a queue, by number or by rate; or its end."""
        name = choose.one(("api", "host", "slow"))
        kinds = choose.some(KINDS, least=1) if name != "slow" else ()
        most = choose.one((1, 1, 2, 3))
        pace = (
            Pace(choose.number(1, 2), choose.one((2, 20)) * SECOND, choose.number(0, 1)) if choose.chance(3) else None
        )
        numbers = Numbers(most if pace is None or choose.chance() else None, pace)
        limit = Limit(name, numbers, name == "host", tuple(kinds), ("slow",) if name == "slow" else ())
        value = None if choose.chance(4) else write_limit(StoredLimit(limit))
        return Swap(LIMITS, name, None, self.ids(choose, 1), value)

    def some_work(self, choose: Choices, parents: Sequence[int] = (), *, waiters: bool = True) -> Work:
        """A few groups; sometimes with a join, of members, of tasks that exist, or of nobody at all."""
        work = Work()
        for _ in range(choose.number(1, 2)):
            count = choose.number(1, LARGEST_GROUP)
            work.groups.append(self.group(choose, self.ids(choose, count), count, parents))
        if choose.chance():
            self._fan_in(choose, work, parents, waiters)
        if waiters and choose.chance(3):
            self._behind(choose, work, parents)
        return work

    def _behind(self, choose: Choices, work: Work, parents: Sequence[int]) -> None:
        """Tasks behind one or two that exist, in turns: perhaps behind each other."""
        known = choose.some(choose.one((self._scene.unfinished, self._scene.all_tasks))(), most=2)
        for ahead in known:
            count = choose.number(1, 3)
            first = self.ids(choose, count)
            joins = range(first, first + count)
            work.joins.append(NewJoins(joins, [BEFORE + 1] * count, Rule.BEHIND))
            work.groups.append(self.group(choose, first, count, parents, waits=True))
            work.waiters += [NewWaiters([ahead] * count, joins, [slot] * count) for slot in AHEAD]
            work.waiters.append(NewWaiters([ahead] * count, joins, [BEFORE] * count, behind=True))

    def _fan_in(self, choose: Choices, work: Work, parents: Sequence[int], waiters: bool) -> None:
        """A join of some members and waiters, perhaps with a nested one, and perhaps a second that needs nobody."""
        tasks = choose.number(1, 2)
        join = self.ids(choose, tasks)
        members = choose.number(0, 3)
        known = choose.one((self._scene.unfinished, self._scene.all_tasks))() if waiters else []
        waited = choose.some(known, most=3)
        nested = choose.chance(3)
        needs = members + len(waited) + nested
        work.joins.append(NewJoins.one(join, needs))
        work.joins += [NewJoins.one(join + 1, 0)] * (tasks - 1)
        work.groups.append(self.group(choose, join, tasks, parents, waits=True))
        if members:
            first = self.ids(choose, members)
            work.groups.append(self.group(choose, first, members, parents, join=join))
        work.waiters += [NewWaiters.one(task, join, members + i) for i, task in enumerate(waited)]
        if nested:
            inner = self.ids(choose, 1)
            count = choose.number(0, 2)
            work.joins.append(NewJoins.one(inner, count))
            work.groups.append(self.group(choose, inner, 1, parents, waits=True, join=join, slot=needs - 1))
            if count:
                work.groups.append(self.group(choose, self.ids(choose, count), count, parents, join=inner))

    def edition(self, choose: Choices, work: Work, heir: int, maker: int, others: Sequence[int]) -> NewTasks:
        """The heir of a task; often with items that it gathers. Some of those may be the children of others."""
        items = choose.number(0, LARGEST_GROUP)
        if items:
            parents = choose.one(([maker], [maker, *others]))
            work.joins.append(NewJoins.one(heir, items))
            work.groups.append(self.group(choose, self.ids(choose, items), items, parents, join=heir))
        return NewTasks(heir, choose.one(KINDS), [b"heir"], maker, waits=bool(items))

    def next_to(self, choose: Choices, tasks: NewTasks) -> NewTasks:
        """A single task like another one, but for its key."""
        keys = tasks.keys and [choose.one((*KEYS, None))]
        return structs.replace(tasks, first=self.next_single(choose), keys=keys)

    def stream(self, choose: Choices, worker: Worker, token: bytes) -> NewTasks:
        """Tasks to stage under a claim. They begin at a multiple of `STREAM`, or go on where the last ones ended."""
        before: list[NewTasks] = [
            sent.args[2][0] for sent in worker.sent[-1:] if sent.verb == "stage" and sent.args[1] == token
        ]
        if before and choose.chance() and before[0].last % STREAM + len(before[0].bodies) < STREAM:
            last = before[0]
            slot = last.slot + len(last.bodies) if last.join is not None else 0
            return structs.replace(last, first=last.last + 1, slot=slot)
        first = next(task for task in self._reserve(2 * STREAM) if task % STREAM == 0)
        count, parent = choose.number(1, 3), worker.left[token][0]
        if choose.chance():
            return self.group(choose, first, count, [parent])
        # Of one parent, so that it goes on as one range and can be one join's.
        return structs.replace(self.group(choose, first, count, join=self._reserve(1)[0]), parents=parent)

    def gather(self, choose: Choices, work: Work, join: int, members: int) -> None:
        """The join of staged members, in the commit that publishes them."""
        work.joins.append(NewJoins.one(join, members))
        work.groups.append(self.group(choose, join, 1, waits=True))
