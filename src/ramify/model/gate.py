"""Gates: tasks that end with an answer from outside, and what answers they take.

What a gate asks for is stored with it as a JSON schema, so that whoever answers needs nothing of the program that
asked. Checked is what schemas of annotations say: types, fields, elements, constants and formats. What a schema says
beyond that is left to the step that gets the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from ramify.errors import BadPayload
from ramify.model.codec.limits import shown
from ramify.model.task import OWN

#: The kind of gates.
GATE = f"{OWN}gate"

_TYPES: dict[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
}
_FORMATS: dict[str, Any] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}


class GateSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a gate asks for. `timeout` is in seconds; `otherwise` is in a list, because null may be meant."""

    name: str
    schema: Any = None
    timeout: float | None = None
    otherwise: list[Any] | None = None


def check_answer(spec: GateSpec, answer: object) -> None:
    """Refuse an answer, as a tree of JSON, that is not what the gate asks for."""
    wrong = None if spec.schema is None else next(_wrong(answer, spec.schema, spec.schema, "it"), None)
    if wrong is not None:
        raise BadPayload(f"the gate {spec.name!r} does not take {shown(answer)}: {wrong}")


def _wrong(value: Any, schema: Any, root: Any, where: str) -> Iterator[str]:
    """What is wrong with a value, if anything."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _wrong(value, root.get("$defs", {}).get(schema["$ref"].rsplit("/", 1)[-1]), root, where)
    if "anyOf" in schema:
        found = [next(_wrong(value, each, root, where), None) for each in schema["anyOf"]]
        if None not in found:
            yield " or ".join(each for each in found if each is not None)
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} must be one of {', '.join(map(shown, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield f"{where} must be {shown(schema['const'])}"
    yield from _wrong_type(value, schema, where)
    if isinstance(value, dict):
        yield from _wrong_fields(value, schema, root, where)
    if isinstance(value, list):
        for at, each in enumerate(value):
            of = (schema.get("prefixItems") or [])[at : at + 1] or [schema.get("items")]
            yield from _wrong(each, of[0], root, f"{where}[{at}]")


def _wrong_type(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    names = schema.get("type")
    names = [names] if isinstance(names, str) else names or []
    fits = [isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names]
    if names and not any(fits):
        yield f"{where} must be {' or '.join(names)}"
    elif isinstance(value, str) and (of := _FORMATS.get(schema.get("format", ""))) is not None:
        try:
            msgspec.convert(value, of)
        except msgspec.ValidationError as error:
            yield f"{where}: {error}"


def _wrong_fields(value: dict[str, Any], schema: dict[str, Any], root: Any, where: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} lacks {name!r}"
    for name, each in value.items():
        inner = f"{where}.{name}"
        if name in known:
            yield from _wrong(each, known[name], root, inner)
        elif known and schema.get("additionalProperties") is not None:
            yield from _wrong(each, schema["additionalProperties"], root, inner)
        elif known:
            yield f"{where} has no {name!r}; it has {', '.join(known)}"
        else:
            yield from _wrong(each, schema.get("additionalProperties"), root, inner)
