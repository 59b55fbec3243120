"""The results that a node takes and the nodes it waits for, with their checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ramify.errors import ConfigError
from ramify.model.reference import Reference
from ramify.shapes.dag.node import Node

if TYPE_CHECKING:
    from ramify.shapes.dag.dag import Dag


def source_of(dag: Dag, kind: str, reference: Reference) -> int:
    """The number of the node whose result is meant; ConfigError when a call of that kind cannot have it."""
    node = reference.source
    if isinstance(node, Node) and node._number in node._dag._makers:
        raise ConfigError(
            f"{dag.name}: {kind}: expected one value, got the {reference!r}, which yields items one by one. "
            f"Use map(…) with {node.id}.each."
        )
    if isinstance(node, Node) and node._number in node._dag._triggers:
        raise ConfigError(f"{dag.name}: {kind} cannot wait for {node}, which starts after all other nodes.")
    if not isinstance(node, Node) or node._dag is not dag:
        raise ConfigError(
            f"{dag.name}: {kind}: expected a node of this DAG, got the {reference!r}. include() its DAG first."
        )
    return node._number


def dependencies(dag: Dag, id: str, nodes: Iterable[Node[Any]], itself: int | None) -> list[int]:
    """The numbers of nodes that one is to wait for; `itself` is its own, if it has one by now."""
    if isinstance(nodes, Node | str | Reference):
        raise ConfigError(f"{dag.name}: {id}: after: expected a list of nodes. Write after=[…].")
    found: list[int] = []
    for node in nodes:
        given: object = node
        if isinstance(given, Reference):
            raise ConfigError(
                f"{dag.name}: {id}: after: expected a node, got the {given!r}. Give the node, without .out."
            )
        number = dag._own(node)
        if number in dag._makers:
            raise ConfigError(f"{dag.name}: {id} cannot wait for {node}, which yields items. Wait for its map.")
        if number in dag._triggers:
            raise ConfigError(f"{dag.name}: {id} cannot wait for {node}, which starts after all other nodes.")
        if number == itself:
            raise ConfigError(f"{dag.name}: {id}: after: a node cannot wait for itself. Leave it out.")
        if number in found:
            raise ConfigError(f"{dag.name}: {id}: after: {node} is listed twice. List it once.")
        found.append(number)
    return found
