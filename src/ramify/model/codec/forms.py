"""The two forms of a call's arguments: an array by position, and an object by parameter name.

Promises: what was not given stays absent, and the function's own default takes its place when the call is read. So a
parameter with a default can be added while calls are waiting; to take one away that was given, or to add one without a
default, is an error that is seen when the call is read.

Does not choose between the forms, and does not bind arguments to parameters.
"""

import inspect
from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any

import msgspec

from ramify.model.codec.limits import MAX_DEPTH
from ramify.model.codec.parameters import Parameter
from ramify.model.codec.wire import Wire

Positional = tuple[Any, ...]

#: The array or object around the arguments does not count as a level of theirs.
_DEPTH = MAX_DEPTH + 1
_ABSENT = object()


class ByPosition:
    """An array of the first arguments, for calls that need no more; of these, `counts` are possible."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.places = tuple(each for each in parameters if each.by_position)
        needs_keyword = any(each.required and not each.by_position for each in parameters)
        self.counts = range(0) if needs_keyword else range(sum(p.required for p in self.places), len(self.places) + 1)
        self._wires: dict[int, Wire] = {}
        self._open = Wire(_open_array(self.places))
        #: One call of msgspec for the plain form; the defaults of what was not given are filled in.
        self.decode: Callable[[bytes], Positional] = self._open.decode if self._is_fixed else self._decode_open

    def wire(self, count: int) -> Wire:
        """The way to bytes of exactly this many arguments."""
        if count not in self._wires:
            self._wires[count] = Wire(_array(self.places[:count]), _DEPTH)
        return self._wires[count]

    def read_tree(self, tree: object) -> Positional:
        """The arguments in a tree of lists and dicts."""
        read = self._open.read_tree(tree)
        return read if self._is_fixed else msgspec.structs.astuple(read)

    @property
    def _is_fixed(self) -> bool:
        return all(each.required for each in self.places)

    def _decode_open(self, raw: bytes) -> Positional:
        return msgspec.structs.astuple(self._open.decode(raw))


class ByName:
    """An object with an entry for each argument that was given."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self._fields = {each.name: f"p{number}" for number, each in enumerate(parameters)}
        self._parameters = parameters
        self._struct = msgspec.defstruct(
            "ByName",
            [_field(self._fields[each.name], each) for each in parameters],
            rename={field: name for name, field in self._fields.items()},
            kw_only=True,
            omit_defaults=True,
            forbid_unknown_fields=True,
        )
        self.wire = Wire(self._struct, _DEPTH)

    def pack(self, given: Mapping[str, object]) -> msgspec.Struct:
        """The value that `wire` writes."""
        return self._struct(**{self._fields[name]: value for name, value in given.items()})

    def unpack(self, packed: msgspec.Struct) -> tuple[Positional, dict[str, Any]]:
        """The arguments to call the function with."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        in_order = True
        for parameter in self._parameters:
            value = getattr(packed, self._fields[parameter.name])
            if value is _ABSENT:
                in_order = False
            elif parameter.is_args:
                args.extend(value)
            elif parameter.is_kwargs:
                kwargs.update(value)
            elif parameter.by_position and in_order:
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return tuple(args), kwargs


def _array(places: tuple[Parameter, ...]) -> Any:
    return GenericAlias(tuple, tuple(each.annotation for each in places))


def _open_array(places: tuple[Parameter, ...]) -> Any:
    """The type that reads an array from which trailing defaults may be missing."""
    if all(each.required for each in places):
        return _array(places)
    fields = [_place(f"p{number}", each) for number, each in enumerate(places)]
    return msgspec.defstruct("ByPosition", fields, array_like=True, forbid_unknown_fields=True)


def _place(field: str, parameter: Parameter) -> Any:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return field, parameter.annotation
    # A factory, because msgspec copies or refuses mutable defaults and Python shares them.
    return field, parameter.annotation, msgspec.field(default_factory=lambda: default)


def _field(field: str, parameter: Parameter) -> Any:
    return (field, parameter.annotation) if parameter.required else (field, parameter.annotation, _ABSENT)
