"""Maps: a call that is made once for each item of a node, as the task of ours that makes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from ramify.errors import ConfigError
from ramify.kernel.attempts.control import Return
from ramify.kernel.core.handler import Calling, Handler
from ramify.model.call import Call, Extra, ReferringCall
from ramify.model.codec import annotations_of
from ramify.model.codec.fitting import fits, in_code
from ramify.model.reference import Reference
from ramify.shapes.dag.node import Item, Node, Param
from ramify.shapes.dag.own import EXPAND, EXPAND_GENERATOR, EXPAND_STREAM, Expansion, own_call
from ramify.shapes.dag.packed import PackedCall


def check_options(dag: str, on_failed: object, max_items: object) -> None:
    """Refuse options that a map cannot have."""
    if on_failed not in ("fail", "skip"):
        raise ConfigError(f'{dag}: on_failed={on_failed!r}: expected "fail" or "skip".')
    if max_items is not None and (isinstance(max_items, bool) or not isinstance(max_items, int) or max_items < 0):
        raise ConfigError(f"{dag}: max_items={max_items!r}: expected a whole number, 0 or more.")


def mapped_over(dag: str, call: Call[Any]) -> Node[Any]:
    """The node whose items a call takes; ConfigError when that is not one."""
    blanks = [blank for blank, _ in call.blanks()] if isinstance(call, ReferringCall) else []
    sources = {blank.source.node: None for blank in blanks if isinstance(blank.source, Item)}
    if len(sources) != 1 or not isinstance(call, ReferringCall):
        given = " and ".join(f"{node.id}.each" for node in sources) or "none"
        raise ConfigError(f"{dag}: map({call.kind}): expected the items of one node, got {given}. Pass node.each.")
    streamed = next((each for each, _ in call.slots() if each.stream), None)
    if streamed is not None:
        raise ConfigError(
            f"{dag}: map({call.kind}): expected one value for each item, got the {streamed!r}. Collect them in a "
            "node first."
        )
    source = next(iter(sources))
    gives = source._dag._gives(source._number)
    if not source._dag._has_items(source._number) and not fits(gives, list[Any]):
        raise ConfigError(
            f"{dag}: map({call.kind}): expected a list to map over, got {source}, "
            f"which returns {in_code(gives)}. Return a list."
        )
    return source


class Maker(NamedTuple):
    """A call that yields items, each of that annotation, with everything that it takes: maps over it call it."""

    call: Call[Any]
    items: Any

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references that it takes."""
        return self.call.references if isinstance(self.call, ReferringCall) else ()

    def moved_to(self, nodes: Mapping[int, Node[Any]]) -> Maker:
        """The same with the results of nodes that have become others, by their numbers."""
        if not self.references:
            return self
        moved = tuple(_moved(each, nodes) for each in self.references)
        return self._replace(call=msgspec.structs.replace(self.call, references=moved))


def _moved(reference: Reference, nodes: Mapping[int, Node[Any]]) -> Reference:
    source = reference.source
    if not isinstance(source, Node):
        return reference
    node = nodes[source._number]
    return Reference(node, stream=reference.stream, size=reference.size, gathered=reference.gathered, of=reference.of)


def yielding(call: Call[Any]) -> Maker | None:
    """A call as one that yields items, as a generator of values; None when it is no such call."""
    handler = call.group.handler
    if not isinstance(handler, Handler) or handler.calling not in (Calling.GENERATOR, Calling.ASYNC_GENERATOR):
        # Most are neither, and annotations are dear to read: a graph may have a hundred thousand nodes.
        return None
    of = get_args(annotations_of(handler.fn).get("return"))
    if handler.calling is Calling.ASYNC_GENERATOR and of and not _may_be_call(of[0]):
        raise ConfigError(
            f"{call.kind}: expected an async generator to yield calls, got one of {in_code(of[0])}. Make it a "
            "generator without async, or return a list."
        )
    if handler.calling is Calling.ASYNC_GENERATOR:
        return None
    return Maker(call, of[0]) if of and (get_origin(of[0]) or of[0]) is not Call else None


def _may_be_call(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_may_be_call, get_args(annotation)))
    found = get_origin(annotation) or annotation
    return not isinstance(found, type) or found in (Any, object) or issubclass(found, Call | Return)


def mapping(
    call: Call[Any],
    source: Node[Any],
    is_mapped: bool,
    maker: Call[Any] | None,
    most: int | None,
    *,
    spare: bool,
    branches: bool,
) -> Call[Any]:
    """The call that makes the tasks of a map, once its source is known. `maker` is the call that yields its items."""
    assert isinstance(call, ReferringCall)
    blanks = list(call.blanks())
    how = Expansion(
        PackedCall.of(call),
        tuple(place for blank, place in blanks if isinstance(blank.source, Item)),
        tuple(place for blank, place in blanks if isinstance(blank.source, Param)),
        source.id,
        most,
        spare,
        branches=branches,
    )
    params = [blank for blank, _ in blanks if isinstance(blank.source, Param)]
    results = [each for each, _ in call.slots()]
    if maker is None:
        made = own_call(EXPAND_STREAM if is_mapped else EXPAND, how, params, results, items=source.out)
        # Whoever serves the calls that it makes serves the map as well.
        return made.queue(call.group.queue)
    # It is called where its items are made tasks, with all that was chosen for it.
    blanks = list(maker.blanks()) if isinstance(maker, ReferringCall) else []
    taken = [each for each, _ in maker.slots()] if isinstance(maker, ReferringCall) else []
    how = msgspec.structs.replace(
        how,
        maker=PackedCall.of(maker),
        maker_params=tuple(place for _, place in blanks),
        maker_results=len(taken),
    )
    expanding = own_call(EXPAND_GENERATOR, how, [*(blank for blank, _ in blanks), *params], [*taken, *results])
    group = dataclasses.replace(expanding.group, queue=maker.group.queue, priority=maker.group.priority)
    return msgspec.structs.replace(expanding, group=group, extra=_extra(maker), in_lane=maker.in_lane)


def _extra(maker: Call[Any]) -> bytes | None:
    """Return what was chosen for a call, or else for its task."""
    extra, handler = Extra.decode(maker.extra), maker.group.handler
    assert isinstance(handler, Handler)
    retries = handler.policy.retries if extra.retries is None else extra.retries
    timeout = handler.policy.timeout if extra.timeout is None else extra.timeout
    return msgspec.structs.replace(extra, retries=retries, timeout=timeout).encode()
