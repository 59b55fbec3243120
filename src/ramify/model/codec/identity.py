"""Bytes that are the same for equal values, to tell whether two calls are one.

The order of a set differs from process to process, and equal dicts may differ in theirs; here both are sorted.

Promises: two values that were read by one annotation have one identity if they are equal, with the same types inside,
and two if they differ. A set inside a pydantic model is the exception: a model is written as it dumps itself.

Does not give back the value: these bytes are only compared.
"""

from ramify.model.codec.limits import field_names
from ramify.model.codec.wire import write


def identity_of(value: object) -> bytes:
    """The bytes to compare."""
    return write(_ordered(value))


def _ordered(node: object) -> object:
    if isinstance(node, list | tuple):
        return [_ordered(part) for part in node]
    if isinstance(node, set | frozenset):
        return sorted(map(_ordered, node), key=write)
    if isinstance(node, dict):
        # Pairs, because keys may be of any type; under a name, because a list of such pairs is another value.
        return {"": sorted(([_ordered(key), _ordered(part)] for key, part in node.items()), key=write)}
    names = field_names(node)
    return node if names is None else {type(node).__name__: [_ordered(getattr(node, name, None)) for name in names]}
