"""The arguments of a task call and the result of its handler, as bytes and back: what `Task.of` and the kernel use.

Promises: what `encode` accepts, `decode` gives back equal, on every store and in every process; anything else raises
BadPayload at once, with the function, the parameter, what is wrong and what to do. Arguments that are strings, numbers
and simple lists or dicts of them, as annotated, cost one msgspec call each way (`encode_positional`,
`decode_positional`); everything else is decoded and compared before its bytes are returned.

The form: a JSON array of the arguments by position where that says it all, else an object by parameter name. So each
call has one form, however it was spelled. `wire` adds the escaped form of both, for file names that are not UTF-8.

Does not deal with exceptions, keys or options of a call, and does not call the function.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType, NoneType
from typing import Any, Self

from ramify.errors import BadPayload
from ramify.model.codec.escape import MARK, has_slots
from ramify.model.codec.forms import ByName, ByPosition, Positional
from ramify.model.codec.identity import identity_of
from ramify.model.codec.limits import INT_MAX, INT_MIN, MAX_BYTES
from ramify.model.codec.parameters import RESULT, Function, Parameter, read_parameters
from ramify.model.codec.proofs import Table, holds, proofs_of, table_of
from ramify.model.codec.referring import ByReference, ResultSource
from ramify.model.codec.refusal import cause_of, explain, in_words
from ramify.model.codec.wire import UnknownType, Wire, encoder, tree_in
from ramify.model.reference import Blank, Reference, reference_in

#: In fewer bytes than this no argument can be an integer beyond 64 bits: 19 digits and two brackets.
_ROOM_FOR_A_LONG_INTEGER = 21
#: Types of which equal values are always written alike.
_WRITTEN_ONE_WAY = (str, int, bool, NoneType, None)

_REFERENCES = frozenset({Reference, Blank})
#: No streams.
_NONE: Mapping[str, Any] = MappingProxyType({})
_PLACE = re.compile(r"\$\[(\d+)\]")


class Refers(BadPayload):
    """A reference is among the arguments: such a call is made with `encode_referring`."""


class Signature:
    """The types that one function takes and returns, ready to encode and decode; made once, at decoration."""

    def __init__(
        self, fn: Function, parameters: tuple[Parameter, ...], result: Any, without: Mapping[str, Any]
    ) -> None:
        self.name = fn.__name__
        source = inspect.signature(fn)
        self._source = source.replace(parameters=[p for p in source.parameters.values() if p.name not in without])
        self._annotations = {each.name: each.annotation for each in parameters} | {RESULT: result}
        self._by_reference = ByReference(fn, self._annotations, without)
        self._by_position = ByPosition(parameters)
        self._by_name = ByName(parameters)
        self._keywords = [None if each.only_by_position else each.name for each in self._by_position.places]
        self._result = Wire(result)
        self._result_proofs = proofs_of(result)
        self._written_one_way = all(each.annotation in _WRITTEN_ONE_WAY for each in parameters)
        #: The fast path of `encode`, for a call without keywords.
        self.encode_positional: Callable[[Positional], bytes] = self._positional_encoder()
        #: The fastest path: one call of msgspec, which raises for everything that is not the plain form of a call.
        self.decode_plain: Callable[[bytes], Positional] = self._by_position.decode
        #: The fast path of `decode`; None for a payload that only `decode` can give back, because it has keywords or
        #: takes results.
        self.decode_positional: Callable[[bytes], Positional | None] = self._positional_decoder()

    @classmethod
    def of(cls, fn: Function, without: Mapping[str, Any] = _NONE, last_word: type | None = None) -> Self:
        """Read a function; raises ConfigError if its annotations can never be stored.

        Parameters named in `without` take streams of results, each of the annotation it has there.
        An async generator's result is annotated as the parameter of the `last_word` class it yields.
        """
        parameters, result = read_parameters(fn, without, last_word)
        return cls(fn, parameters, result, without)

    @property
    def result(self) -> Any:
        """The annotation of what the function returns in the end."""
        return self._annotations[RESULT]

    def encode(self, args: Positional, kwargs: Mapping[str, Any]) -> bytes:
        """The payload of a call."""
        if not kwargs:
            return self.encode_positional(args)
        names = self._keywords[len(args) : len(args) + len(kwargs)]
        if len(names) == len(kwargs) and all(name in kwargs for name in names):
            return self.encode_positional((*args, *(kwargs[name] for name in names if name is not None)))
        return self._seal_by_name(args, kwargs)

    def encode_referring(self, args: Positional, kwargs: Mapping[str, Any]) -> tuple[bytes, tuple[Reference, ...]]:
        """The payload of a call that takes results which are not there yet, and what goes into its slots."""
        return self._by_reference.seal(args, kwargs)

    def decode(self, payload: bytes, supply: ResultSource | None = None) -> tuple[Positional, dict[str, Any]]:
        """The arguments of a call; raises BadPayload if they do not fit the function any more.

        Results come from the `supply`; without one there are texts in their places.
        """
        args = self.decode_positional(payload)
        if args is not None:
            return args, {}
        if has_slots(payload):
            return self._by_reference.shown(payload) if supply is None else self._filled(payload, supply)
        try:
            return self._by_name.unpack(self._by_name.wire.read(payload))
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            raise self._misfit("call", error) from cause_of(error)

    def _filled(self, payload: bytes, supply: ResultSource) -> tuple[Positional, dict[str, Any]]:
        def read(tree: object) -> tuple[Positional, dict[str, Any]]:
            try:
                if isinstance(tree, dict):
                    return self._by_name.unpack(self._by_name.wire.read_tree(tree))
                return self._by_position.read_tree(tree), {}
            except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
                raise self._misfit("call", error) from cause_of(error)

        return self._by_reference.read(payload, supply, read)

    def encode_result(self, value: object) -> bytes | None:
        """The bytes of what a handler returned; None for None, whatever the annotation."""
        if value is None:
            return None
        if holds(self._result_proofs, value):
            raw = self._encoded(value)
            if raw is not None and len(raw) <= MAX_BYTES and not raw.startswith(MARK):
                return raw
        return self._seal(self._result, value, [(RESULT, value)])

    def decode_result(self, raw: bytes | None) -> Any:
        """Return what the handler returned."""
        if raw is None:
            return None
        try:
            return self._result.read(raw)
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            raise self._misfit("result", error) from cause_of(error)

    def identity(self, payload: bytes) -> bytes:
        """Bytes that are the same for equal calls, whatever the order of their sets and dicts; not for decoding."""
        if self._written_one_way:
            return payload
        args, kwargs = self.decode(payload)
        if kwargs:
            return identity_of({"args": args, "kwargs": kwargs})
        tree = tree_in(payload)
        return identity_of(args[: len(tree)] if isinstance(tree, list) else args)

    def _positional_encoder(self) -> Callable[[Positional], bytes]:
        places = self._by_position.places
        table = table_of([each.annotation for each in places], self._by_position.counts)
        if self._by_position.counts == range(1, 2) or self._by_position.counts == range(2, 3):
            return self._short_encoder(table)
        return partial(self._by_table, table)

    def _by_table(self, table: Table, args: Positional) -> bytes:
        checks = table.get(tuple(map(type, args)))
        if checks is None:
            return self._seal_by_position(args)
        integers, others = checks
        for place, check in others:
            if not check(args[place]):
                return self._seal_by_position(args)
        try:
            raw = encoder.encode(args)
        except ValueError:  # a lone surrogate, or an integer of more digits than Python writes
            return self._seal_by_position(args)
        if len(raw) >= _ROOM_FOR_A_LONG_INTEGER:
            for place in integers:
                if not INT_MIN <= args[place] <= INT_MAX:
                    return self._seal_by_position(args)
            if len(raw) > MAX_BYTES:
                return self._seal_by_position(args)
        return raw

    def _short_encoder(self, table: Table) -> Callable[[Positional], bytes]:
        """The same for functions of exactly one or two parameters, which most are: types are looked up one by one."""
        encode, seal = encoder.encode, self._seal_by_position
        plain = [kinds for kinds, (_, others) in table.items() if not others]
        firsts, seconds = ({kinds[place] for kinds in plain if place < len(kinds)} for place in (0, 1))
        if len(plain) != len(firsts) * max(1, len(seconds)):
            # Some combination needs a check of its own: only the table knows which.
            firsts, seconds = set(), set()
        width = 2 if seconds else 1
        room = _ROOM_FOR_A_LONG_INTEGER if int in firsts | seconds else MAX_BYTES + 1

        def encode_short(args: Positional) -> bytes:
            if len(args) != width or type(args[0]) not in firsts or (width == 2 and type(args[1]) not in seconds):
                return self._by_table(table, args)
            try:
                raw = encode(args)
            except ValueError:  # a lone surrogate, or an integer of more digits than Python writes
                return seal(args)
            return raw if len(raw) < room else self._by_table(table, args)

        return encode_short

    def _positional_decoder(self) -> Callable[[bytes], Positional | None]:
        decode, long_way = self._by_position.decode, self._read_by_position

        def decode_positional(payload: bytes) -> Positional | None:
            try:
                return decode(payload)
            except Exception:  # noqa: BLE001  the long way raises it again, in words
                return long_way(payload)

        return decode_positional

    def _read_by_position(self, payload: bytes) -> Positional | None:
        if has_slots(payload):
            return None
        try:
            tree = tree_in(payload)
            return None if isinstance(tree, dict) else self._by_position.read_tree(tree)
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            raise self._misfit("call", error) from cause_of(error)

    def _seal_by_position(self, args: Positional) -> bytes:
        if not _REFERENCES.isdisjoint(map(type, args)):
            raise Refers(f"{self.name}(): a reference is among its arguments")
        if len(args) not in self._by_position.counts:
            return self._seal_by_name(args, {})
        return self._seal(self._by_position.wire(len(args)), args, zip(self._annotations, args, strict=False))

    def _seal_by_name(self, args: Positional, kwargs: Mapping[str, Any]) -> bytes:
        try:
            given = self._source.bind(*args, **kwargs).arguments
        except TypeError as error:
            if any(reference_in(each) is not None for each in (*args, *kwargs.values())):
                raise Refers(f"{self.name}(): a reference is among its arguments") from None
            raise BadPayload(f"{self.name}(): {error}. It takes ({', '.join(self._source.parameters)})") from None
        return self._seal(self._by_name.wire, self._by_name.pack(given), given.items())

    def _seal(self, wire: Wire, value: object, given: Iterable[tuple[str, object]]) -> bytes:
        try:
            return wire.seal(value)
        except UnknownType as unknown:
            if isinstance(unknown.value, Reference):
                raise Refers(f"{self.name}(): a reference is among its arguments") from None
            raise self._refusal(given, unknown) from None
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            raise self._refusal(given, error) from cause_of(error)

    def _refusal(self, given: Iterable[tuple[str, object]], error: Exception) -> BadPayload:
        parts = [(name, self._annotations[name], part) for name, part in given]
        return BadPayload(f"{self.name}(): {explain(parts, error)}")

    def _encoded(self, value: object) -> bytes | None:
        try:
            return encoder.encode(value)
        except UnicodeEncodeError:
            return None

    def _misfit(self, what: str, error: Exception) -> BadPayload:
        text = _PLACE.sub(self._place_name, in_words(error), count=1) if what == "call" else in_words(error)
        return BadPayload(
            f"{self.name}(): its stored {what} does not fit the function. {text}. "
            "If the function was changed, let it take what it took before, or make a new one under another name"
        )

    def _place_name(self, found: re.Match[str]) -> str:
        place = int(found[1])
        return self._by_position.places[place].name if place < len(self._by_position.places) else found[0]
