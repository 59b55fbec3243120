"""Checks that the result of one function can be an argument of another, as far as their annotations tell.

A result crosses as JSON and is read by the parameter's annotation, so that a str fits a Path. What is asked here is
whether any value of the one annotation is written as JSON of a kind that the other one reads.

Promises: says no only when no value could ever fit, lists without elements aside; what it does not know fits.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, is_typeddict
from uuid import UUID

import msgspec

#: What a value is in JSON; None for what is not known.
Kinds = frozenset[str] | None

_TEXT = frozenset({"a text"})
_NUMBER = frozenset({"a number"})
_LIST = frozenset({"a list"})
_OBJECT = frozenset({"an object"})
#: In this order: a bool is an int to Python, and a datetime a date.
_KINDS: tuple[tuple[type, frozenset[str]], ...] = (
    (NoneType, frozenset({"null"})),
    (bool, frozenset({"a bool"})),
    (int, _NUMBER),
    (float, _NUMBER),
    (str, _TEXT),
    (bytes, _TEXT),
    (bytearray, _TEXT),
    (datetime, _TEXT),
    (date, _TEXT),
    (time, _TEXT),
    (UUID, _TEXT),
    (PurePath, _TEXT),
    (Decimal, _TEXT | _NUMBER),
    (timedelta, _TEXT | _NUMBER),
    (dict, _OBJECT),
    (list, _LIST),
    (tuple, _LIST),
    (set, _LIST),
    (frozenset, _LIST),
)


def fits(result: Any, parameter: Any) -> bool:
    """Return whether some value of `result` may be read as a `parameter`."""
    try:
        return _fits(result, parameter)
    except TypeError:  # an annotation that cannot be hashed
        return _fits.__wrapped__(result, parameter)


@lru_cache(maxsize=1_024)
def _fits(result: Any, parameter: Any) -> bool:
    written, read = _kinds(result), _kinds(parameter)
    if written is None or read is None:
        return True
    if written == _LIST == read:
        return fits(_element(result), _element(parameter))
    return bool(written & read)


def in_code(annotation: Any) -> str:
    """An annotation as it is written."""
    return annotation.__name__ if type(annotation) is type else str(annotation).replace("typing.", "")


def _kinds(annotation: Any) -> Kinds:
    origin = get_origin(annotation)
    if annotation is None:
        return _of_class(NoneType)
    if origin in (Union, UnionType):
        return _any_of(map(_kinds, get_args(annotation)))
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin is Literal:
        return _any_of(_kinds(type(value)) for value in get_args(annotation))
    if isinstance(annotation, NewType):
        return _kinds(annotation.__supertype__)
    found = origin if isinstance(origin, type) else annotation
    return _of_class(found) if isinstance(found, type) else None


def _of_class(found: type) -> Kinds:
    if issubclass(found, Enum):
        return _any_of(_kinds(type(member.value)) for member in found)
    for known, kinds in _KINDS:
        if issubclass(found, known):
            return kinds
    if dataclasses.is_dataclass(found) or is_typeddict(found):
        return _OBJECT
    if issubclass(found, msgspec.Struct):
        return _LIST if found.__struct_config__.array_like else _OBJECT
    if found.__module__ == "collections.abc":
        return _OBJECT if issubclass(found, Mapping) else _LIST if issubclass(found, Collection) else None
    return None


def _any_of(several: Iterable[Kinds]) -> Kinds:
    found: frozenset[str] = frozenset()
    for kinds in several:
        if kinds is None:
            return None
        found |= kinds
    return found


def _element(annotation: Any) -> Any:
    """Return what is in a list; Any where that is not one thing."""
    of = get_args(annotation)
    return of[0] if len(of) == 1 or (len(of) == 2 and of[1] is Ellipsis) else Any
