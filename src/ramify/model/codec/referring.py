"""The third form of a call's arguments: some of them are results that are not there yet.

It is the escaped form of the other two, with `ResultSlot`s where results go; a parameter that takes a stream of results
is always named. When the task is tried, the results come in as they are stored and the whole is read by the
annotations, so that what does not fit is refused in the same words as any argument.

Promises: arguments without a reference are refused at `of` as ever. What stands beside a reference in a list or dict is
only read together with it, when the task is tried.

Does not know where results are kept.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping
from itertools import islice, takewhile
from typing import Any, Protocol

import msgspec

from ramify.errors import BadPayload
from ramify.model.codec.escape import ResultSlot, as_escaped, blank_text, escaped, slot_text, unescaped, written_slot
from ramify.model.codec.fitting import fits, in_code
from ramify.model.codec.limits import MAX_BYTES, MAX_DEPTH, breaks_limits
from ramify.model.codec.parameters import Function
from ramify.model.codec.proofs import holds, proofs_of
from ramify.model.codec.refusal import cause_of, explain, explain_unknown
from ramify.model.codec.wire import UnknownType, Wire, encoder, flatten_to_escape, tree_in
from ramify.model.reference import Blank, Reference, Slots, reference_in
from ramify.model.stray import instead_of_value

#: Parameters that take many arguments, or none.
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ResultSource(Protocol):
    """Where the results of a call come from."""

    def result(self, slot: int) -> bytes | None:
        """One result, as it is stored."""

    def stream(self, name: str, first: int, size: int | None) -> object:
        """Return what a parameter that takes a stream is given: the results of `size` slots from `first` on."""

    def gathered(self, name: str, slot: int) -> object:
        """The same for one that takes the results that the result in a slot names."""


class ByReference:
    """The calls of one function that take results; `streams` are its parameters that take streams, and of what."""

    def __init__(self, fn: Function, annotations: Mapping[str, Any], streams: Mapping[str, Any]) -> None:
        self._name = fn.__name__
        self._source = inspect.signature(fn)
        self._annotations = annotations
        self._streams = {name: streams[name] for name in self._source.parameters if name in streams}
        every = self._source.parameters.values()
        needed = {each.name for each in every if each.default is each.empty and each.kind not in _MANY}
        #: The first parameters that take arguments by position, and how many of these may be all that is given.
        first = [each.name for each in takewhile(self._by_position, every)]
        self._places = {name: (annotations[name], proofs_of(annotations[name])) for name in first}
        self._counts = range(len(needed), len(self._places) + 1 if needed <= self._places.keys() else 0)

    def _by_position(self, each: inspect.Parameter) -> bool:
        return each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.name not in self._streams

    def seal(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bytes, tuple[Reference, ...]]:
        """The payload of a call, and what goes into its slots."""
        sealed = None if kwargs else self._sealed_at_once(args)
        return self._sealed_by_name(args, kwargs) if sealed is None else sealed

    def _sealed_at_once(self, args: tuple[Any, ...]) -> tuple[bytes, tuple[Reference, ...]] | None:
        """The same for bare references, and values that are proven to come back; None for all other calls."""
        if len(args) not in self._counts:
            return None
        tree: list[object] = []
        slots: dict[Hashable, int] = {}
        references: list[Reference] = []
        own = 0
        for value, (annotation, proofs) in zip(args, self._places.values(), strict=False):
            if type(value) is Reference:
                if value.stream or (value.of is not annotation and not fits(value.of, annotation)):
                    return None
                slot = slots.setdefault(value.source, len(slots))
                if slot == len(references):
                    references.append(value)
                tree.append(written_slot(slot))
                own += 1
            elif holds(proofs, value):
                tree.append(value)
            else:
                return None
        try:
            raw = as_escaped(encoder.encode(tree), own)
        except ValueError:  # a lone surrogate, or an integer of more digits than Python writes
            return None
        return None if raw is None or len(raw) > MAX_BYTES else (raw, tuple(references))

    def _sealed_by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bytes, tuple[Reference, ...]]:
        given = self._bound(args, kwargs)
        slots = Slots()
        tree: dict[str, object] = {}
        for name, value in given.items():
            if name in self._streams:
                stream = self._stream(name, value)
                tree[name] = slot_text(slots.first(stream), stream.size, stream=True, gathered=stream.gathered)
            else:
                tree[name] = self._argument(name, value, slots)
        is_first = list(tree) == list(islice(self._places, len(tree)))
        raw = escaped(list(tree.values()) if is_first else tree)
        if len(raw) > MAX_BYTES:
            raise BadPayload(
                f"{self._name}(): its arguments take {len(raw):,} bytes, and may take {MAX_BYTES:,} (1 MiB)"
            )
        return raw, slots.references

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return self._source.bind(*args, **kwargs).arguments
        except TypeError as error:
            hint = "".join(
                f". `{name}` is a Stream: pass a reference to it, or give it a default, `= Stream()`, to make the task "
                "a continuation (`spawn(then=...)`); in a test, pass Stream.of([...])"
                for name in islice(self._streams, 1)
            )
            raise BadPayload(f"{self._name}(): {error}{hint}") from None

    def _argument(self, name: str, value: object, slots: Slots) -> object:
        """The tree of one argument; one without a reference is proven to come back."""
        met: list[Reference] = []

        def flatten(part: object) -> object:
            if not isinstance(part, Reference):
                return flatten_to_escape(part)
            if part.stream:
                raise BadPayload(
                    f"{self._name}(): `{name}` was given the {part!r}, which are a stream; annotate it Stream[...]"
                )
            met.append(part)
            place = slots.first(part)
            return blank_text(place) if isinstance(part, Blank) else slot_text(place)

        try:
            if isinstance(value, Reference):
                self._check_fit(name, value, self._annotations[name])
                return flatten(value)
            tree = msgspec.to_builtins(value, enc_hook=flatten, str_keys=True)
            if not met:
                Wire(self._annotations[name]).seal(value)
            elif isinstance(value, list | dict):
                self._check_frame(name, value)
            if met and breaks_limits(tree, MAX_DEPTH):
                raise BadPayload(f"{self._name}(): `{name}` is nested too deep, or holds an integer beyond 64 bits")
        except BadPayload:
            raise
        except UnknownType as unknown:
            raise BadPayload(f"{self._name}(): {explain_unknown(name, value, unknown)}") from None
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            text = explain([(name, self._annotations[name], value)], error)
            raise BadPayload(f"{self._name}(): {text}") from cause_of(error)
        return tree

    def _check_fit(self, name: str, reference: Reference, annotation: Any) -> None:
        if not fits(reference.of, annotation):
            raise BadPayload(
                f"{self._name}(): `{name}` takes {in_code(annotation)}, and the {reference!r} is "
                f"{in_code(reference.of)}"
            )

    def _check_frame(self, name: str, value: list[Any] | dict[str, Any]) -> None:
        annotation, given = self._annotations[name], dict[str, Any] if isinstance(value, dict) else list[Any]
        if not fits(given, annotation):
            raise BadPayload(
                f"{self._name}(): `{name}` takes {in_code(annotation)}, and was given a {type(value).__name__} of "
                "results"
            )

    def _stream(self, name: str, value: object) -> Reference:
        found = reference_in(value)
        if found is not None and found.stream:
            self._check_fit(name, found, self._streams[name])
            return found
        if words := instead_of_value(value):
            raise BadPayload(f"{self._name}(): `{name}` {words}")
        raise BadPayload(
            f"{self._name}(): `{name}` is a Stream and was given {value!r:.200}; pass a reference to the results of "
            "many calls, or leave it to the join that the task waits for; in a test, pass Stream.of([...])"
        )

    def shown(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with texts in the places of results, for people."""
        tree: Any = unescaped(payload)
        return (tuple(tree), {}) if isinstance(tree, list) else ((), tree)

    def read(
        self, payload: bytes, supply: ResultSource, read: Callable[[object], tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with their results; `read` makes those that are no streams of their tree."""
        tree: Any = unescaped(payload)
        streams: dict[str, object] = {}
        if isinstance(tree, dict):
            named = {name: tree.pop(name) for name in self._streams if name in tree}
            streams = {
                name: supply.gathered(name, slot.first) if slot.gathered else supply.stream(name, slot.first, slot.size)
                for name, slot in named.items()
            }
        args, kwargs = read(_filled(tree, supply))
        placed = list(args)
        for place, parameter in enumerate(self._source.parameters.values()):
            if parameter.name in streams and place <= len(placed) and parameter.kind is not parameter.KEYWORD_ONLY:
                placed.insert(place, streams.pop(parameter.name))
        return tuple(placed), {**kwargs, **streams}


def _filled(node: object, supply: ResultSource) -> object:
    """A tree with the results in their places."""
    if isinstance(node, ResultSlot):
        return tree_in(supply.result(node.first))
    if isinstance(node, list):
        return [_filled(part, supply) for part in node]
    if isinstance(node, dict):
        return {key: _filled(part, supply) for key, part in node.items()}
    return node
