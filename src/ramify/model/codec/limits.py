"""The limits of a payload, the same on every store, and the walk that finds what breaks them.

`may_break_limits` asks the bytes, at C speed, and is the only one that most calls meet; `breaks_limits` decides on the
tree that was written; `first_fault` puts it into words for a person, with the place.

Promises: `first_fault` ends on every value, also one that contains itself or is nested a hundred thousand levels deep,
without recursion. It looks into lists, tuples, sets, dicts, dataclasses, attrs classes and msgspec Structs.

Does not know annotations: it finds only what no annotation makes storable. Size is counted on the bytes, not here.
"""

import dataclasses
import math
import reprlib
from collections.abc import Iterator
from decimal import Decimal

import msgspec

#: The largest payload or result, in encoded bytes: 1 MiB.
MAX_BYTES = 1_048_576
#: How many lists, dicts and objects may be nested inside one another in one argument.
MAX_DEPTH = 64
#: The range of a 64-bit integer: what every store and every JSON reader in use can hold.
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_ANY_DIGIT_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_NINETEEN_DIGITS = b"0" * 19

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def fits(number: int) -> bool:
    """Return whether a number is in the 64-bit range."""
    return INT_MIN <= number <= INT_MAX


def may_break_limits(raw: bytes) -> bool:
    """Return whether this JSON could hold an integer beyond 64 bits or be nested too deep; no is certain, yes is not.

    An integer out of range has at least 19 digits, and each level a pair of brackets, so both are seen at C speed.
    """
    if raw.translate(_ANY_DIGIT_AS_ZERO).find(_NINETEEN_DIGITS) >= 0:
        return True
    return len(raw) > 2 * MAX_DEPTH and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH


def breaks_limits(tree: object, max_depth: int) -> bool:
    """Return whether a tree of plain lists and dicts is nested too deep, or holds an integer beyond 64 bits."""
    level, depth = [tree], 0
    while level:
        below: list[object] = []
        for node in level:
            if isinstance(node, dict | list | tuple):
                if depth == max_depth:
                    return True
                below.extend(node)
                if isinstance(node, dict):
                    below.extend(node.values())
            elif isinstance(node, int) and not fits(node):
                return True
        level, depth = below, depth + 1
    return False


def first_fault(value: object, where: str) -> str | None:
    """The first thing that no annotation can make storable, as the end of a sentence that begins with its place."""
    rows = [iter([(where, value)])]
    holders: list[object] = []
    while rows:
        for place, node in rows[-1]:
            if wrong := _wrong_leaf(node):
                return f"`{place}` {wrong}"
            parts = children(node, place)
            if parts is None:
                continue
            if any(node is holder for holder in holders):
                return f"`{where}` contains itself (at `{place}`). Pass a tree without cycles"
            if len(holders) == MAX_DEPTH:
                return f"`{where}` is nested more than {MAX_DEPTH} levels deep. Flatten it, or pass a reference to it"
            holders.append(node)
            rows.append(parts)
            break
        else:
            rows.pop()
            del holders[len(rows) - 1 :]
    return None


def children(node: object, place: str) -> Iterator[tuple[str, object]] | None:
    """The places and values directly inside a value; None for one that holds nothing we look into."""
    if isinstance(node, list | tuple):
        return ((f"{place}[{index}]", part) for index, part in enumerate(node))
    if isinstance(node, set | frozenset):
        return ((f"{place}{{{shown(part)}}}", part) for part in node)
    if isinstance(node, dict):
        return _entries(node, place)
    names = field_names(node)
    return None if names is None else ((f"{place}.{name}", getattr(node, name, None)) for name in names)


def field_names(node: object) -> list[str] | None:
    """The fields of a dataclass instance, an attrs instance or a Struct; None for anything else."""
    if isinstance(node, type):
        return None
    if isinstance(node, msgspec.Struct):
        return list(node.__struct_fields__)
    if dataclasses.is_dataclass(node):
        return [field.name for field in dataclasses.fields(node)]
    attributes = getattr(type(node), "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def shown(value: object) -> str:
    """A short repr that cannot fail and cannot carry control characters to a terminal."""
    try:
        return _short.repr(value)
    except Exception:  # noqa: BLE001  a user's __repr__ may raise anything, and this text is already part of an error
        return f"<{type(value).__name__}>"


def _entries(node: dict[object, object], place: str) -> Iterator[tuple[str, object]]:
    for key, part in node.items():
        if not isinstance(key, str):
            yield f"{place} key {shown(key)}", key
        yield f"{place}[{shown(key)}]", part


def _wrong_leaf(node: object) -> str | None:
    if isinstance(node, float) and not math.isfinite(node):
        return f"is {float.__repr__(node)}, which JSON cannot hold. Pass None or a string instead"
    if isinstance(node, Decimal) and node.is_nan():
        return "is a NaN, which is not equal to itself. Pass None or a string instead"
    if isinstance(node, int) and not fits(node):
        return "is an integer beyond 64 bits (-2**63 to 2**63 - 1). Pass it as a string"
    return None
