"""Annotated values as JSON bytes, and back.

Promises: the bytes of `Wire.seal` are within the limits and decode, by the same annotation, to a value equal to the
one given. It decodes and compares before it returns, so this holds for every type, not only for those thought of.
Strings may hold lone surrogates (file names that are not UTF-8), anywhere, dict keys and paths included.

Equal means `==`, so a subclass of str or int comes back as the plain value, an aware datetime with a fixed offset, and
fields that a class leaves out of its comparison are its own affair.

The form: plain JSON, and the form of `escape` only for a value with a lone surrogate in a string, or one that could be
mistaken for that form.

Does not say what is wrong with a value it refuses (`refusal` does), and never imports pydantic: a model is whatever has
`model_dump` and `model_validate`.
"""

from collections.abc import Callable
from datetime import datetime, time
from functools import cache
from pathlib import PurePath
from typing import Any

import msgspec

from ramify.model.codec.escape import MARK, PATH, escaped, unescaped
from ramify.model.codec.limits import MAX_BYTES, MAX_DEPTH, breaks_limits, children, field_names, may_break_limits
from ramify.model.decoder import converter, decoder


class NotStorable(Exception):
    """The value cannot be sealed; never leaves the codec."""


class TooLarge(NotStorable):
    """The bytes are over the limit."""


class UnknownType(NotStorable):
    """Nothing here knows how to write this value."""

    def __init__(self, value: object) -> None:
        super().__init__(type(value).__name__)
        self.value = value


class Wire:
    """One annotation, and the way of its values to bytes and back."""

    __slots__ = ("_max_depth", "annotation", "decode")

    def __init__(self, annotation: Any, max_depth: int = MAX_DEPTH) -> None:
        """Raise TypeError for an annotation that msgspec cannot decode."""
        self.annotation = annotation
        self._max_depth = max_depth
        #: One call of msgspec, for bytes known to be in the plain form.
        self.decode: Callable[[bytes], Any] = decoder(annotation, _rebuild).decode

    def seal(self, value: object) -> bytes:
        """The bytes of a value, proven to come back equal; raises NotStorable or whatever the user's types raise."""
        raw = write(value)
        if len(raw) > MAX_BYTES:
            raise TooLarge
        if may_break_limits(raw) and breaks_limits(as_builtins(value), self._max_depth):
            raise NotStorable("over a limit")
        back = self.read(raw)
        if back == value or difference(value, back, "") is None:
            return raw
        raise NotStorable("would come back changed")

    def read(self, raw: bytes) -> Any:
        """The value of bytes that were written with this annotation."""
        if raw.startswith(MARK):
            return self.read_tree(unescaped(raw))
        return self.decode(raw)

    def read_tree(self, tree: object) -> Any:
        """The value of a tree of lists and dicts, as `unescaped` gives it."""
        try:
            # By way of bytes: `convert` leaves keys of dicts as texts, whatever their annotation says.
            raw = msgspec.json.encode(tree)
        except (UnicodeEncodeError, OverflowError):
            return converter(self.annotation, _rebuild, str_keys=True)(tree)
        return self.decode(raw)


def write(value: object) -> bytes:
    """The bytes of any value that can be written, unproven."""
    try:
        raw = encoder.encode(value)
    except UnicodeEncodeError:
        raw = MARK
    if not raw.startswith(MARK):
        return raw
    return escaped(msgspec.to_builtins(value, enc_hook=flatten_to_escape, str_keys=True))


def as_builtins(value: object) -> object:
    """The tree that is written for a value, with the keys of dicts as they are."""
    return msgspec.to_builtins(value, enc_hook=_flatten)


def tree_in(raw: bytes | None) -> object:
    """The tree of lists and dicts in bytes of either form; None for none."""
    if raw is None:
        return None
    return unescaped(raw) if raw.startswith(MARK) else msgspec.json.decode(raw)


def can_rebuild(annotation: object) -> bool:
    """Return whether a class that msgspec does not know can be decoded by us."""
    return _maker(annotation) is not None


def difference(before: object, after: object, where: str) -> tuple[str, object, object] | None:
    """The first place where two values differ, and what is there in each; None if they are the same in every part.

    It asks the parts, because a class without `__eq__` says that equal objects differ, and so does Python of two equal
    times around a change of the clocks.
    """
    pairs = [(where, before, after)]
    while pairs:
        place, old, new = pairs.pop()
        if old == new or _same_moment(old, new):
            continue
        if type(old) is not type(new) or isinstance(old, set | frozenset):
            return place, old, new
        inside, outside = children(old, place), children(new, place)
        if inside is None or outside is None or not _same_frame(old, new):
            return place, old, new
        pairs.extend((part, left, right) for (part, left), (_, right) in zip(inside, outside, strict=True))
    return None


def _same_moment(old: object, new: object) -> bool:
    if not (isinstance(old, datetime | time) and isinstance(new, datetime | time)):
        return False
    return old.replace(tzinfo=None) == new.replace(tzinfo=None) and old.utcoffset() == new.utcoffset()


def _same_frame(old: object, new: object) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return list(old) == list(new)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new)
    return field_names(old) is not None


def _flatten(value: Any) -> object:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if hasattr(type(value), "model_dump") and hasattr(type(value), "model_validate"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise UnknownType(value)


def flatten_to_escape(value: Any) -> object:
    """Return what is written in the escaped form for a value that msgspec does not know."""
    return f"{PATH}{value}" if isinstance(value, PurePath) else _flatten(value)


def _rebuild(annotation: Any, tree: object) -> object:
    make = _maker(annotation)
    if make is None:
        raise msgspec.ValidationError(f"Values of `{annotation}` cannot be made from JSON")
    return make(tree)


@cache
def _maker(annotation: Any) -> Callable[[Any], object] | None:
    if annotation is object:
        return lambda tree: tree
    if not isinstance(annotation, type):
        return None
    if hasattr(annotation, "model_validate"):
        validate: Callable[[Any], object] = annotation.model_validate
        return validate
    return annotation if issubclass(annotation, PurePath | str | int | float) else None


encoder = msgspec.json.Encoder(enc_hook=_flatten)
