"""The judge of a finished story: the store holds exactly the tree, each task ended as planned, or was cancelled.

What is checked while the story is told (one end each, children exactly once) is not repeated here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ramify.model.event import Status
from ramify.model.join import Ends
from ramify.model.run import RunState
from ramify.store.reads import PAGE_LIMIT
from tests.simulation.tree import ENDINGS, SETBACKS, Act, Node

if TYPE_CHECKING:
    from tests.simulation.world import World

#: With up to 64 tasks that run at a time, or 4,096 that are held, one killer kills no more often.
MOST_DEATHS = 6
BAD = (Status.FAILED, Status.QUARANTINED)
OTHERS = (Status.SKIPPED, Status.CANCELLED)


def verdict(world: World) -> list[str]:
    """What is wrong; empty when nothing is."""
    return list(_Judge(world).complaints())


class _Judge:
    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes = world.tree.nodes
        self._watch = world.watch
        reads = world.store.reads
        self._status = {number: reads.history(task).ended for number, task in self._watch.tasks.items()}
        self._continues = {split.then: split for node in self._nodes for split in node.splits}

    def complaints(self) -> Iterator[str]:
        for node in self._nodes:
            is_there = node.number in self._watch.tasks
            should_be = node.parent is None or self._status.get(node.parent) is Status.DONE
            if is_there != should_be:
                yield f"node {node.number} {'exists' if is_there else 'is lost'}"
            elif is_there:
                yield from self._node(node)
        for at, run in enumerate(self._world.runs):
            yield from self._run(at, run)
        yield from self._counters()

    def _counters(self) -> Iterator[str]:
        """Each task that is done has added one, and no attempt that came to nothing has."""
        done = [node for node in self._nodes if self._status.get(node.number) is Status.DONE and node.counter]
        wanted = Counter(node.counter for node in done)
        found = {each.name: int(each.value) for each in self._world.store.reads.values(space="counter")}
        if found != wanted:
            yield f"the counters are {found} instead of {dict(wanted)}"

    def _node(self, node: Node) -> Iterator[str]:
        number = node.number
        status, wanted = self._status[number], self._wanted(node)
        events = self._world.tables.events.get(self._watch.tasks[number], ())
        told = [event.status for event in events]
        cancelled = self._watch.cancel_of(number) is not None
        if node.end is Act.KILL_LATER and status is Status.DONE:
            # It was recorded before it killed.
            return
        if status is not wanted and not (status is Status.CANCELLED and cancelled):
            yield f"node {number} ended as {status} instead of {wanted}"
            return
        planned = [] if wanted is Status.SKIPPED else [SETBACKS[act] for act in node.script]
        setbacks = told if told and not told[-1].is_end else told[:-1]
        fits = setbacks == (planned if status is wanted else planned[: len(setbacks)])
        # A time limit may also be passed while its process stands still.
        if not fits and not (node.group.kind == "timed" and all(not each.is_end for each in setbacks)):
            yield f"node {number} has events {[each.name for each in told]}, not {[each.name for each in planned]}"
        if status is Status.DONE and events[-1].value != node.value:
            yield f"node {number} has the result {events[-1].value!r} instead of {node.value!r}"
        if (number in self._continues or node.waits) and status is not Status.CANCELLED:
            yield from self._after_members(node, events[0].seq)

    def _wanted(self, node: Node) -> Status:
        if node.waits and not node.rule.allows(self._ends(node)):
            return Status.SKIPPED
        split = self._continues.get(node.number)
        if split is None or node.always:
            return ENDINGS[node.end]
        if any(self._outcome(self._nodes[member])[0] is not Status.DONE for member in split.members):
            return Status.SKIPPED
        return ENDINGS[node.end]

    def _ends(self, node: Node) -> Ends:
        """How those arrived that a task waits for."""
        split = self._continues.get(node.number)
        told = [self._arrived(self._nodes[number]) for number in node.waits or (split.members if split else ())]
        failed = sum(status in BAD for status in told)
        return Ends(told.count(Status.DONE), failed, *map(told.count, OTHERS))

    def _arrived(self, node: Node) -> Status | None:
        """How a member arrived: what a failure kept from running as cancelled."""
        speaks = self._speaker(node)
        status = self._status.get(speaks.number)
        return Status.CANCELLED if status is Status.SKIPPED and self._ends(speaks).halted else status

    def _speaker(self, node: Node) -> Node:
        """Who speaks for a member that ended: its continuation, or the last of what it has grown."""
        while self._status.get(node.number) is Status.DONE and node.waited_for and (node.splits or node.grown):
            node = self._nodes[node.splits[0].then if node.splits else node.grown[-1]]
        return node

    def _outcome(self, node: Node) -> tuple[Status | None, int]:
        """How a member ended in the eyes of whoever waits for it, and when."""
        node = self._speaker(node)
        status = self._status.get(node.number)
        events = self._world.tables.events.get(self._watch.tasks[node.number], ())
        return status, events[-1].seq if events else 0

    def _after_members(self, node: Node, seq: int) -> Iterator[str]:
        for member in node.waits or self._continues[node.number].members:
            if self._outcome(self._nodes[member])[1] > seq:
                yield f"node {node.number} began before its member {member} had ended"

    def _run(self, at: int, run: int) -> Iterator[str]:
        row = self._world.tables.runs[run]
        failed = any(self._status.get(node.number) in BAD for node in self._nodes if node.run == at)
        if run in self._watch.cancelled_runs:
            wanted = RunState.CANCELLED
        else:
            wanted = RunState.FAILED if failed else RunState.DONE
        if row.state is not wanted:
            yield f"run {run} ended as {row.state} instead of {wanted}: {row.reason}"
        values = {each.name: (each.task, each.value) for each in self._world.store.reads.context(run, limit=PAGE_LIMIT)}
        for node in self._nodes:
            is_done = node.run == at and self._status.get(node.number) is Status.DONE
            should_be = (self._watch.tasks[node.number], b"%d" % node.number) if is_done and node.sets else None
            if (found := values.pop(node.sets or "", None)) != should_be:
                yield f"node {node.number} has set {found} instead of {should_be}"
        if values:
            yield f"the context of run {run} has {values}, which no node of it set"
        killers = sum(node.end in (Act.KILL, Act.KILL_LATER) for node in self._nodes)
        if killers and self._world.murders > MOST_DEATHS * killers:
            yield f"{self._world.murders} processes died over {killers} tasks"
