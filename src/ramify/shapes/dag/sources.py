"""What a call takes of other nodes, and whether it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
            f"{dag.name}: {kind} takes the {reference!r}, which yields its items one by one; "
            f"nobody keeps them: use map(…) with {node.id}.each"
        )
    if isinstance(node, Node) and node._number in node._dag._triggers:
        raise ConfigError(f"{dag.name}: {kind} cannot wait for {node}, which starts when all others have ended")
    if not isinstance(node, Node) or node._dag is not dag:
        raise ConfigError(f"{dag.name}: {kind} takes the {reference!r}, which is no node of this DAG; include() it")
    return node._number
