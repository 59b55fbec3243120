"""Cases: what hangs on a name that a node gives, as a task of ours between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramify.errors import ConfigError
from ramify.model.codec.fitting import fits, in_code
from ramify.model.join import Rule
from ramify.shapes.dag.node import Node, kept
from ramify.shapes.dag.own import CHOOSE, own_call

if TYPE_CHECKING:
    from ramify.shapes.dag.dag import Dag


def case(dag: Dag, number: int, name: str) -> Node[None]:
    """The case of a node with that name, made when it is first asked for."""
    node = Node[object](dag, number)
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{dag.name}: case({name!r}): expected a name, got {name!r}. "
            f'Let {node.id} return a str, and write case("deploy").'
        )
    if number in dag._maps:
        raise ConfigError(
            f"{dag.name}: case({name!r}): expected a node, got the map {node.id}. Let one node return a name."
        )
    if not fits(gives := dag._gives(number), str | list[str]):
        raise ConfigError(
            f"{dag.name}: case({name!r}): expected a node that returns a name, got {node.id}, which returns "
            f"{in_code(gives)}. Let it return a str, or a list of them."
        )
    found = dag._cases.get((number, name))
    if found is None:
        queue = dag._calls[number].group.queue
        made = own_call(CHOOSE, node.out, name, [])
        found = Node(dag, dag._insert(kept(made), f"{node.id}={name}", (number,), Rule.ALL_DONE))
        dag._cases[number, name] = found
        # Each knows all of them, so that a name which is none is noticed.
        cases = [name for of, name in dag._cases if of == number]
        for each in cases:
            made = own_call(CHOOSE, node.out, each, cases).queue(queue)
            dag._calls[dag._cases[number, each]._number] = kept(made)
    return found
