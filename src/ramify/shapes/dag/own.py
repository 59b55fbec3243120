"""The tasks of ours that DAGs have beside those of users: they expand maps, gather them, choose cases and close runs.

They are ordinary tasks: kept, tried and shown like any other, and made of nothing but what every task can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import msgspec

from ramify.kernel.attempts.control import Defer, Fatal, Skip
from ramify.kernel.attempts.current import Current, current
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.core.handler import Calling, Handler
from ramify.model.call import Call, Extra, Group, ReferringCall
from ramify.model.codec import Signature
from ramify.model.codec.escape import filled
from ramify.model.codec.limits import shown
from ramify.model.codec.wire import tree_in, write
from ramify.model.join import Gathered, Rule
from ramify.model.key import key_bytes
from ramify.model.task import MAX_PAYLOAD, OWN, is_own
from ramify.shapes.dag.packed import PackedCall

#: What to do about too many items.
_FEWER = "Raise max_items, or give fewer."


class Expansion(msgspec.Struct, frozen=True):
    """The task that a map makes of each item: `call`, with the item in these `blanks` of it, and params in others.

    More than `most` items are a failure. With `spare`, an item whose task fails is left out. Items that a generator
    yields come from its call, the `maker`, to which the first params and results belong. If they are the beginnings of
    `branches`, each has a key, one that ends early is left out, and without any the map is skipped.
    """

    call: PackedCall
    blanks: tuple[int, ...]
    params: tuple[int, ...]
    source: str
    most: int | None = None
    spare: bool = False
    maker: PackedCall | None = None
    maker_params: tuple[int, ...] = ()
    maker_results: int = 0
    branches: bool = False


def renamed(map_body: bytes, names: Mapping[str, str]) -> bytes:
    """Return what tells a map from others, as if the kinds of the calls in it had these names."""

    def tree(node: Any) -> Any:
        if isinstance(node, list):
            return [tree(each) for each in node]
        if not isinstance(node, dict):
            return node
        if node.keys() >= {"kind", "body"}:
            # A packed call, perhaps of one of our own, with others in it.
            inside = tree(tree_in(node["body"].encode())) if is_own(node["kind"]) else node["body"]
            return {**node, "kind": names.get(node["kind"], node["kind"]), "body": inside}
        return {key: tree(value) for key, value in node.items()}

    return b"%a" % (tree(tree_in(map_body)),)


def has_branches(call: Call[Any]) -> bool:
    """Return whether what a call of a map begins are branches of a pipeline."""
    tree = tree_in(call.body)
    return isinstance(tree, list) and isinstance(tree[0], dict) and bool(tree[0].get("branches"))


class AtEnd(msgspec.Struct, frozen=True):
    """A call that follows the end of a run, if its tasks ended as the rule says."""

    call: PackedCall
    rule: int


def expand(how: Expansion, params: list[Any], results: list[Any], items: Any) -> None:
    """Make a task for each item of a list."""
    if not isinstance(items, list):
        raise Fatal(f"{how.source}: expected a list to map over, got {shown(items)}. Return a list.")
    if how.most is not None and len(items) > how.most:
        raise Fatal(f"{how.source}: expected at most {how.most:,} items (max_items), got {len(items):,}. {_FEWER}")
    _expand(how, params, results, items)


def expand_stream(how: Expansion, params: list[Any], results: list[Any], items: Stream[Any]) -> None:
    """Make a task for each result of a map."""
    if how.most is not None and len(items) > how.most:
        raise Fatal(f"{how.source}: expected at most {how.most:,} results (max_items), got {len(items):,}. {_FEWER}")
    _expand(how, params, results, items)


def expand_generator(how: Expansion, params: list[Any], results: list[Any]) -> None:
    """Make a task for each item that a generator yields, while it does."""
    assert how.maker is not None
    handler = current()._attempt_env.library.handler(how.maker.kind)
    if handler is None:
        raise Defer(UNKNOWN_PAUSE)
    own = len(how.maker_params)
    body = filled_in(how.maker, how.maker_params, params[:own], results[: how.maker_results])
    args, kwargs = handler.signature.decode(body)
    _expand(how, params[own:], results[how.maker_results :], handler.fn(*args, **kwargs))


def _expand(how: Expansion, params: list[Any], results: list[Any], items: Iterable[Any]) -> None:
    me = current()
    group = group_of(me, how.call)
    extra = Extra.decode(None if how.call.extra is None else how.call.extra.encode())
    if how.spare:
        extra = msgspec.structs.replace(extra, spare=True)
    packed = msgspec.structs.replace(how.call, extra=None if (raw := extra.encode()) is None else raw.decode())
    body = filled_in(packed, how.params, params, results)

    def keyed(count: int) -> bytes | None:
        return key_bytes(f"{me.key}[{count - 1}].") if how.branches else None

    def each() -> Iterator[Call[Any]]:
        for count, item in enumerate(items, 1):
            if how.most is not None and count > how.most:
                raise Fatal(f"{how.source}: expected at most {how.most:,} items (max_items), got more. {_FEWER}")
            whole = filled(body, dict.fromkeys(how.blanks, write(item)))
            if len(whole) > MAX_PAYLOAD:
                raise Fatal(
                    f"{how.call.kind}: expected arguments of at most {MAX_PAYLOAD:,} bytes (1 MiB), got "
                    f"{len(whole):,} for {shown(item)}. Pass a path or a key instead."
                )
            yield packed.call(group, whole, keyed(count))

    then = own_call(GATHER).queue(how.call.queue).key(f"{me.key}[]")
    if how.branches:
        calls = each()
        some = list(islice(calls, 1))
        if not some:
            raise Skip(f"{how.source} gave nothing, so there is nothing to do with it")
        me.spawn(chain(some, calls), then=then._with(rule=Rule.NONE_HALTED))
    else:
        me.spawn(each(), then=then.always() if how.spare else then)


def filled_in(packed: PackedCall, blanks: Iterable[int], params: Iterable[Any], results: Iterable[Any]) -> bytes:
    """The arguments of a packed call with these values in them; those of items stay blank."""
    given = {place: write(value) for place, value in zip(blanks, params, strict=True)}
    return filled(packed.body.encode(), given, {slot: write(value) for slot, value in enumerate(results)})


def gather(members: Stream[Any] = Stream()) -> Gathered:
    """Return what a map came to, by name: whoever wants the results reads them from there."""
    return Gathered(current().task)


def choose(chosen: Any, case: str, cases: list[str]) -> None:
    """Skip what hangs on a case that was not chosen."""
    names = chosen if isinstance(chosen, list) else [chosen]
    for name in names:
        if name not in cases:
            raise Fatal(
                f"expected one of the cases {', '.join(cases)}, got {shown(name)}. Return one of these, or add a case."
            )
    if case not in names:
        raise Skip(f"{shown(chosen)} was chosen, not {case}")


def give(value: Any, failure: str | None = None) -> Any:
    """A result that is taken from elsewhere, or a failure."""
    if failure is not None:
        raise Fatal(failure)
    return value


def close(at_end: list[AtEnd]) -> None:
    """The last task of a run: it joins all ends, and starts what follows."""
    if not at_end:
        # How a run ended is read from the store, and most runs have nothing behind them.
        return
    me = current()
    ends = me.run.ends
    following = [each.call for each in at_end if Rule(each.rule).allows(ends)]
    me.spawn([packed.call(group_of(me, packed), packed.body.encode()) for packed in following])


def group_of(me: Current, packed: PackedCall) -> Group:
    """Return what calls share that are made of a packed one, here and now."""
    handler = me._attempt_env.library.handler(packed.kind)
    # Of a kind that nobody here knows tasks are made all the same: they wait for somebody who does.
    return packed.group(HANDLERS[CLOSE].signature if handler is None else handler.signature, handler)


EXPAND, EXPAND_STREAM, EXPAND_GENERATOR = f"{OWN}map", f"{OWN}map-stream", f"{OWN}map-generator"
MAPS = frozenset({EXPAND, EXPAND_STREAM, EXPAND_GENERATOR})
GATHER = f"{OWN}gather"
#: How long a map waits for a process that knows its generator, in seconds.
UNKNOWN_PAUSE = 5.0
CHOOSE, GIVE, CLOSE = f"{OWN}case", f"{OWN}given", f"{OWN}close"


def own_handler(kind: str, fn: Any, *, stream: str | None = None, streams: Mapping[str, Any] | None = None) -> Handler:
    signature = Signature.of(fn, streams or {})
    return Handler(kind, fn, signature, Calling.PLAIN, stream=stream, streams=streams or {})


HANDLERS: Mapping[str, Handler] = {
    each.kind: each
    for each in (
        own_handler(EXPAND, expand),
        own_handler(EXPAND_STREAM, expand_stream, streams={"items": Any}),
        own_handler(EXPAND_GENERATOR, expand_generator),
        own_handler(GATHER, gather, stream="members", streams={"members": Any}),
        own_handler(CHOOSE, choose),
        own_handler(GIVE, give),
        own_handler(CLOSE, close),
    )
}


def own_call(kind: str, *args: Any, **kwargs: Any) -> Call[Any]:
    """A call of one of these, which may refer to results."""
    return call_of(HANDLERS[kind], *args, **kwargs)


def call_of(handler: Handler, *args: Any, **kwargs: Any) -> Call[Any]:
    """A call of a task of ours, which may refer to results."""
    group = Group(handler.kind, handler.signature, handler=handler)
    body, references = handler.signature.encode_referring(args, kwargs)
    if not references:
        return Call(group, handler.signature.encode(args, kwargs))
    return ReferringCall(group, body, None, None, None, references)
