"""The graph of a run: its nodes level by level, how each stands, and what it still waits for.

Promises: what is read grows with the nodes and their edges, page by page, and not with the tasks that nodes make: of a
map its join says how many came to what. A look at an open run is a snapshot, in which a node may be a moment older than
another.

A node of a DAG is a task that nobody made, with the id of the node as its key; they lie together at the beginning of
their run, and the one that closes it is the last of them. Runs of other shapes have no nodes. Definitions that never
ran have the same values, without what only a run knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

import msgspec

from ramify.inspect.find import title
from ramify.inspect.live import rows_of
from ramify.inspect.lives import Commits, Life, lives_of
from ramify.inspect.show import because, failure_text, key_text, tree_of
from ramify.model.event import Status
from ramify.model.join import Join, Rule
from ramify.model.outcome import Failure
from ramify.model.run import StoredRun
from ramify.model.segment import LIVE_STATES, SegmentState, tasks_in
from ramify.model.task import OWN, Row, is_own
from ramify.store.reads import Reads

_PAGE = 1_000
#: More live rows of one run are not looked at.
_ROWS = 1_000_000
_REASON = 500


class NodeState(StrEnum):
    """How a node stands. One that is running may be about to."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"

    @property
    def is_end(self) -> bool:
        """Whether nothing more will come of it by itself."""
        return self not in (NodeState.WAITING, NodeState.READY, NodeState.RUNNING)


class Role(StrEnum):
    """What a node does: a task of the user's, a map, a case, or what follows the end of the run."""

    TASK = "task"
    MAP = "map"
    CASE = "case"
    END = "end"


_ROLES = {
    f"{OWN}map": Role.MAP,
    f"{OWN}map-stream": Role.MAP,
    f"{OWN}case": Role.CASE,
    f"{OWN}close": Role.END,
}
_CLOSE = f"{OWN}close"
_LIVE = {
    SegmentState.WAITING: NodeState.WAITING,
    SegmentState.GATED: NodeState.READY,
    SegmentState.READY: NodeState.READY,
    SegmentState.CLAIMED: NodeState.RUNNING,
}
_WHEN = {
    Rule.ALL_DONE: "done",
    Rule.NONE_FAILED: "none-failed",
    Rule.ANY_DONE: "any-done",
    Rule.ANY_FAILED: "failed",
    Rule.ALWAYS: "always",
}


class GraphNode(msgspec.Struct, frozen=True):
    """A node. `needs` and `waits_for` are places among the nodes: all it waits for, and those that have not ended.

    `kind` is what it runs; of a map, what it makes for each item, and of the end, what follows it. `parts` are how many
    of those stand how. `seconds` are from the start of its first attempt to its end, that of all it made included.
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
    """What tasks of a kind do in a graph."""
    return _ROLES.get(kind, Role.TASK)


def when_of(rule: Rule) -> str:
    """A rule as people write it."""
    return _WHEN[rule]


def level_of(needs: Iterable[int], levels: Sequence[int]) -> int:
    """One more than the last of those it waits for."""
    return 1 + max((levels[each] for each in needs), default=-1)


def graph_of(reads: Reads, run: StoredRun) -> Graph | None:
    """The graph of a run as it is now; None for a run that has no nodes."""
    return _Looking(reads, run).graph() if has_nodes(reads, run.id) else None


def has_nodes(reads: Reads, run: int) -> bool:
    """Whether a run is one of a DAG."""
    return _CLOSE in reads.counts(run)


def node_rows(reads: Reads, run: int) -> Iterator[Row]:
    """The nodes of a run of a DAG by id; the last is the one that closes it."""
    after, more = run, True
    while more:
        page = reads.tasks(run, after=after, limit=_PAGE)
        for row in page.rows:
            if row.parent is None and row.key is not None:
                yield row
            if row.kind == _CLOSE:
                return
        after, more = page.after, page.more


class _Looking:
    """One look at a run."""

    def __init__(self, reads: Reads, run: StoredRun) -> None:
        self._reads = reads
        self._run = run
        self._commits = Commits(reads)
        self._swept: set[int] = set()
        #: Unfinished tasks of nodes, and how many parts of which parent run.
        self._live: dict[int, NodeState] = {}
        self._running: Counter[int | None] = Counter()
        #: By the task of a node: what it handed its end on to.
        self._heirs: dict[int, Row] = {}
        self._places: dict[int, int] = {}

    def graph(self) -> Graph:
        # What has not ended first: what ends meanwhile is then seen as ended.
        held = [each for each in rows_of(self._reads, self._run.id, _ROWS) if each.state in LIVE_STATES]
        rows = [_bare(row) for row in node_rows(self._reads, self._run.id)]
        self._places = {row.task: place for place, row in enumerate(rows)}
        last = rows[-1].task
        for segment in held:
            if segment.first <= last:
                self._live.update(dict.fromkeys(segment.tasks, _LIVE[segment.state]))
            elif segment.state is SegmentState.CLAIMED:
                self._running += self._parents_of(segment.first, segment.last, set(segment.tasks))
        for sweep in self._reads.sweeps(self._run.id):
            if sweep.first <= last:
                self._swept.update(tasks_in(sweep.first, sweep.last, sweep.left))
        joins = {join.id: when_of(join.rule) for join in self._joins(last)}
        needs = [self._needs(row.task) if row.task in joins else () for row in rows]
        lives = chain.from_iterable(
            lives_of(self._reads, [row.task for row in rows[at : at + _PAGE]]) for at in range(0, len(rows), _PAGE)
        )
        nodes: list[GraphNode] = []
        levels: list[int] = []
        for row, its, life in zip(rows, needs, lives, strict=True):
            if row.role is Role.END and not row.kind:
                continue
            levels.append(level_of(its, levels))
            nodes.append(self._node(row, its, levels[-1], joins.get(row.task, "done"), life))
        return Graph(title(self._run), [_with_waits(node, nodes) for node in nodes], self._run)

    def _parents_of(self, first: int, last: int, tasks: set[int]) -> Counter[int | None]:
        page = self._reads.tasks(self._run.id, after=first - 1, limit=last - first + 1)
        return Counter(row.parent for row in page.rows if row.id in tasks)

    def _joins(self, last: int) -> Iterator[Join]:
        after, more = 0, True
        while more and after < last:
            page = self._reads.joins(self._run.id, after=after, limit=_PAGE)
            yield from page.rows
            after, more = page.after, page.more

    def _needs(self, join: int) -> tuple[int, ...]:
        found: dict[int, None] = {}
        after, more = -1, True
        while more:
            page = self._reads.members(join, after=after)
            for _, task in page.rows:
                place = self._place(task)
                if place is not None:
                    found[place] = None
            after, more = page.after, page.more
        return tuple(found)

    def _place(self, task: int) -> int | None:
        """The node whose end a task is: itself, or one that made it to go on with. None for what was forgotten."""
        place = self._places.get(task)
        if place is not None:
            return place
        row = heir = self._reads.task(task)
        while row is not None and row.parent is not None:
            place = self._places.get(row.parent)
            if place is not None and heir is not None:
                self._heirs[row.parent] = heir
                self._places[task] = place
                return place
            row = self._reads.task(row.parent)
        return None

    def _node(self, row: _Bare, needs: tuple[int, ...], level: int, when: str, life: Life) -> GraphNode:
        state = self._state(row.task, life)
        ended, parts, reason = life, None, _reason(life)
        heir = self._heirs.get(row.task)
        if state is NodeState.DONE and heir is not None:
            (ended,) = lives_of(self._reads, [heir.id])
            state, parts, reason = self._continued(row.task, heir, ended)
        if row.role is Role.END and state is NodeState.DONE:
            parts = self._following(row.task)
        return GraphNode(
            row.id,
            row.kind,
            row.role,
            level,
            needs,
            when if row.role is not Role.END else "done",
            row.task,
            state,
            life.attempts,
            life.seconds(self._commits, until=ended) if state.is_end else None,
            (),
            parts if row.role in (Role.MAP, Role.END) else None,
            reason,
        )

    def _state(self, task: int, life: Life) -> NodeState:
        if life.ended is not None:
            return NodeState[life.ended.name]
        live = self._live.get(task)
        if live is None and task in self._swept:
            return NodeState.CANCELLED
        # One that no row covers has just moved.
        return live or NodeState.RUNNING

    def _continued(self, node: int, heir: Row, life: Life) -> tuple[NodeState, dict[NodeState, int], str | None]:
        """How a node stands that is done and handed its end on, with what it waits for."""
        found = self._reads.joins(self._run.id, after=heir.id - 1, limit=1).rows
        if not found or found[0].id != heir.id:
            return (NodeState.RUNNING if life.ended is None else NodeState[life.ended.name]), {}, _reason(life)
        join, ends = found[0], found[0].ends
        running = min(self._running[node], join.needs - join.arrived)
        counts = {
            NodeState.RUNNING: running,
            NodeState.READY: join.needs - join.arrived - running,
            NodeState.DONE: ends.done,
            NodeState.FAILED: ends.failed,
            NodeState.SKIPPED: ends.skipped,
            NodeState.CANCELLED: ends.cancelled,
        }
        parts = {each: count for each, count in counts.items() if count}
        if life.ended is None:
            return NodeState.CANCELLED if self._run.state.is_end else NodeState.RUNNING, parts, None
        if life.ended is Status.SKIPPED and ends.broken:
            return NodeState[ends.worst.name], parts, None
        return NodeState[life.ended.name], parts, _reason(life)

    def _following(self, closing: int) -> dict[NodeState, int]:
        """What follows the end of the run: few, and each is looked at."""
        rows = self._reads.children(closing, limit=_PAGE).rows
        found: Counter[NodeState] = Counter()
        for row, life in zip(rows, lives_of(self._reads, [row.id for row in rows]), strict=True):
            if life.ended is not None:
                found[NodeState[life.ended.name]] += 1
            else:
                segment = self._reads.segment(row.id)
                found[NodeState.RUNNING if segment is None else _LIVE.get(segment.state, NodeState.READY)] += 1
        return dict(found)


class _Bare(NamedTuple):
    """A node without its arguments, which may be large."""

    task: int
    id: str
    kind: str
    role: Role


def _bare(row: Row) -> _Bare:
    role, id = role_of(row.kind), key_text(row.key) or ""
    match role:
        case Role.MAP:
            return _Bare(row.id, id, next(_kinds_in(row.body), ""), role)
        case Role.END:
            return _Bare(row.id, id, ", ".join(_kinds_in(row.body)), role)
        case Role.TASK | Role.CASE:
            return _Bare(row.id, id, row.kind.removeprefix(OWN) if is_own(row.kind) else row.kind, role)


def _kinds_in(body: bytes) -> Iterator[str]:
    """The kinds of calls that are inside the arguments of a task of ours."""
    tree = tree_of(body)
    first = tree[0] if isinstance(tree, list) and tree else None
    for each in first if isinstance(first, list) else [first]:
        if isinstance(each, dict) and isinstance(call := each.get("call"), dict):
            yield str(call.get("kind"))


def _with_waits(node: GraphNode, nodes: Sequence[GraphNode]) -> GraphNode:
    if node.state is not NodeState.WAITING:
        return node
    left = (place for place in node.needs if (state := nodes[place].state) is not None and not state.is_end)
    return msgspec.structs.replace(node, waits_for=tuple(left))


def _reason(life: Life) -> str | None:
    match life.ended:
        case Status.FAILED | Status.QUARANTINED:
            return failure_text(Failure.decode(life.value))[:_REASON]
        case Status.SKIPPED | Status.CANCELLED:
            return because(life.value).removeprefix(": ")[:_REASON] or None
        case _:
            return None
