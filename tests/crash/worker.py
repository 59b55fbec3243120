"""A worker: drives the verbs over a tree until its run has ended, as a kernel would, and tells the witness.

It enters, claims, runs, commits with children, joins and staged rows, buries dead predecessors and advances the run.
A verb whose outcome is unknown is sent again as it is: same stamp, same arguments. Between two sends it asks
`recover`, which may repair a disk or open the store anew, or raise to let the worker die.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ramify.errors import StoreUnavailable
from ramify.model.claim import Claim, Want
from ramify.model.commit import Committed, Later, Part
from ramify.model.context import SetValue
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.key import Hold, key_bytes
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Advanced, NewRun, Order, RunState
from ramify.model.task import NewTasks
from ramify.model.topic import Publication
from ramify.store.contract import Store
from tests.crash.tree import KINDS, Node, Tree, Way, kind_of
from tests.crash.witness import Said, Witness

RUN_NAME = "tree"
#: Where each node is announced that is done.
TOPIC = "nodes"
#: Nobody is declared dead for silence here: a free lock is what tells.
DEAD_AFTER = 3600.0
#: How far ahead a setback is put, in microseconds: far enough to be a row of its own, near enough not to be waited for.
SOON = 2_000
ID_BLOCK = 64

T = TypeVar("T")
Recover = Callable[[StoreUnavailable, Store], Store]


def go_on(error: StoreUnavailable, store: Store) -> Store:
    """The recovery of a patient worker: none."""
    return store


@dataclass
class _Outcome:
    """What a part will say: the events of its tasks and what follows from them."""

    tasks: list[int] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    children: list[NewTasks] = field(default_factory=list)
    joins: list[NewJoins] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    publish: list[int] = field(default_factory=list)
    sets: list[SetValue] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    heirs: dict[int, int] = field(default_factory=dict)


class Worker:
    """One process at work on a tree."""

    def __init__(
        self,
        store: Store,
        witness: Witness,
        tree: Tree,
        chance: random.Random,
        *,
        recover: Recover = go_on,
        idle: Callable[[Store], object] = lambda store: store.wait(0.01, store.wait(0, 0)),
        order: Order = Order.ANY,
        largest_claim: int = 12,
    ) -> None:
        self.store = store
        self.process = 0
        self._witness, self._tree, self._chance, self._order = witness, tree, chance, order
        self._recover, self._idle = recover, idle
        self._largest_claim = largest_claim
        self._n = 0
        self._claims: list[Claim] = []
        self._ids = range(0)

    # sending

    def send(self, verb: Callable[[Store], T]) -> T:
        """Send a verb until it is answered."""
        while True:
            try:
                return verb(self.store)
            except StoreUnavailable as error:
                self.store = self._recover(error, self.store)

    def stamp(self) -> Stamp:
        """The next number."""
        self._n += 1
        return Stamp(self.process, self._n)

    def enter(self) -> None:
        """Enter as a new process, and as another one once the store was opened anew: its lock went with the old one."""
        before: Store | None = None

        def enter(store: Store) -> None:
            nonlocal before
            if store is not before:
                before, self.process = store, new_process_id()
            store.enter(NewProcess(self.process, os.getpid(), "crash"))

        self.send(enter)

    def start(self) -> int:
        """The run of the tree, begun if nobody did yet."""
        first = self._reserve(1 + len(self._tree.roots))
        run = NewRun(first, RUN_NAME, order=self._order)
        roots = self._group("node", first + 1, self._tree.roots, None)
        return self.send(lambda store: store.start(run, [roots])).run.id

    # working

    def work(self) -> RunState:
        """Enter, and work until the run has ended."""
        self.enter()
        run = self.start()
        self.send(lambda store: store.reap(self.process, DEAD_AFTER))
        round = -1
        while True:
            if not self._claims:
                self.claim()
            if self._claims:
                self._run(self._claims.pop())
                continue
            self.send(lambda store: store.reap(self.process, DEAD_AFTER))
            if self._chance.random() < 0.2:
                self.send(lambda store: store.vacuum())
            where = self._advance(run, round)
            if where.state.is_end:
                return where.state
            if not where.moved and where.round == round:
                self._idle(self.store)
            round = where.round

    def _advance(self, run: int, round: int) -> Advanced:
        (answer,) = self.send(lambda store: store.advance([(run, round)]))
        return answer

    def leave(self) -> None:
        """End cleanly."""
        self.send(lambda store: store.leave(self.process))

    def _want(self) -> Want:
        return Want(KINDS, self._chance.randint(1, self._largest_claim))

    def claim(self) -> None:
        """Take work, or nothing."""
        stamp, want = self.stamp(), self._want()
        self._take(self.send(lambda store: store.claim(stamp, want)).claims)

    def _take(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._witness.say(Said.CLAIM, self.process, token=claim.token, tasks=tuple(claim.tasks))
            self._claims.append(claim)

    def _run(self, claim: Claim) -> None:
        """Run the tasks of a claim and hand them in, in one commit or in several."""
        names = {task: json.loads(body) for task, body in zip(claim.tasks, claim.bodies, strict=True)}
        past = {task: claim.history[task].events if task in claim.history else 0 for task in claim.tasks}
        waiting = list(claim.tasks)
        while waiting:
            size = len(waiting) if self._chance.random() < 0.6 else self._chance.randint(1, len(waiting))
            chosen, waiting = waiting[:size], waiting[size:]
            outcome = _Outcome()
            for task in chosen:
                self._witness.say(Said.START, self.process, token=claim.token, tasks=(task,))
                if not self._attempt(outcome, claim, task, names[task], past[task]):
                    return
            # What was set back and does not come back later stays in this claim, and is tried again in it.
            waiting += (t for t, s in zip(outcome.tasks, outcome.statuses, strict=True) if self._stays(outcome, t, s))
            for task in chosen:
                past[task] += 1
            if not self._commit(claim, outcome, last=not waiting):
                return

    @staticmethod
    def _stays(outcome: _Outcome, task: int, status: Status) -> bool:
        return not status.is_end and task not in outcome.later

    def _attempt(self, outcome: _Outcome, claim: Claim, task: int, name: str, past: int) -> bool:
        """Add what one attempt came to; False when the claim turned out to be void."""
        node = self._tree.nodes[name]
        status = node.events[past]
        outcome.tasks.append(task)
        outcome.statuses.append(status)
        if status is Status.DONE:
            outcome.sets.append(SetValue(task, name, b"%d" % task))
            outcome.publications.append(Publication(TOPIC, json.dumps(name).encode(), task=task))
        if not status.is_end:
            if status is Status.DEFERRED or self._chance.random() < 0.5:
                outcome.later.append(task)
        elif node.children and node.way is Way.STAGE:
            return self._stage(outcome, claim, task, node)
        elif node.children:
            self._fan_out(outcome, task, node)
        return True

    def _commit(self, claim: Claim, outcome: _Outcome, *, last: bool) -> bool:
        """Hand in an outcome; True when the claim still has tasks and is still ours."""
        due = self.store.now() + SOON
        part = Part(
            claim.token,
            outcome.tasks,
            outcome.statuses,
            values=[json.dumps(task).encode() if task % 2 else None for task in outcome.tasks],
            children=outcome.children,
            joins=outcome.joins,
            later=[Later(outcome.later, due)] if outcome.later else (),
            publish=outcome.publish,
            heirs=outcome.heirs,
            sets=outcome.sets,
            publications=outcome.publications,
        )
        ends = tuple(t for t, s in zip(outcome.tasks, outcome.statuses, strict=True) if s.is_end)
        then = self._want() if last and not self._claims and self._chance.random() < 0.5 else None
        self._witness.say(Said.COMMIT_BEGIN, self.process, token=claim.token, tasks=ends)
        answer = self.commit(part, then)
        if answer.refused:
            self._witness.say(Said.REFUSED, self.process, token=claim.token, tasks=ends)
        else:
            self._witness.say(Said.COMMIT_ACK, self.process, token=claim.token, tasks=ends, seq=answer.seq)
        self._take(answer.claimed.claims)
        return not answer.refused

    def commit(self, part: Part, then: Want | None = None) -> Committed:
        """Commit one part, sending it again until it is answered."""
        stamp = self.stamp()

        def commit(store: Store) -> Committed:
            try:
                return store.commit(stamp, [part], then)
            except StoreUnavailable:
                self._witness.say(Said.COMMIT_ERR, self.process, token=part.token)
                raise

        return self.send(commit)

    # children

    def _reserve(self, count: int, above: int = 0) -> int:
        """The first of some fresh ids above one, from a block that is renewed when it runs out."""
        if len(self._ids) < count or self._ids[0] <= above:
            first = self.send(lambda store: store.reserve(ID_BLOCK))
            self._ids = range(first, first + ID_BLOCK)
        taken, self._ids = self._ids[:count], self._ids[count:]
        return taken[0]

    def _group(self, kind: str, first: int, names: Sequence[str], parent: int | None, **more: Any) -> NewTasks:
        keyed = kind == "keyed"
        return NewTasks(
            first,
            kind,
            [json.dumps(name).encode() for name in names],
            parent,
            keys=[key_bytes(name) for name in names] if keyed else None,
            hold=Hold.ONCE if keyed else Hold.LABEL,
            **more,
        )

    def _fan_out(self, outcome: _Outcome, task: int, node: Node) -> None:
        """Children in the commit itself, with a gather that waits for them if the node wants one."""
        first = self._reserve(len(node.children) + 1, above=task)
        join = first if node.gather is not None else None
        if node.gather is not None:
            # Where the parent is waited for, the gather arrives in its stead.
            outcome.heirs[task] = first
            outcome.joins.append(NewJoins.one(first, len(node.children)))
            outcome.children.append(self._group("gather", first, [node.gather], task, waits=True))
        at = 0
        for kind, names in _by_kind(node.children):
            outcome.children.append(self._group(kind, first + 1 + at, names, task, join=join, slot=at))
            at += len(names)

    def _stage(self, outcome: _Outcome, claim: Claim, task: int, node: Node) -> bool:
        """Children streamed ahead of the commit in small pieces, which the commit publishes."""
        first = self._reserve(len(node.children))
        for kind, names in _by_kind(node.children):
            outcome.publish.append(first)
            for piece in (names[i : i + 4] for i in range(0, len(names), 4)):
                if not self._stage_piece(claim.token, self._group(kind, first, piece, task)):
                    self._witness.say(Said.REFUSED, self.process, token=claim.token)
                    return False
                first += len(piece)
        return True

    def _stage_piece(self, token: bytes, group: NewTasks) -> bool:
        stamp = self.stamp()
        return self.send(lambda store: store.stage(stamp, token, [group]))


def _by_kind(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(kind_of(name), []).append(name)
    return list(groups.items())
