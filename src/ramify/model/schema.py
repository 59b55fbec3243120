"""Annotations as JSON schemas, and the faults of a value by such a schema.

A schema is all that is left of an annotation where the program is not there: with it a value can be checked, and be
described to a person. It says what can be said: types, fields, elements, constants, formats and bounds.

Does not know how values are stored. What a class checks for itself is left to whoever makes one of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Flag
from operator import ge, gt, le, lt
from pathlib import PurePath
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import inspect as types

from ramify.model.codec.limits import shown
from ramify.model.decoder import converter, decoder

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
}
_FORMATS: Mapping[str, Callable[[object], object]] = {
    "date-time": converter(datetime),
    "date": converter(date),
    "time": converter(time),
    "duration": converter(timedelta),
    "uuid": converter(UUID),
    "decimal": converter(Decimal),
    "base64": converter(bytes),
    **{
        f"{name} {words} time zone": converter(Annotated[of, msgspec.Meta(tz=tz)])  # type: ignore[arg-type]  # it is, to msgspec
        for name, of in (("date-time", datetime), ("time", time))
        for words, tz in (("with a", True), ("without", False))
    },
}
_PLAIN: Mapping[type, Mapping[str, Any]] = {
    types.AnyType: {},
    types.NoneType: {"type": "null"},
    types.BoolType: {"type": "boolean"},
    types.IntType: {"type": "integer"},
    types.FloatType: {"type": "number"},
    types.StrType: {"type": "string"},
    types.BytesType: {"type": "string", "format": "base64"},
    types.DateTimeType: {"type": "string", "format": "date-time"},
    types.DateType: {"type": "string", "format": "date"},
    types.TimeType: {"type": "string", "format": "time"},
    types.TimeDeltaType: {"type": "string", "format": "duration"},
    types.UUIDType: {"type": "string", "format": "uuid"},
    types.DecimalType: {"type": ["string", "number"], "format": "decimal"},
}
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_WITHIN: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", ge),
    "exclusiveMinimum": ("more than", gt),
    "maximum": ("at most", le),
    "exclusiveMaximum": ("less than", lt),
    "multipleOf": ("a multiple of", lambda value, of: _is_multiple(value, of)),
    "bits": ("a sum of", lambda value, bits: not value & ~sum(bits)),
}
#: How far into lists and objects a schema is described.
_DEPTH = 3
#: How far a quotient may be from a whole number.
_NEARLY = 1e-9
_numbers = decoder(dict[int | float, None])


def schema_of(annotation: Any) -> dict[str, Any]:
    """The schema of an annotation that the codec takes. What it cannot tell is not in it."""
    found = _Schemas()
    schema = found.of(types.type_info(annotation))
    return {**schema, "$defs": found.named} if found.named else schema


class _Schemas:
    """Schemas of types, and those of classes by their names, because a class may be inside of itself."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._names: dict[type, str] = {}

    def of(self, kind: types.Type) -> dict[str, Any]:
        match kind:
            case types.Metadata(type=inner):
                return self.of(inner)
            case types.UnionType(types=several):
                return {"anyOf": [self.of(each) for each in several]}
            case types.LiteralType(values=values):
                return {"enum": list(values)}
            case types.EnumType(cls=cls) if issubclass(cls, Flag):
                # Several together are a value as well.
                bits = {bit for each in cls.__members__.values() for bit in _bits(each.value)}
                return {"type": "integer", "minimum": 0, "bits": sorted(bits)}
            case types.EnumType(cls=cls):
                return {"enum": [each.value for each in cls]}
            case types.TupleType(item_types=several):
                return self._row([self.of(each) for each in several], len(several))
            case types.DictType(key_type=key, value_type=inner):
                # Any text is a key unless more is asked of keys.
                names = {} if (asked := self.of(key)) in ({}, {"type": "string"}) else {"propertyNames": asked}
                return {
                    "type": "object",
                    "additionalProperties": self.of(inner),
                    **names,
                    **_lengths(kind, "Properties"),
                }
            case types.CollectionType(item_type=element):
                return {"type": "array", "items": self.of(element), **_lengths(kind, "Items")}
            case types.StructType() | types.DataclassType() | types.TypedDictType() | types.NamedTupleType():
                return self._class(kind)
            case types.CustomType(cls=cls):
                return self._custom(cls)
            case _:
                bounds = {name: value for at, name in _BOUNDS.items() if (value := getattr(kind, at, None)) is not None}
                pattern = {} if (text := getattr(kind, "pattern", None)) is None else {"pattern": text}
                schema = {**_PLAIN.get(type(kind), {}), **bounds, **pattern, **_lengths(kind, "Length")}
                if (tz := getattr(kind, "tz", None)) is not None:
                    schema["format"] += " with a time zone" if tz else " without time zone"
                return schema

    def _class(self, kind: Any) -> dict[str, Any]:
        name = self._names.get(kind.cls)
        if name is None:
            name = kind.cls.__name__
            while name in self.named:
                name += "_"
            self._names[kind.cls] = name
            self.named[name] = {}
            self.named[name].update(self._fields(kind))
        return {"$ref": f"#/$defs/{name}"}

    def _fields(self, kind: Any) -> dict[str, Any]:
        tag = {} if getattr(kind, "tag", None) is None else {kind.tag_field: {"enum": [kind.tag]}}
        fields = {field.encode_name: self.of(field.type) for field in kind.fields}
        required = [field.encode_name for field in kind.fields if field.required]
        if isinstance(kind, types.NamedTupleType) or getattr(kind, "array_like", False):
            return self._row([*tag.values(), *fields.values()], len(tag) + len(required))
        return {"type": "object", "properties": {**tag, **fields}, "required": [*tag, *required]}

    def _row(self, items: list[Any], least: int) -> dict[str, Any]:
        return {"type": "array", "prefixItems": items, "items": False, "minItems": least}

    def _custom(self, cls: type) -> dict[str, Any]:
        if hasattr(cls, "model_json_schema"):
            schema: dict[str, Any] = cls.model_json_schema()
            self.named.update(schema.pop("$defs", {}))
            return schema
        known = {PurePath: "string", str: "string", int: "integer", float: "number"}
        return next(({"type": name} for of, name in known.items() if issubclass(cls, of)), {})


def _lengths(kind: object, of: str) -> dict[str, int]:
    found = {f"{end}{of}": getattr(kind, f"{end}_length", None) for end in ("min", "max")}
    return {name: value for name, value in found.items() if value is not None}


def wrong(value: object, schema: Any) -> str | None:
    """The first thing that is wrong with a tree of JSON; None if nothing is."""
    return next(_wrong(value, schema, schema, "it"), None)


def in_short(schema: Any) -> str:
    """Describe the values that fit a schema, for people: `{approved: boolean, note?: string}`."""
    return _short(schema, schema, _DEPTH)


def _short(schema: Any, root: Any, depth: int) -> str:
    if not isinstance(schema, dict):
        return "anything"
    schema = inside(schema, root)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_short(each, root, depth) for each in several))
    if "enum" in schema or "const" in schema:
        return " or ".join(map(_as_json, schema.get("enum", [schema.get("const")])))
    match schema.get("type"):
        case "object" if depth and "properties" in schema:
            names = schema.get("required", ())
            fields = schema["properties"].items()
            told = (f"{name}{'' if name in names else '?'}: {_short(of, root, depth - 1)}" for name, of in fields)
            return f"{{{', '.join(told)}}}"
        case "object" if depth and isinstance(rest := schema.get("additionalProperties"), dict):
            return f"{{…: {_short(rest, root, depth - 1)}}}"
        case "array" if depth:
            first = [_short(each, root, depth - 1) for each in schema.get("prefixItems", ())]
            rest = [f"{_short(items, root, depth - 1)}, …"] if isinstance(items := schema.get("items"), dict) else []
            return f"[{', '.join([*first, *rest])}]"
        case str() as plain:
            return schema.get("format", plain) if plain == "string" else plain
        case list() as several:
            return schema.get("format") or " or ".join(several)
        case _:
            return "anything"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def inside(schema: Any, root: Any) -> Any:
    """A schema, found where another one refers to it."""
    return root.get("$defs", {}).get(schema["$ref"].rsplit("/", 1)[-1], {}) if "$ref" in schema else schema


def _wrong(value: Any, schema: Any, root: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _wrong(value, inside(schema, root), root, where)
    for each in schema.get("allOf", ()):
        yield from _wrong(value, each, root, where)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        found = [next(_wrong(value, each, root, where), None) for each in several]
        if None not in found:
            yield " or ".join(dict.fromkeys(each for each in found if each is not None))
    known = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if known is not None and not any(each == value and type(each) is type(value) for each in known):
        yield f"{where} must be {'one of ' if len(known) > 1 else ''}{', '.join(map(shown, known))}"
    yield from _wrong_type(value, schema, where)
    yield from _out_of_bounds(value, schema, where)
    if isinstance(value, dict):
        yield from _wrong_fields(value, schema, root, where)
    if isinstance(value, list):
        yield from _wrong_elements(value, schema, root, where)


def _wrong_type(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    names = schema.get("type")
    names = [names] if isinstance(names, str) else names or []
    fits = [isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names]
    form = schema.get("format", "")
    if names and not any(fits):
        yield f"{where} must be {' or '.join(names)}" + (f" ({form})" if form in _FORMATS else "")
    elif isinstance(value, str) and form in _FORMATS:
        try:
            _FORMATS[form](value)
        except msgspec.ValidationError:
            yield f"{where} must be a text that is a {form}"


def _out_of_bounds(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, int | float):
        for name, (words, is_within) in _WITHIN.items():
            if name in schema and not is_within(value, schema[name]):
                yield f"{where} must be {words} {schema[name]}"
    elif isinstance(value, str | list | dict):
        of, what, size = _size(value, schema)
        if size < schema.get(f"min{of}", 0):
            yield f"{where} must have at least {schema[f'min{of}']} {what}"
        if size > schema.get(f"max{of}", size):
            yield f"{where} must have at most {schema[f'max{of}']} {what}"
        if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{where} must be like {schema['pattern']}"


def _size(value: str | list[Any] | dict[str, Any], schema: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return what a bound of its length is called, what it counts, and how many of these there are."""
    if isinstance(value, list | dict):
        of, what = ("Items", "elements") if isinstance(value, list) else ("Properties", "keys")
        return of, what, len(value)
    if schema.get("format") == "base64":
        return "Length", "bytes", len(value.rstrip("=")) * 3 // 4
    return "Length", "characters", len(value)


def _is_multiple(value: float, of: float) -> bool:
    if isinstance(of, int):
        return value % of == 0
    # 0.3 is no multiple of 0.1 to the last bit, and some who read it do not mind.
    return abs(value / of - round(value / of)) < _NEARLY


def _bits(value: int) -> Iterator[int]:
    return (1 << at for at in range(value.bit_length()) if value >> at & 1)


def _wrong_elements(value: list[Any], schema: Mapping[str, Any], root: Any, where: str) -> Iterator[str]:
    first, rest = schema.get("prefixItems", ()), schema.get("items")
    if rest is False and len(value) > len(first):
        yield f"{where} must have at most {len(first)} elements"
    for at, each in enumerate(value):
        yield from _wrong(each, first[at] if at < len(first) else rest, root, f"{where}[{at}]")


def _wrong_fields(value: Mapping[str, Any], schema: Mapping[str, Any], root: Any, where: str) -> Iterator[str]:
    known, rest = schema.get("properties"), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} lacks {name!r}"
    if (names := schema.get("propertyNames")) is not None:
        for name in value:
            found = [next(_wrong(each, names, root, f"the key {name!r} of {where}"), None) for each in _as_key(name)]
            if None not in found:
                yield str(found[-1])
    for name, each in value.items():
        if known is not None and name in known:
            yield from _wrong(each, known[name], root, f"{where}.{name}")
        elif known is not None and rest in (None, False):
            yield f"{where} has no {name!r}; it has {', '.join(known)}"
        else:
            yield from _wrong(each, rest, root, f"{where}.{name}")


def _as_key(name: str) -> list[object]:
    """Return what a key of an object may stand for: in JSON, keys are texts."""
    try:
        return [name, *_numbers.decode(msgspec.json.encode({name: None}))]
    except (msgspec.DecodeError, UnicodeEncodeError):
        return [name]
