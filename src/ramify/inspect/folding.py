"""Graphs small enough to be looked at: nodes as boxes, and in a large graph one box for many that are alike.

Promises: nothing is left out, only taken together: each node is in one box. Small graphs are not folded. In a large
one, nodes of a level are taken together if they run the same and stand the same, and so are levels that follow each
other and look the same; where that is not enough, levels are taken together in bands, and then nodes that stand the
same, whatever they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from ramify.inspect.graph import Graph, NodeState, Role
from ramify.inspect.text import safe_text, shortened, shortened_inside
from ramify.inspect.words import SECOND, moment, number, plural, took
from ramify.model.policy import PARKED

#: A graph with no more nodes and edges than that is shown as it is.
NODES, EDGES = 100, 500
#: In a large graph, a level with so few nodes is shown as it is.
_FEW = 4
#: How many nodes are named where there are more.
_NAMED = 3
#: How much of an error is shown, in columns.
_REASON = 60

_FAILURES = (NodeState.FAILED, NodeState.QUARANTINED)

#: Into how many bands a very deep graph is cut.
_BANDS = 12

#: Places of nodes by what they do, what they run and how they stand.
_Taken = dict[tuple[Role, str, NodeState | None], list[int]]


class Box(msgspec.Struct, frozen=True):
    """Nodes taken together, by their places, from one level to another, and the boxes that they wait for."""

    first: int
    last: int
    nodes: tuple[int, ...]
    needs: tuple[int, ...] = ()


def boxes_of(graph: Graph, *, whole: bool = False) -> list[Box]:
    """A graph as boxes, level by level; with `whole`, a box for each node however many there are."""
    levels = graph.levels
    if whole or not _is_large(graph):
        found = [Box(at, at, (place,)) for at, level in enumerate(levels) for place in level]
    else:
        found = _folded(graph, levels)
    box_of = {place: at for at, box in enumerate(found) for place in box.nodes}
    return [
        Box(box.first, box.last, box.nodes, tuple(sorted(needs)))
        for at, box in enumerate(found)
        for needs in [{box_of[other] for place in box.nodes for other in graph.nodes[place].needs} - {at}]
    ]


def title_of(graph: Graph, box: Box) -> str:
    """Return what a box is called: the id of its node, or how many there are of what."""
    node = graph.nodes[box.nodes[0]]
    if len(box.nodes) == 1:
        return node.id
    if node.role is Role.BRANCH:
        # They run several steps, and have no kind.
        maps = dict.fromkeys(graph.nodes[need].id for place in box.nodes for need in graph.nodes[place].needs)
        return f"{number(len(box.nodes))} branches of {', '.join(maps)}"
    if any(graph.nodes[place].kind != node.kind for place in box.nodes):
        return f"{number(len(box.nodes))} nodes"
    return f"{number(len(box.nodes))} x {'map of ' if node.role is Role.MAP else ''}{node.kind}"


def state_of(graph: Graph, box: Box) -> str:
    """How its nodes stand; nothing in a definition."""
    return graph.nodes[box.nodes[0]].state or ""


def took_of(graph: Graph, box: Box) -> str:
    """How long its nodes took: the quickest and the slowest."""
    seconds = [known for place in box.nodes if (known := graph.nodes[place].seconds) is not None]
    if not seconds:
        return ""
    least, most = _took(min(seconds)), _took(max(seconds))
    return least if least == most else f"{least} to {most}"


def remarks_of(graph: Graph, box: Box, *, edges: bool = False) -> list[str]:
    """Return what else there is to say about it: what it runs, what it waits for, what came of it.

    With `edges`, also what it came after, for whoever cannot draw that.
    """
    node = graph.nodes[box.nodes[0]]
    failed = node.state in _FAILURES
    reason = node.reason if node.role is Role.BRANCH else shortened(safe_text(node.reason or ""), _REASON)
    # A label that is cut loses its end, so what failed comes first.
    said = [reason] if failed and reason else []
    if len(box.nodes) > 1:
        said.append(_some([graph.nodes[place].id for place in box.nodes]))
        return [*said, reason] if reason and not failed else said
    match node.role:
        case Role.MAP:
            what = "branches" if ", " in node.kind else "map"
            said += [*([] if node.parts is None else [_counted(node.parts)]), f"{what} of {node.kind}"]
        case Role.END:
            unneeded = ": not called for" if node.state is NodeState.DONE else ""
            said.append(node.kind + (f": {_counted(node.parts)}" if node.parts else unneeded))
        case Role.CASE:
            said.append("case")
        case Role.TRIGGER:
            said.append(f"starts {node.kind}")
        case Role.WAY:
            taken = {NodeState.DONE: "the way that was taken", NodeState.SKIPPED: "a way that was not taken"}
            said.append("way" if node.state is None else taken.get(node.state, "way"))
        case Role.GATE if not node.gates:
            said.append("gate" if node.state is not None and node.state.is_end else f"gate: {node.asks_for}")
        case Role.MEET:
            said.append("where ways meet")
        case Role.TASK | Role.SLEEP if node.kind != node.id.partition("#")[0]:
            said.append(node.kind)
        case Role.TASK | Role.SLEEP | Role.GATE | Role.BRANCH:
            pass
    if node.when != "done" and node.role not in (Role.MEET, Role.END):
        said.append(f"when {node.when}")
    if node.attempts > 1:
        said.append(plural(node.attempts, "attempt"))
    if reason and not failed:
        said.append(reason)
    if node.role is Role.GATE and node.gates:
        said.append(asking(node.asks_for, node.since, node.due))
    elif node.due is not None:
        said.append(f"due {moment(node.due)}" if node.due < PARKED else "parked")
    if node.waits_for:
        said.append(f"waits for {_some([graph.nodes[place].id for place in node.waits_for])}")
    elif edges and node.needs and node.role not in (Role.END, Role.BRANCH):
        said.append(f"after {_some([graph.nodes[place].id for place in node.needs])}")
    return said


def counted_states(graph: Graph) -> list[tuple[NodeState, int]]:
    """How many nodes stand how, in the order in which they get there."""
    states = [node.state for node in graph.nodes if node.role is not Role.BRANCH]
    return [(state, count) for state in NodeState if (count := states.count(state))]


def _is_large(graph: Graph) -> bool:
    return len(graph.nodes) > NODES or sum(len(node.needs) for node in graph.nodes) > EDGES


def _folded(graph: Graph, levels: Sequence[Sequence[int]]) -> list[Box]:
    """Fold as little as makes it few enough boxes."""
    alike = [_taken_together(graph, level) for level in levels]
    found = _boxes(_stretches(alike))
    if len(found) > NODES:
        # Levels that take turns, or very many that differ: so many of them together.
        found = _boxes(_bands(alike))
    if len(found) > NODES:
        found = _boxes(_bands([_taken_together(graph, level, by_kind=False) for level in levels]))
    return found


def _taken_together(graph: Graph, level: Sequence[int], *, by_kind: bool = True) -> _Taken:
    found: _Taken = {}
    for place in level:
        node = graph.nodes[place]
        found.setdefault((node.role, node.kind if by_kind else "", node.state), []).append(place)
    return found


def _stretches(levels: Sequence[_Taken]) -> Iterator[tuple[int, int, _Taken]]:
    """Levels next to each other that look the same."""
    for _, stretch in groupby(enumerate(levels), key=lambda numbered: numbered[1].keys()):
        yield _merged(list(stretch))


def _bands(levels: Sequence[_Taken]) -> Iterator[tuple[int, int, _Taken]]:
    """All levels, in a few bands."""
    numbered = list(enumerate(levels))
    size = -(-len(levels) // _BANDS)
    return (_merged(numbered[at : at + size]) for at in range(0, len(numbered), size))


def _merged(levels: Sequence[tuple[int, _Taken]]) -> tuple[int, int, _Taken]:
    found: _Taken = {}
    for _, level in levels:
        for name, places in level.items():
            found.setdefault(name, []).extend(places)
    return levels[0][0], levels[-1][0], found


def _boxes(stretches: Iterable[tuple[int, int, _Taken]]) -> list[Box]:
    found: list[Box] = []
    for first, last, taken in stretches:
        if first == last and sum(map(len, taken.values())) <= _FEW:
            found += (Box(first, last, (place,)) for places in taken.values() for place in places)
        else:
            found += (Box(first, last, tuple(places)) for places in taken.values())
    return found


def _took(seconds: float) -> str:
    return took(round(seconds * SECOND)) if seconds >= 0.001 else "<1 ms"


def _counted(parts: Mapping[NodeState, int]) -> str:
    """How many stand how, those that failed first."""
    order = sorted(parts.items(), key=lambda part: part[0] not in _FAILURES)
    return ", ".join(f"{number(count)} {state}" for state, count in order if count) or "no items"


def asking(what: str | None, since: int | None, until: int | None) -> str:
    """Describe a gate that waits for an answer."""
    from_when = "" if since is None else f" since {moment(since)}"
    till = "" if until is None or until >= PARKED else f" until {moment(until)}"
    return f"waits for an answer{from_when}{till}: {what or 'anything'}"


def _some(ids: Sequence[str]) -> str:
    named = ", ".join(shortened_inside(safe_text(id), 24) for id in ids[:_NAMED])
    more = len(ids) - _NAMED
    return named if more <= 0 else f"{named} and {number(more)} more"
