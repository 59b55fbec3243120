"""Graphs: nodes level by level, how each stands, and what it still waits for.

Those of runs are read from the store (`run_graph.py`). A definition that never ran has the same values, without what
only a run knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from ramify.inspect.show import tree_of
from ramify.model.join import Rule
from ramify.model.run import StoredRun
from ramify.model.task import OWN


class NodeState(StrEnum):
    """How a node stands. One that is running may be about to."""

    WAITING = "waiting"
    READY = "ready"
    LIMITED = "limited"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"

    @property
    def is_end(self) -> bool:
        """True if nothing more will come of it by itself."""
        return self not in (NodeState.WAITING, NodeState.READY, NodeState.LIMITED, NodeState.RUNNING)


class Role(StrEnum):
    """The role of a node: a task of the user's, a map, a case, what starts another run, or what follows the end.

    Pipelines also have gates, sleeps, ways of which one is taken and the place where they meet. A branch is no node:
    it is what a map began for one element.
    """

    TASK = "task"
    MAP = "map"
    CASE = "case"
    TRIGGER = "trigger"
    GATE = "gate"
    SLEEP = "sleep"
    WAY = "way"
    MEET = "meet"
    BRANCH = "branch"
    END = "end"


#: The kinds of the task that closes a run of a DAG, and of one that begins the steps of a branch.
CLOSE, BRANCH = f"{OWN}close", f"{OWN}branch"

_OWN = {f"{OWN}{role}": role for role in (Role.CASE, Role.GATE, Role.SLEEP, Role.WAY, Role.MEET)}
_WHEN = {
    Rule.ALL_DONE: "done",
    Rule.NONE_FAILED: "none-failed",
    Rule.ANY_DONE: "any-done",
    Rule.ANY_FAILED: "failed",
    Rule.ALWAYS: "always",
    Rule.NONE_HALTED: "none-halted",
    Rule.BEHIND: "behind",
}


class GraphNode(msgspec.Struct, frozen=True):
    """A node. `needs` and `waits_for` are places among the nodes: all it waits for, and those that have not ended.

    `kind` is what it runs; of a map, what it makes for each item, of a trigger, what it starts, and of the end, what
    follows it. `parts` are how many
    of those stand how. `seconds` are from the start of its first attempt to its end, that of all it made included.
    One that waits for a time has that as `due`, by the store's clock; a gate that is open also has `since` when. What a
    gate asks for is told by `asks_for`, and `gates` are those that wait for an answer here, by their names in the run.
    `reason` is why it ended so, or is tried again; of a branch, what it is at.
    """

    id: str
    kind: str
    role: Role
    level: int
    needs: tuple[int, ...]
    when: str = "done"
    task: int | None = None
    state: NodeState | None = None
    attempts: int = 0
    seconds: float | None = None
    waits_for: tuple[int, ...] = ()
    parts: Mapping[NodeState, int] | None = None
    reason: str | None = None
    due: int | None = None
    since: int | None = None
    asks_for: str | None = None
    gates: tuple[str, ...] = ()


class Graph(msgspec.Struct, frozen=True):
    """Nodes, each behind all that it waits for; of a run, or of a definition that has no `run`."""

    name: str
    nodes: Sequence[GraphNode]
    run: StoredRun | None = None

    @property
    def levels(self) -> list[list[int]]:
        """The places of nodes by the longest way to them."""
        found: list[list[int]] = []
        for place, node in enumerate(self.nodes):
            while node.level >= len(found):
                found.append([])
            found[node.level].append(place)
        return found


def role_of(kind: str) -> Role:
    """Return what tasks of a kind do in a graph. There are several kinds of maps."""
    if kind == CLOSE:
        return Role.END
    if kind == f"{OWN}trigger":
        return Role.TRIGGER
    if kind.startswith(f"{OWN}map"):
        return Role.MAP
    return _OWN.get(kind, Role.TASK)


def trigger_of(body: bytes) -> tuple[str, str]:
    """Return what a trigger with these arguments starts, and when."""
    tree: Any = tree_of(body)
    how = tree[0]
    rule = Rule(how.get("rule", Rule.ALWAYS))
    name = how["definition"] if "definition" in how else how["call"]["kind"]
    # Of all tasks of a run some may be skipped, and that is well.
    return name, "done" if rule is Rule.NONE_FAILED else when_of(rule)


def when_of(rule: Rule) -> str:
    """A rule as people write it."""
    return _WHEN[rule]


def level_of(needs: Iterable[int], levels: Sequence[int]) -> int:
    """One more than the last of those it waits for."""
    return 1 + max((levels[each] for each in needs), default=-1)
