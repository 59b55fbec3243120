"""The tree of a seed: every task that a run will ever have, what each attempt of it does, and how it must end.

A task is known by its number, which is its argument. What an attempt does depends on that number and on how many events
the task has, so any process may run it at any time, and all that must be in the store in the end is known beforehand.
Not in here: time, processes, faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ramify.kernel.core.handler import Calling, Handler, Policy
from ramify.kernel.tuning import QUICK
from ramify.model.call import Call, Group
from ramify.model.codec import Signature
from ramify.model.event import Status
from ramify.model.join import Rule
from ramify.model.policy import Backoff, Rate, seconds_in

#: Retries of a kind with a time limit: a frozen process uses up attempts that nobody planned.
PLENTY = 1_000


def _task(number: int) -> int | None:
    return number


SIGNATURE = Signature.of(_task)


class Act(Enum):
    """What one attempt does."""

    DONE = "done"
    RAISE = "raise"
    FATAL = "fatal"
    DEFER = "defer"
    DEFER_LONG = "defer long"
    SLOW = "slow"
    KILL = "kill"
    KILL_LATER = "kill just after it returned"


#: The event that an attempt leaves, when more attempts follow.
SETBACKS = {
    Act.RAISE: Status.RETRYING,
    Act.SLOW: Status.RETRYING,
    Act.DEFER: Status.DEFERRED,
    Act.DEFER_LONG: Status.DEFERRED,
}
ENDINGS = {
    Act.DONE: Status.DONE,
    Act.RAISE: Status.FAILED,
    Act.FATAL: Status.FAILED,
    Act.KILL: Status.QUARANTINED,
    Act.KILL_LATER: Status.QUARANTINED,
}
DEFER_SECONDS = {Act.DEFER: 0.3, Act.DEFER_LONG: 3.0}


@dataclass(frozen=True, slots=True)
class Split:
    """Members and the continuation that waits for them."""

    members: tuple[int, ...]
    then: int


@dataclass(slots=True)
class Node:
    """One task. `waited_for`: somebody waits for it, so its continuation takes its place.

    A root may wait for other roots, as nodes of a DAG do, and runs if these ended as its rule says. So may those that
    a task has `grown`, as branches of a pipeline do; the last of them takes its place.
    """

    number: int
    run: int
    parent: int | None
    group: Group
    lane: str | None
    seconds: float
    script: tuple[Act, ...] = ()
    end: Act = Act.DONE
    value: bytes | None = None
    retries: int | None = None
    always: bool = False
    waited_for: bool = False
    children: list[int] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    grown: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    rule: Rule = Rule.ALL_DONE
    #: The value that it adds one to with its end, if any, which tasks of all runs share.
    counter: str | None = None

    @property
    def sets(self) -> str | None:
        """What some set in the context of their run at each attempt, so that it stands when they are done."""
        return None if self.number % 3 else f"node {self.number}"

    @property
    def body(self) -> bytes:
        """Its arguments."""
        return b"[%d]" % self.number

    @property
    def call(self) -> Call[Any]:
        """The call that makes it."""
        call: Call[Any] = Call(self.group, self.body)
        if self.retries is not None:
            call = call.retries(self.retries)
        if self.lane is not None:
            call = call.lane(self.lane)
        return call.always() if self.always else call

    def act(self, events: int) -> Act:
        """What the attempt after so many events does."""
        return self.script[events] if events < len(self.script) else self.end

    @property
    def offered(self) -> Iterator[int]:
        """Every task that it makes when it ends well."""
        yield from self.children
        for split in self.splits:
            yield from split.members
            yield split.then
        yield from self.grown


def number_of(body: bytes) -> int:
    """The number in a body."""
    return int(body[1:-1])


def handlers_of(
    chance: random.Random, killers: bool, plain: Callable[..., Any], woven: Callable[..., Any]
) -> dict[str, Handler]:
    """Kinds of every sort, with the policies of this seed."""
    backoff = Backoff(chance.choice((0.0, 0.2, 2.0)), 2.0, 4.0, jitter=chance.random() < 0.5)
    most = 4 if killers else None

    def handler(kind: str, colour: Calling, policy: Policy) -> Handler:
        return Handler(kind, woven if colour.is_async else plain, SIGNATURE, colour, policy)

    limit: dict[str, Any] = chance.choice(({"concurrency": 1}, {"concurrency": 3}, {"rate": Rate((3, 1.0))}))
    return {
        "plain": handler("plain", Calling.PLAIN, Policy(chance.choice((0, 1, 3)), backoff, max_crashes=most)),
        "woven": handler("woven", Calling.ASYNC, Policy(chance.choice((0, 2)), backoff, max_crashes=most)),
        "timed": handler(
            "timed",
            chance.choice((Calling.PLAIN, Calling.ASYNC)),
            Policy(PLENTY, backoff, timeout=1.5, max_crashes=most),
        ),
        "limited": handler(
            "limited", chance.choice((Calling.PLAIN, Calling.ASYNC)), Policy(2, backoff, max_crashes=most, **limit)
        ),
    }


class Tree:
    """All tasks of all runs of a seed."""

    def __init__(
        self,
        chance: random.Random,
        handlers: Mapping[str, Handler],
        runs: int,
        size: int,
        killers: int,
        linked: bool = False,
        sharing: bool = False,
    ) -> None:
        self._chance = chance
        self._handlers = handlers
        self._linked = linked
        self._groups: dict[tuple[str, float | None], Group] = {}
        self._setbacks = chance.choice((0.0, 0.2, 0.5))
        self._failures = chance.choice((0.0, 0.0, 0.1))
        self._splits = chance.choice((0.0, 0.3, 0.6))
        self._delays = chance.choice((0.0, 0.1))
        self._pace = chance.choice((0.00005, 0.00005, 0.0005, 0.05, 0.3, 1.2))
        # A claim of more tasks than a dead one is split into is the hard case for blame.
        self._fan = 50 if killers else chance.choice((6, 6, 25))
        self._kinds = chance.sample(sorted(handlers), chance.randint(1, len(handlers)))
        if self._pace < QUICK and chance.random() < 0.7:
            # Many quick ones of one kind run in the thread of the loop, until one of them is not quick after all.
            self._kinds, self._setbacks, size = ["plain"], 0.0, 4 * size
        self.nodes: list[Node] = []
        self.roots: list[list[int]] = []
        for run in range(runs):
            roots = [self._node(run, None, linked) for _ in range(chance.randint(1, 12 if linked else 4))]
            self.roots.append([node.number for node in roots])
            if linked:
                self._link(roots)
            self._grow(roots, max(len(roots), size // runs))
        # What kills must be something that ends a branch: whatever it would have made never exists.
        leaves = [node for node in self.nodes if not (node.children or node.splits or node.grown)]
        for node in chance.sample(leaves, min(killers, len(leaves))):
            node.script, node.end, node.value = (), chance.choice((Act.KILL, Act.KILL, Act.KILL_LATER)), None
        if sharing:
            counters = chance.choice((1, 2, 5))
            for node in chance.sample(self.nodes, len(self.nodes) // 2):
                node.counter = f"{node.number % counters}"

    def _link(self, roots: list[Node]) -> None:
        """Let each wait for some of those before it."""
        for at, node in enumerate(roots):
            before = self._chance.sample(roots[:at], min(at, self._chance.choice((0, 1, 1, 2, 3))))
            node.waits = tuple(each.number for each in before)
            node.rule = self._chance.choice((Rule.ALL_DONE, *Rule))

    def _grow(self, frontier: list[Node], size: int) -> None:
        chance, room = self._chance, size - len(frontier)
        while frontier and room > 0:
            node = frontier.pop(chance.randrange(len(frontier)))
            if node.end is not Act.DONE:
                continue
            if self._linked and chance.random() < 0.3:
                # Branches inside of branches.
                inside = [self._node(node.run, node.number, True) for _ in range(chance.randint(1, 5))]
                self._link(inside)
                node.grown = tuple(each.number for each in inside)
                frontier += inside
                room -= len(inside)
            elif chance.random() < self._splits:
                # A task that others wait for has one continuation at most.
                for _ in range(1 if node.waited_for else chance.choice((1, 1, 2))):
                    members = [self._node(node.run, node.number, True) for _ in range(chance.randint(0, 4))]
                    then = self._node(node.run, node.number, node.waited_for, late=False)
                    then.always = chance.random() < 0.3
                    node.splits.append(Split(tuple(m.number for m in members), then.number))
                    frontier += [*members, then]
                    room -= len(members) + 1
            if chance.random() < 0.6 or not (node.splits or node.grown):
                children = [self._node(node.run, node.number, False) for _ in range(chance.randint(0, self._fan))]
                node.children += [child.number for child in children]
                frontier += children
                room -= len(children)

    def _node(self, run: int, parent: int | None, waited_for: bool, late: bool = True) -> Node:
        chance = self._chance
        kind = chance.choice(self._kinds)
        lane = chance.choice((None, "left", "right")) if kind in ("limited", "plain") else None
        delay = chance.choice((0.5, 2.0)) if late and parent is not None and chance.random() < self._delays else None
        # Now and then one that looks quick is not.
        pace = self._pace if chance.random() < 0.98 else 0.5
        node = Node(len(self.nodes), run, parent, self._group(kind, delay), lane, chance.random() * pace)
        node.waited_for = waited_for
        if chance.random() < 0.5:
            node.value = b"%d" % (7 * node.number)
        if kind != "timed" and self._pace >= QUICK and chance.random() < 0.1:
            node.retries = chance.randint(0, 3)
        if chance.random() < self._setbacks:
            self._set_back(node)
        if (parent is not None or waited_for) and chance.random() < self._failures:
            self._fail(node)
        self.nodes.append(node)
        return node

    def _budget(self, node: Node) -> int:
        return node.retries if node.retries is not None else self._handlers[node.group.kind].policy.retries

    def _set_back(self, node: Node) -> None:
        chance = self._chance
        acts = [chance.choice((Act.DEFER, Act.DEFER, Act.DEFER_LONG)) for _ in range(chance.choice((0, 0, 1, 2)))]
        bad = Act.SLOW if node.group.kind == "timed" and chance.random() < 0.5 else Act.RAISE
        acts += [bad] * chance.randint(0, min(2, self._budget(node)))
        chance.shuffle(acts)
        node.script = tuple(acts)

    def _fail(self, node: Node) -> None:
        node.value = None
        if node.group.kind == "timed" or self._chance.random() < 0.5:
            node.end = Act.FATAL
        else:
            node.script, node.end = (Act.RAISE,) * self._budget(node), Act.RAISE

    def _group(self, kind: str, delay: float | None) -> Group:
        if (kind, delay) not in self._groups:
            self._groups[kind, delay] = Group(kind, SIGNATURE, delay=delay, handler=self._handlers[kind])
        return self._groups[kind, delay]

    def extra_time(self) -> float:
        """Seconds in which one worker, alone and unlucky, would be through with everything."""
        total = 0.0
        for node in self.nodes:
            policy = self._handlers[node.group.kind].policy
            tries = len(node.script) + 1
            cap, first = seconds_in(policy.backoff.cap) or 0.0, seconds_in(policy.backoff.first) or 0.0
            total += tries * (node.seconds + cap * (first > 0) + 10.0)
            total += (node.group.delay or 0.0) + 2.0
        return total
