"""Says in words why a value cannot be stored: which parameter, what is wrong with it, what to do.

Promises: a text for every value, also for one whose own `__eq__`, `__repr__` or `model_dump` raises.

Does not decide: it is asked only after `Wire.seal` refused, so it may be slow, and takes each argument on its own.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ramify.model.codec.limits import MAX_BYTES, children, first_fault, shown
from ramify.model.codec.parameters import RESULT
from ramify.model.codec.wire import NotStorable, TooLarge, UnknownType, Wire, as_builtins, difference, write
from ramify.model.stray import instead_of_value

#: A parameter's name, its annotation and the value given for it.
Part = tuple[str, Any, object]
_TYPES = re.compile(r"Expected `[^`]*`, got `[^`]*`")


def explain(parts: list[Part], error: Exception) -> str:
    """Return what is wrong with the first part that cannot be stored, or with all of them together."""
    for where, annotation, value in parts:
        if found := _reason(where, annotation, value):
            return found
    if isinstance(error, TooLarge):
        return _too_large({where: len(write(value)) for where, _, value in parts})
    return in_words(error)


def explain_unknown(where: str, value: object, error: UnknownType) -> str:
    """The same for a value in which something is of a type that nothing here knows."""
    return _unknown(where, value, error.value)


def cause_of(error: Exception) -> Exception | None:
    """Return what to show above a refusal: an exception of the user's own code, and none of the codec's."""
    return None if isinstance(error, NotStorable | RecursionError | msgspec.MsgspecError) else error


def said_by_types(error: object) -> bool:
    """Return whether the decoder's text about a value as a whole names two types, and nothing else."""
    return _TYPES.fullmatch(str(error)) is not None


def in_words(error: Exception) -> str:
    """An exception's type and text; some exceptions cannot even be shown."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may raise anything
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _reason(where: str, annotation: Any, value: object) -> str | None:
    try:
        Wire(annotation).seal(value)
        return None
    except Exception:  # noqa: BLE001  what it was is found again below, step by step
        pass
    try:
        return _reason_in_words(where, annotation, value)
    except RecursionError:
        return first_fault(value, where) or f"`{where}` is nested too deep. Flatten it"
    except UnknownType as unknown:
        return first_fault(value, where) or _unknown(where, value, unknown.value)
    except Exception as error:  # noqa: BLE001  the user's own code may raise anything, and its name is the answer
        return first_fault(value, where) or f"`{where}` cannot be stored: {in_words(error)}"


def _reason_in_words(where: str, annotation: Any, value: object) -> str | None:
    raw = write(value)
    if len(raw) > MAX_BYTES:
        is_many = where == RESULT and isinstance(value, list)
        return _too_large({where: len(raw)}) + (". To map over its items, yield them one by one" if is_many else "")
    if fault := first_fault(value, where) or first_fault(as_builtins(value), where):
        return fault
    try:
        back = Wire(annotation).read(raw)
    except msgspec.ValidationError as error:
        return _misfit(where, annotation, value, str(error))
    changed = difference(value, back, where)
    return None if changed is None else _changed(*changed)


def _too_large(sizes: dict[str, int]) -> str:
    where = max(sizes, key=lambda each: sizes[each])
    return (
        f"`{where}` takes {sizes[where]:,} bytes, and all arguments, a result or any other value may take "
        f"{MAX_BYTES:,} (1 MiB). "
        "Store it elsewhere, in a file, a table or a bucket, and pass a reference to it"
    )


def _misfit(where: str, annotation: Any, value: object, text: str) -> str:
    name = annotation.__name__ if isinstance(annotation, type) else annotation
    more = "" if said_by_types(text) else f": {text.replace('`$', f'`{where}')}"
    return f"`{where}`: expected {name}, got {_kind(value)}{more}"


def _unknown(where: str, value: object, part: object) -> str:
    for place, node in _walk(where, value):
        if isinstance(node, dict) and any(key is part for key in node):
            return _bad_key(place, part)
        if words := instead_of_value(node):
            return f"`{place}` {words}"
        if node is part:
            where = place
            break
    return (
        f"`{where}` is {_kind(part)}, which cannot be stored. "
        "Pass a path or a key to make it again, or a dataclass, a Struct or a pydantic model"
    )


def _changed(place: str, old: object, new: object) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        return _changed_dict(place, old, new)
    if type(old) is not type(new):
        return (
            f"`{place}` is {_kind(old)} and would come back as {_kind(new)}. "
            f"Annotate it with its type, or pass {_kind(new)}"
        )
    return f"`{place}` is {shown(old)} and would come back as {shown(new)}, which is not equal to it"


def _changed_dict(place: str, old: dict[object, object], new: dict[object, object]) -> str:
    for key in old:
        if not isinstance(key, str):
            return _bad_key(place, key)
    lost = [key for key in old if key not in new]
    return f"`{place}` would come back without {', '.join(map(shown, lost))}. Add it to the annotation, or leave it out"


def _bad_key(place: str, key: object) -> str:
    return (
        f"`{place}` has the key {shown(key)} ({_kind(key)}), which would not come back as such. "
        "Use string keys, or annotate the dict with the type of its keys"
    )


def _walk(where: str, value: object) -> Iterator[tuple[str, object]]:
    todo = [(where, value)]
    while todo:
        place, node = todo.pop()
        yield place, node
        todo.extend(children(node, place) or ())


def _kind(value: object) -> str:
    name = type(value).__name__
    if value is None:
        return "None"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
