"""Shortcuts: values whose exact type proves, from the annotation alone, that they come back equal.

Most tasks take a few strings and numbers. For these the codec need not decode what it has just encoded: a `str` for a
`str` parameter comes back as it is. Proofs map an exact type to the check that is left to do (None: nothing).

Promises: what they accept, `Wire.seal` would accept too, with the same bytes. What they do not cover is not wrong, only
slower. Surrogates and size are left to the caller, who sees the bytes.

Does not cover subclasses, bare `list` and `dict`, or constraints in `Annotated`: they take the long way.
"""

from collections.abc import Callable, Collection
from itertools import product
from math import isfinite, prod
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from ramify.model.codec.limits import INT_MAX, INT_MIN, fits

Check = Callable[[Any], bool]
Proofs = dict[type, Check | None]
#: For the exact types of some arguments: the places of integers, and the other checks by place.
Table = dict[tuple[type, ...], tuple[tuple[int, ...], tuple[tuple[int, Check], ...]]]

#: More combinations of types than this are not worth a table.
_MAX_TABLE = 256

_SCALARS: Proofs = {str: None, bool: None, NoneType: None, int: fits, float: isfinite}


def proofs_of(annotation: Any) -> Proofs:
    """The exact types that need no decoding to be trusted under this annotation."""
    while hasattr(annotation, "__supertype__"):
        annotation = annotation.__supertype__
    if annotation is Any or annotation is object:
        return _SCALARS
    if annotation is None:
        annotation = NoneType
    if isinstance(annotation, type) and annotation in _SCALARS:
        return {annotation: _SCALARS[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is UnionType:
        return {kind: check for part in parts for kind, check in proofs_of(part).items()}
    if origin is list:
        return _list_proof(parts[0])
    if origin is dict and parts[0] is str:
        return _dict_proof(parts[1])
    return {}


def table_of(annotations: list[Any], counts: range) -> Table:
    """The proofs of whole calls by position, for each possible number of arguments."""
    proofs = [proofs_of(annotation) for annotation in annotations]
    if sum(prod(map(len, proofs[:count])) for count in counts) > _MAX_TABLE:
        return {}
    return {
        tuple(kind for kind, _ in call): _checks([check for _, check in call])
        for count in counts
        for call in product(*(proof.items() for proof in proofs[:count]))
    }


def holds(proofs: Proofs, value: object) -> bool:
    """Return whether a value is proven to come back equal."""
    kind = type(value)
    if kind not in proofs:
        return False
    check = proofs[kind]
    return check is None or check(value)


def _checks(checks: list[Check | None]) -> tuple[tuple[int, ...], tuple[tuple[int, Check], ...]]:
    integers = tuple(place for place, check in enumerate(checks) if check is fits)
    others = tuple((place, check) for place, check in enumerate(checks) if check is not None and check is not fits)
    return integers, others


def _list_proof(part: Any) -> Proofs:
    every = _every(part)
    return {} if every is None else {list: every}


def _dict_proof(part: Any) -> Proofs:
    every = _every(part)
    if every is None:
        return {}
    only_str = frozenset({str}).issuperset
    return {dict: lambda entries: only_str(map(type, entries)) and every(entries.values())}


def _every(part: Any) -> Check | None:
    """The check of all parts of a list or dict; None under `Any`, whose depth no annotation bounds."""
    if part is Any or part is object:
        return None
    proofs = proofs_of(part)
    known = frozenset(proofs).issuperset
    if not proofs:
        return None
    if not any(proofs.values()):
        return lambda parts: known(map(type, parts))
    if len(proofs) == 1 and int in proofs:
        return lambda parts: known(map(type, parts)) and _all_fit(parts)
    return lambda parts: all(holds(proofs, each) for each in parts)


def _all_fit(numbers: Collection[int]) -> bool:
    return not numbers or (min(numbers) >= INT_MIN and max(numbers) <= INT_MAX)
