"""The graph of a run, read from its store.

Promises: what is read grows with the nodes and their edges, page by page, and not with the tasks that nodes make: of a
map its join says how many came to what. A look at an open run is a snapshot, in which a node may be a moment older than
another.

A node of a DAG is a task that nobody made, with the id of the node as its key; they lie together at the beginning of
their run, and the one that closes it is the last of them. Runs of other shapes have no nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ramify.inspect.find import title
from ramify.inspect.gates import asks_for, how_answered, opened
from ramify.inspect.graph import (
    BRANCH,
    CLOSE,
    Graph,
    GraphNode,
    NodeState,
    Role,
    level_of,
    role_of,
    trigger_of,
    when_of,
)
from ramify.inspect.live import rows_of
from ramify.inspect.lives import Commits, Life, lives_of
from ramify.inspect.show import because, failure_text, key_text, tree_of
from ramify.model.event import Status
from ramify.model.gate import spec_of
from ramify.model.join import Join, Rule
from ramify.model.outcome import Failure
from ramify.model.run import StoredRun
from ramify.model.segment import LIVE_STATES, Segment, SegmentState, tasks_in
from ramify.model.task import OWN, Row
from ramify.store.contract import Store
from ramify.store.reads import Reads

_PAGE = 1_000
#: More live rows of one run are not looked at.
_ROWS = 1_000_000
#: How much of an error is kept, in characters.
_REASON = 500
_LIVE = {
    SegmentState.WAITING: NodeState.WAITING,
    SegmentState.GATED: NodeState.WAITING,
    SegmentState.READY: NodeState.READY,
    SegmentState.LIMITED: NodeState.LIMITED,
    SegmentState.CLAIMED: NodeState.RUNNING,
}


def graph_of(store: Store, run: StoredRun) -> Graph | None:
    """The graph of a run as it is now; None for a run that has no nodes."""
    return _Looking(store, run).graph() if has_nodes(store.reads, run.id) else None


def has_nodes(reads: Reads, run: int) -> bool:
    """Return whether a run is one of a DAG."""
    return CLOSE in reads.counts(run)


def node_rows(reads: Reads, run: int) -> Iterator[Row]:
    """The nodes of a run of a DAG by id; the last is the one that closes it."""
    after, more = run, True
    while more:
        page = reads.tasks(run, after=after, limit=_PAGE)
        for row in page.rows:
            if row.parent is None and row.key is not None:
                yield row
            if row.kind == CLOSE:
                return
        after, more = page.after, page.more


class _Looking:
    """One look at a run."""

    def __init__(self, store: Store, run: StoredRun) -> None:
        self._reads = store.reads
        self._now = store.now()
        self._run = run
        self._commits = Commits(store.reads)
        #: Unfinished tasks of nodes with their due times, those that the cancel of the run ended, and how many tasks of
        #: which parent run.
        self._live: dict[int, tuple[NodeState, int | None]] = {}
        self._swept: set[int] = set()
        self._running: Counter[int | None] = Counter()
        #: Nodes by their tasks, and by what goes on with them; and that by the tasks of nodes.
        self._places: dict[int, int] = {}
        self._heirs: dict[int, Row] = {}

    def graph(self) -> Graph:
        # What has not ended first: what ends meanwhile is then seen as ended.
        held = [row for row in rows_of(self._reads, self._run.id, limit=_ROWS) if row.state in LIVE_STATES]
        rows = [_bare(row) for row in node_rows(self._reads, self._run.id)]
        self._places = {row.task: place for place, row in enumerate(rows)}
        self._note(held, rows[-1].task)
        rules = {join.id: join.rule for join in self._joins(rows[-1].task)}
        needs = [self._needs(row.task) if row.task in rules else () for row in rows]
        nodes: list[GraphNode] = []
        levels: list[int] = []
        for row, its, life in zip(rows, needs, self._lives(rows), strict=True):
            if row.role is not Role.END or row.kind:
                levels.append(level_of(its, levels))
                nodes.append(self._node(row, its, levels[-1], rules.get(row.task, Rule.ALL_DONE), life))
        return Graph(title(self._run), [_with_waits(node, nodes) for node in nodes], self._run)

    def _note(self, held: Sequence[Segment], last: int) -> None:
        """Keep in mind what has not ended, of nodes up to the last one and of what they made."""
        alive = {process.id for process in self._reads.processes() if process.is_alive}
        for segment in held:
            state, due = self._standing(segment, alive)
            if segment.first <= last:
                self._live.update(dict.fromkeys(segment.tasks, (state, due)))
            elif state is NodeState.RUNNING:
                self._running += self._parents_of(segment)
        for sweep in self._reads.sweeps(self._run.id):
            if sweep.first <= last:
                self._swept.update(tasks_in(sweep.first, sweep.last, sweep.left))

    def _standing(self, segment: Segment, alive: Container[int | None]) -> tuple[NodeState, int | None]:
        if segment.state is SegmentState.CLAIMED and segment.owner not in alive:
            # Whoever held it is dead, and somebody will offer it again.
            return NodeState.READY, None
        if segment.state is not SegmentState.WAITING and segment.due is not None and segment.due > self._now:
            return NodeState.WAITING, segment.due
        return _LIVE[segment.state], None

    def _parents_of(self, segment: Segment) -> Counter[int | None]:
        tasks = set(segment.tasks)
        page = self._reads.tasks(self._run.id, after=segment.first - 1, limit=segment.last - segment.first + 1)
        return Counter(row.parent for row in page.rows if row.id in tasks)

    def _lives(self, rows: Sequence[_Bare]) -> Iterator[Life]:
        for at in range(0, len(rows), _PAGE):
            yield from lives_of(self._reads, [row.task for row in rows[at : at + _PAGE]])

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

    def _node(self, row: _Bare, needs: tuple[int, ...], level: int, rule: Rule, life: Life) -> GraphNode:
        state, ended, reason = self._state(row.task, life), life, _reason(life)
        parts: dict[NodeState, int] | None = None
        heir = self._heirs.get(row.task)
        due = None if state.is_end else self._live.get(row.task, (state, None))[1]
        is_asking = row.role is Role.GATE and due is not None
        if state is NodeState.DONE and row.role is Role.GATE:
            reason = how_answered(self._reads, row.task)
        elif state is NodeState.DONE and heir is not None:
            (ended,) = lives_of(self._reads, [heir.id])
            state, parts, reason = self._continued(row.task, heir, ended)
        elif state is NodeState.DONE and row.role is Role.END:
            parts = self._following(row.task)
        return GraphNode(
            row.id,
            row.kind,
            row.role,
            level,
            needs,
            row.when or when_of(rule),
            task=row.task,
            state=state,
            attempts=life.attempts,
            seconds=life.seconds(self._commits, until=ended) if state.is_end else None,
            parts=parts if row.role in (Role.MAP, Role.END) else None,
            reason=reason,
            due=due,
            since=opened(self._reads, row.task) if is_asking else None,
            asks_for=row.asks_for,
            gates=(row.id,) if is_asking else (),
        )

    def _state(self, task: int, life: Life) -> NodeState:
        if life.ended is not None:
            return NodeState[life.ended.name]
        if task in self._live:
            return self._live[task][0]
        # One that no row covers has just moved.
        return NodeState.CANCELLED if task in self._swept else NodeState.RUNNING

    def _continued(self, node: int, heir: Row, life: Life) -> tuple[NodeState, dict[NodeState, int], str | None]:
        """How a node stands that is done and handed its end on, with what it waits for."""
        found = self._reads.joins(self._run.id, after=heir.id - 1, limit=1).rows
        if not found or found[0].id != heir.id:
            return (NodeState.RUNNING if life.ended is None else NodeState[life.ended.name]), {}, _reason(life)
        join, ends = found[0], found[0].ends
        left = join.needs - join.arrived
        running = min(self._running[node], left)
        # With its run, what had not ended was cancelled, and arrived nowhere.
        swept = left if self._run.state.is_end else 0
        counts = {
            NodeState.RUNNING: running,
            NodeState.READY: left - running - swept,
            NodeState.DONE: ends.done,
            NodeState.FAILED: ends.failed,
            NodeState.SKIPPED: ends.skipped,
            NodeState.CANCELLED: ends.cancelled + swept,
        }
        parts = {each: count for each, count in counts.items() if count}
        if life.ended is None:
            return NodeState.CANCELLED if self._run.state.is_end else NodeState.RUNNING, parts, None
        if life.ended is Status.SKIPPED and ends.broken:
            return NodeState[ends.worst.name], parts, None
        return NodeState[life.ended.name], parts, _reason(life)

    def _following(self, closing: int) -> dict[NodeState, int]:
        """Return what follows the end of the run: few, and each is looked at."""
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
    """A node without its arguments, which may be large. `when` is what these say, if they do."""

    task: int
    id: str
    kind: str
    role: Role
    when: str | None = None
    asks_for: str | None = None


def _bare(row: Row) -> _Bare:
    role, id = role_of(row.kind), key_text(row.key) or ""
    match role:
        case Role.MAP:
            return _Bare(row.id, id, ", ".join(_kinds_in(row.body)), role)
        case Role.END:
            return _Bare(row.id, id, ", ".join(_kinds_in(row.body)), role, "always")
        case Role.TRIGGER:
            starts, when = trigger_of(row.body)
            return _Bare(row.id, id, starts, role, when)
        case _:
            asks = asks_for(spec_of(row.body)) if role is Role.GATE else None
            return _Bare(row.id, id, row.kind.removeprefix(OWN), role, asks_for=asks)


def _kinds_in(body: bytes) -> Iterator[str]:
    """The kinds of calls that are inside the arguments of a task of ours; of a branch, the ids of its steps."""
    for call in _calls_in(body):
        if call.get("kind") == BRANCH:
            yield steps_in(str(call.get("body")).encode())
        else:
            yield str(call.get("kind"))


def steps_in(body: bytes) -> str:
    """The ids of the steps of a branch, from the arguments of the task that begins it."""
    first = _first(body)
    return ", ".join(str(each.get("id")) for each in first if isinstance(each, dict)) if isinstance(first, list) else ""


def _calls_in(body: bytes) -> Iterator[dict[str, Any]]:
    first = _first(body)
    for each in first if isinstance(first, list) else [first]:
        if isinstance(each, dict) and isinstance(call := each.get("call"), dict):
            yield call


def _first(body: bytes) -> object:
    tree = tree_of(body)
    return tree[0] if isinstance(tree, list) and tree else None


def _with_waits(node: GraphNode, nodes: Sequence[GraphNode]) -> GraphNode:
    if node.state is NodeState.SKIPPED and node.when == "done":
        # Rather than how many, which.
        why = next((nodes[each] for each in node.needs if nodes[each].state not in (None, NodeState.DONE)), None)
        return node if why is None else msgspec.structs.replace(node, reason=f"{why.id} was {why.state}"[:_REASON])
    if node.state is not NodeState.WAITING:
        return node
    left = (place for place in node.needs if (state := nodes[place].state) is not None and not state.is_end)
    return msgspec.structs.replace(node, waits_for=tuple(left))


def _reason(life: Life) -> str | None:
    match life.last:
        case Status.FAILED | Status.QUARANTINED | Status.RETRYING:
            return failure_text(Failure.decode(life.value))[:_REASON]
        case Status.SKIPPED | Status.CANCELLED | Status.DEFERRED:
            return because(life.value).removeprefix(": ").strip()[:_REASON] or None
        case _:
            return None
