"""Branches of a pipeline: which of them have not ended or failed, and what each is at.

They are known by the keys of their tasks: `pack[17].label` is a step of the branch `pack[17]` of the map `pack`.

Promises: what is read grows with what has not ended and with what failed, up to a limit, and not with what is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from ramify.inspect.folding import asking
from ramify.inspect.gates import answer_line, asks_for, gate_of
from ramify.inspect.graph import Graph, GraphNode, NodeState, Role, role_of
from ramify.inspect.live import rows_of
from ramify.inspect.show import because, failure_text, key_text
from ramify.inspect.words import moment
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.model.segment import Segment, SegmentState
from ramify.store.contract import Store

#: More tasks than that are not looked at, of those that have not ended and of those that failed.
_LOOKED_AT = 2_000
_LIVE = {
    SegmentState.READY: NodeState.READY,
    SegmentState.LIMITED: NodeState.LIMITED,
    SegmentState.GATED: NodeState.WAITING,
    SegmentState.CLAIMED: NodeState.RUNNING,
}
#: How a branch stands: as that of its steps which comes first here.
_RANK = (
    NodeState.FAILED, NodeState.QUARANTINED, NodeState.RUNNING, NodeState.READY, NodeState.LIMITED, NodeState.WAITING,
)  # fmt: skip


class _Step(msgspec.Struct, frozen=True):
    """A step of a branch that failed or may go on."""

    branch: str
    state: NodeState
    about: str
    task: int
    gate: str | None = None


def with_branches(store: Store, graph: Graph, limit: int | None) -> Graph:
    """A graph of a run with the branches that failed or have not ended, at most so many for each map."""
    maps = {node.id: place for place, node in enumerate(graph.nodes) if node.role is Role.MAP}
    if graph.run is None or not maps:
        return graph
    found: dict[str, list[_Step]] = {}
    complete = True
    for count, step in enumerate(_steps(store, graph.run.id)):
        if step.branch.partition("[")[0] in maps:
            found.setdefault(step.branch, []).append(step)
        complete = complete and count < _LOOKED_AT
    nodes = list(graph.nodes)
    for id, place in maps.items():
        its = {branch: steps for branch, steps in found.items() if branch.partition("[")[0] == id}
        if its and complete and nodes[place].parts is not None:
            nodes[place] = _recounted(nodes[place], its)
        shown = sorted(its, key=lambda branch: (_RANK.index(_state(its[branch])), _numbers(branch)))
        nodes += (_node(branch, its[branch], place, nodes[place].level + 1) for branch in shown[:limit])
        if limit is not None and len(shown) > limit:
            more = f"{len(shown) - limit:,}{'' if complete else ' or more'} others"
            nodes.append(GraphNode("…", "", Role.BRANCH, nodes[place].level + 1, (place,), reason=more))
    return Graph(graph.name, nodes, graph.run)


def answer_lines(graph: Graph, limit: int) -> Iterator[str]:
    """Yield what to type to answer the gates of a graph that are open, at most so many."""
    assert graph.run is not None
    gates = [gate for node in graph.nodes for gate in node.gates]
    yield from (f"answer with: {answer_line(graph.run, gate)}" for gate in gates[:limit])
    if len(gates) > limit:
        yield "`ramify gates` lists all of them"


def _steps(store: Store, run: int) -> Iterator[_Step]:
    now = store.now()
    seen = 0
    for segment in rows_of(store.reads, run):
        state = _LIVE.get(segment.state)
        if state is None:
            continue
        for task in segment.tasks:
            step = _live_step(store, segment, state, task, now)
            if step is not None:
                yield step
            seen += 1
            if seen > _LOOKED_AT:
                break
    for status in (Status.FAILED, Status.QUARANTINED):
        for ended in store.reads.results(run, status=status, limit=_LOOKED_AT).rows:
            row = store.reads.task(ended.task)
            at = None if row is None else _place(key_text(row.key), row.kind)
            if at is not None:
                why = failure_text(Failure.decode(ended.value))
                yield _Step(at[0], NodeState[status.name], f"{at[1]}: {why}", ended.task)


def _live_step(store: Store, segment: Segment, state: NodeState, task: int, now: int) -> _Step | None:
    row = store.reads.task(task)
    at = None if row is None else _place(key_text(row.key), row.kind)
    if row is None or at is None:
        return None
    branch, step = at
    if segment.due is None or segment.due <= now:
        return _Step(branch, state, f"{step} is {state}", task)
    if role_of(row.kind) is Role.GATE:
        gate = gate_of(store.reads, task, segment.due)
        about = f"{step} {asking(asks_for(gate.spec), gate.since, gate.until)}"
        return _Step(branch, NodeState.WAITING, about, task, gate.gate)
    events = store.reads.events(task, task)
    why = because(events[-1].value) if events and events[-1].status is Status.DEFERRED else ""
    about = f"{step}{why}, due {moment(segment.due)}" if why else f"{step} is due {moment(segment.due)}"
    return _Step(branch, NodeState.WAITING, about, task)


def _place(key: str | None, kind: str) -> tuple[str, str] | None:
    """The branch and the step that a key names. What begins a branch has no step of its own."""
    branch, found, step = (key or "").rpartition("].")
    return (f"{branch}]", step or kind) if found else None


def _state(steps: list[_Step]) -> NodeState:
    return min((step.state for step in steps), key=_RANK.index)


def _numbers(branch: str) -> list[int]:
    return [int(each) for each in "".join(c if c.isdigit() else " " for c in branch).split()]


def _node(branch: str, steps: list[_Step], of: int, level: int) -> GraphNode:
    state = _state(steps)
    first = [step for step in steps if step.state is state]
    about = "; ".join(step.about for step in first)
    gates = tuple(step.gate for step in steps if step.gate is not None)
    return GraphNode(branch, "", Role.BRANCH, level, (of,), task=first[0].task, state=state, reason=about, gates=gates)


def _recounted(node: GraphNode, branches: dict[str, list[_Step]]) -> GraphNode:
    """The parts of a map by how its branches stand: its join knows only which have arrived."""
    tops: dict[str, list[_Step]] = {}
    for branch, steps in branches.items():
        tops.setdefault(branch.partition("].")[0].removesuffix("]"), []).extend(steps)
    states = Counter(_state(steps) for steps in tops.values())
    before = dict(node.parts or {})
    # One in which a step failed arrives as cancelled, because that kept its last step from running.
    gone = sum(states[each] for each in (NodeState.FAILED, NodeState.QUARANTINED)) - before.get(NodeState.FAILED, 0)
    kept = {
        NodeState.DONE: before.get(NodeState.DONE, 0),
        NodeState.SKIPPED: before.get(NodeState.SKIPPED, 0),
        NodeState.CANCELLED: max(0, before.get(NodeState.CANCELLED, 0) - max(0, gone)),
    }
    counts = {state: states[state] + kept.get(state, 0) for state in NodeState}
    return msgspec.structs.replace(node, parts={state: count for state, count in counts.items() if count})
