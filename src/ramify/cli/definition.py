"""The graph of a DAG or a pipeline that never ran, as the same values as that of a run."""

from __future__ import annotations

from ramify.cli.loading import dag_at
from ramify.inspect.gates import asks_for
from ramify.inspect.graph import BRANCH, Graph, GraphNode, Role, level_of, role_of, trigger_of, when_of
from ramify.inspect.run_graph import steps_in
from ramify.model.gate import spec_of
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
        call, made = dag._calls[number], dag._maps.get(number)
        needs = tuple(places[other] for other in graph.needs[number])
        levels.append(level_of(needs, levels))
        role, when = role_of(call.kind), when_of(dag._rules[number])
        if made is None:
            shown = call.kind.removeprefix(OWN)
        else:
            shown = steps_in(made.body) if made.kind == BRANCH else made.kind
        if number in dag._triggers:
            shown, when = trigger_of(call.body)
        asks = asks_for(spec_of(call.body)) if role is Role.GATE else None
        nodes.append(GraphNode(dag._ids[number], shown, role, levels[-1], needs, when, asks_for=asks))
    if dag._at_end:
        ends = tuple(places[number] for number in graph.ends)
        kinds = ", ".join(call.kind for call, _ in dag._at_end)
        nodes.append(GraphNode(CLOSING, kinds, Role.END, level_of(ends, levels), ends, "always"))
    return Graph(dag.name, nodes)
