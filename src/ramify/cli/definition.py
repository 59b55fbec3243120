"""The graph of a DAG that never ran, as the same values as that of a run."""

from __future__ import annotations

from ramify.cli.loading import dag_at
from ramify.inspect.graph import Graph, GraphNode, Role, level_of, role_of, trigger_of, when_of
from ramify.model.task import OWN
from ramify.shapes.dag.dag import Dag
from ramify.shapes.dag.start import CLOSING


def graph_at(address: str) -> Graph:
    """The graph of the definition at a place."""
    return graph_of(dag_at(address))


def graph_of(dag: Dag) -> Graph:
    """The graph of a definition, its nodes level by level."""
    graph = dag._connected()
    order = [number for level in graph.levels for number in level]
    places = {number: place for place, number in enumerate(order)}
    nodes: list[GraphNode] = []
    levels: list[int] = []
    for number in order:
        kind = dag._calls[number].kind
        needs = tuple(places[other] for other in graph.needs[number])
        levels.append(level_of(needs, levels))
        made = dag._maps.get(number)
        shown, when = kind.removeprefix(OWN) if made is None else made.kind, when_of(dag._rules[number])
        if number in dag._triggers:
            shown, when = trigger_of(dag._calls[number].body)
        nodes.append(GraphNode(dag._ids[number], shown, role_of(kind), levels[-1], needs, when))
    if dag._at_end:
        ends = tuple(places[number] for number in graph.ends)
        kinds = ", ".join(call.kind for call, _ in dag._at_end)
        nodes.append(GraphNode(CLOSING, kinds, Role.END, level_of(ends, levels), ends))
    return Graph(dag.name, nodes)
