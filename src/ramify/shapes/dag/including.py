"""Taking the nodes of one DAG into another, by value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ramify.errors import ConfigError
from ramify.shapes.dag.dataset import note_products
from ramify.shapes.dag.node import Node
from ramify.shapes.dag.trigger import note_start

if TYPE_CHECKING:
    from ramify.shapes.dag.dag import Dag


def include(into: Dag, other: Dag, prefix: str) -> Mapping[str, Node[Any]]:
    """Take in all nodes of another DAG, with a prefix to their ids; the new ones by the old ids."""
    if other is into:
        raise ConfigError(f"{into.name}: include(): a DAG cannot include itself. Give another DAG.")
    for name, param in other._params.items():
        if into._params.get(name, param).annotation != param.annotation:
            raise ConfigError(
                f"{into.name}: include({other.name}): both have a param {name!r}, of different types. Rename one."
            )
    for id in other._ids:
        into._check_id(prefix + id)
    for started in other.starts.values():
        note_start(into, started)
    note_products(into, other.produces)
    into._params = {**other._params, **into._params}
    moved: dict[int, Node[Any]] = {}
    for number in other._connected().order:
        needs = tuple(moved[each]._number for each in other._needs[number])
        new = into._insert(other._calls[number], prefix + other._ids[number], needs, other._rules[number])
        if number in other._maps:
            into._maps[new] = other._maps[number]
        if number in other._triggers:
            into._triggers.add(new)
        if number in other._makers:
            into._makers[new] = other._makers[number].moved_to(moved)
        moved[number] = Node(into, new)
    for (number, name), _ in other._cases.items():
        into._cases[moved[number]._number, name] = moved[other._cases[number, name]._number]
    into._at_end += other._at_end
    return {other._ids[number]: node for number, node in moved.items()}
