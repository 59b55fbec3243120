"""Maps: a call that is made once for each item of a node, as the task of ours that makes them."""

from __future__ import annotations

from typing import Any

from ramify.errors import ConfigError
from ramify.model.call import Call, ReferringCall
from ramify.model.codec.fitting import fits, in_code
from ramify.shapes.dag.node import Item, Node, Param
from ramify.shapes.dag.own import EXPAND, EXPAND_STREAM, Expansion, own_call
from ramify.shapes.dag.packed import PackedCall


def mapped_over(dag: str, call: Call[Any]) -> Node[Any]:
    """The node whose items a call takes; ConfigError when that is not one."""
    blanks = [blank for blank, _ in call.blanks()] if isinstance(call, ReferringCall) else []
    sources = {blank.source.node: None for blank in blanks if isinstance(blank.source, Item)}
    if len(sources) != 1 or not isinstance(call, ReferringCall):
        given = " and ".join(f"{node.id}.each" for node in sources) or "none"
        raise ConfigError(f"{dag}: map({call.kind}) is over the items of one node, node.each; it was given {given}")
    streamed = next((each for each, _ in call.slots() if each.stream), None)
    if streamed is not None:
        raise ConfigError(
            f"{dag}: map({call.kind}) takes the {streamed!r}, which are many, for each of its items; collect them in a "
            "node of their own first"
        )
    source = next(iter(sources))
    gives = source._dag._gives(source._number)
    if not source._dag._is_mapped(source._number) and not fits(gives, list[Any]):
        raise ConfigError(
            f"{dag}: map({call.kind}) is over the items of {source}, which gives {in_code(gives)}, and that is no list"
        )
    return source


def mapping(call: Call[Any], source: Node[Any], is_mapped: bool, most: int | None, *, spare: bool) -> Call[Any]:
    """The call that makes the tasks of a map, once its source is known."""
    assert isinstance(call, ReferringCall)
    blanks = list(call.blanks())
    how = Expansion(
        PackedCall.of(call),
        tuple(place for blank, place in blanks if isinstance(blank.source, Item)),
        tuple(place for blank, place in blanks if isinstance(blank.source, Param)),
        source.id,
        most,
        spare,
    )
    params = [blank for blank, _ in blanks if isinstance(blank.source, Param)]
    results = [each for each, _ in call.slots()]
    made = own_call(EXPAND_STREAM if is_mapped else EXPAND, how, params, results, items=source.out)
    # Whoever serves the calls that it makes serves the map as well.
    return made.queue(call.group.queue)
