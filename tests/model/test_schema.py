"""Schemas of annotations: what fits passes, what does not is told, and nothing passes that could not be read."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from ramify.errors import BadPayload
from ramify.model.codec.wire import Wire, tree_in, write
from ramify.model.gate import GateSpec, check_answer
from ramify.model.schema import schema_of, wrong


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2
    ALL = 7


class Strict(enum.Flag):
    A = 1
    C = 4


@dataclass
class Decision:
    approved: bool
    note: str = ""


@dataclass
class Nested:
    first: Decision
    many: list[Decision]
    by: dict[str, Decision]
    pair: tuple[int, str]
    maybe: Decision | None = None
    at: datetime | None = None


class Tree(msgspec.Struct):
    name: str
    below: list[Tree] = []


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Row(msgspec.Struct, array_like=True):
    ok: bool
    count: int = 0


class Renamed(msgspec.Struct, rename="camel"):
    is_ok: bool


class Point(NamedTuple):
    x: int
    y: int


class Loose(TypedDict):
    a: int
    b: NotRequired[str]


class Model(pydantic.BaseModel):
    ok: bool
    colour: Colour = Colour.RED
    at: datetime | None = None
    tags: set[str] = set()


FITTING: list[tuple[Any, list[Any]]] = [
    (bool, [True, False]),
    (int, [0, -3, 2**62]),
    (float, [0.5, 3]),
    (str, ["", "é", "a\x00b", "\udcff"]),
    (None, [None]),
    (bool | None, [True, None]),
    (int | str, [3, "3"]),
    (Literal["yes", "no"], ["yes", "no"]),
    (Literal[1, 2], [1, 2]),
    (Colour, [Colour.RED]),
    (Level, [Level.HIGH]),
    (Colour | None, [Colour.BLUE, None]),
    (list[int], [[], [1, 2]]),
    (set[str], [{"a"}]),
    (tuple[int, str], [(1, "a")]),
    (tuple[int, ...], [(), (1, 2, 3)]),
    (dict[str, int], [{}, {"a": 1}]),
    (date, [date(2026, 1, 5)]),
    (datetime, [datetime(2026, 1, 5, 10), datetime(2026, 1, 5, 10, tzinfo=UTC)]),
    (time, [time(10, 30)]),
    (timedelta, [timedelta(days=3, seconds=2)]),
    (UUID, [UUID(int=7)]),
    (Decimal, [Decimal("1.50")]),
    (bytes, [b"\x00\xff"]),
    (Path, [Path("/usr")]),
    (Decision, [Decision(True), Decision(False, "x")]),
    (Nested, [Nested(Decision(True), [Decision(False)], {"a": Decision(True)}, (1, "a"), at=datetime(2026, 1, 5))]),
    (Tree, [Tree("a", [Tree("b", [Tree("c")])])]),
    (Cat | Dog, [Cat(9), Dog("rex")]),
    (Row, [Row(True), Row(False, 3)]),
    (Renamed, [Renamed(True)]),
    (Point, [Point(1, 2)]),
    (Loose, [{"a": 1}, {"a": 1, "b": "x"}]),
    (Model, [Model(ok=True, tags={"a"}, at=datetime(2026, 1, 5, tzinfo=UTC))]),
    (list[Model], [[Model(ok=True)]]),
    (Model | None, [Model(ok=False), None]),
    (Annotated[int, msgspec.Meta(ge=0, lt=5)], [0, 4]),
    (Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="^a")], ["a", "abc"]),
    (dict[int, str], [{}, {1: "a", -2: "b"}]),
    (dict[float, int], [{1.5: 1, 2.0: 2}]),
    (dict[Colour, int], [{Colour.RED: 1}]),
    (dict[Level, int], [{Level.LOW: 1}]),
    (dict[date, int], [{date(2026, 1, 5): 1}]),
    (dict[UUID, int], [{UUID(int=7): 1}]),
    (dict[Literal["yes", "no"], int], [{"yes": 1}]),
    (dict[Literal[1, 2], int], [{2: 1}]),
    (dict[Annotated[str, msgspec.Meta(max_length=2)], int], [{"a": 1, "12": 2}]),
    (Annotated[dict[str, int], msgspec.Meta(min_length=1, max_length=2)], [{"a": 1}]),
    (Annotated[int, msgspec.Meta(multiple_of=7)], [0, 14, 7 * 10**17]),
    (Annotated[float, msgspec.Meta(multiple_of=0.5)], [1, 1.5]),
    (Annotated[datetime, msgspec.Meta(tz=True)], [datetime(2026, 1, 5, tzinfo=UTC)]),
    (Annotated[datetime, msgspec.Meta(tz=False)], [datetime(2026, 1, 5)]),
    (Annotated[time, msgspec.Meta(tz=True)], [time(10, 30, tzinfo=UTC)]),
    (Annotated[bytes, msgspec.Meta(min_length=2, max_length=3)], [b"ab", b"abc"]),
    (Rights, [Rights.READ, Rights.READ | Rights.WRITE, Rights.ALL, Rights(0)]),
    (Strict, [Strict.A | Strict.C]),
    (Any, [None, 3, {"a": [1]}]),
]

#: Whatever somebody may type.
TYPED: list[Any] = [
    None, True, 0, 1, -1, 7, 1.5, "", "yes", "red", "aaaa", "2026-01-05", "2026-13-05", "10:30", "P1D", "1.50",
    "00000000-0000-0000-0000-000000000007", "2026-01-05T10:00:00", "YWJj", [], [1], ["a"], [1, "a"], [1, "a", 2],
    [True], [True, 3, 4], [None], [[1]], {}, {"a": 1}, {"a": "x"}, {"approved": True}, {"approved": 1},
    {"approved": True, "more": 1}, {"type": "Cat", "lives": 9}, {"type": "Cat", "name": "x"}, {"type": "Cow"},
    {"name": "a", "below": [{"name": 3}]}, {"ok": True}, {"ok": True, "colour": "green"}, {"ok": True, "at": "now"},
    {"is_ok": True}, {"isOk": True}, 2, 3, 4, 5, 8, 14, 0.7, {"1": 1}, {"1": "a"}, {"01": "a"}, {" 1": "a"}, {"1.5": 1},
    {"1e3": "a"}, {"x": "a"}, {"red": 1}, {"2": 1}, {"3": 1}, {"yes": 1}, {"2026-01-05": 1}, {"true": 1}, {"": 1},
    {"00000000-0000-0000-0000-000000000007": 1}, {"a": 1, "b": 2, "c": 3}, "2026-01-05T10:00:00Z", "10:30:00",
    "10:30:00Z", "YQ==", "YWI=", "YWJjZA==",
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "values"), FITTING, ids=lambda each: str(each)[:40])
def test_what_an_annotation_can_store_fits_its_schema(annotation: Any, values: list[Any]) -> None:
    schema = msgspec.json.decode(msgspec.json.encode(schema_of(annotation)))
    for value in values:
        assert wrong(tree_in(write(value)), schema) is None


@pytest.mark.parametrize("annotation", [each for each, _ in FITTING], ids=lambda each: str(each)[:40])
def test_what_fits_a_schema_can_be_read_by_its_annotation(annotation: Any) -> None:
    schema, wire = schema_of(annotation), Wire(annotation)
    refused = [value for value in TYPED if wrong(value, schema) is not None]
    for value in TYPED:
        if value not in refused:
            wire.read(msgspec.json.encode(value))
    assert refused or annotation is Any


@pytest.mark.parametrize(
    ("annotation", "value", "what"),
    [
        (bool, 1, "it must be boolean"),
        (int, True, "it must be integer"),
        (int, 1.5, "it must be integer"),
        (int | None, "x", "it must be integer or it must be null"),
        (Literal["yes", "no"], "maybe", "it must be one of 'no', 'yes'"),
        (Literal[1], True, "it must be 1"),
        (Colour, "green", "it must be one of 'red', 'blue'"),
        (list[int], [1, "2"], "it[1] must be integer"),
        (tuple[int, str], [1], "it must have at least 2 elements"),
        (tuple[int, str], [1, "a", 2], "it must have at most 2 elements"),
        (dict[str, int], {"a": "b"}, "it.a must be integer"),
        (date, "2026-13-01", "it must be a text that is a date"),
        (datetime, "tomorrow", "it must be a text that is a date-time"),
        (timedelta, 3, "it must be string (duration)"),
        (UUID, "7", "it must be a text that is a uuid"),
        (Decimal, "one", "it must be a text that is a decimal"),
        (Decision, {"note": "x"}, "it lacks 'approved'"),
        (Decision, {"approved": True, "notes": ""}, "it has no 'notes'; it has approved, note"),
        (Nested, {"first": {"approved": 3}}, "it lacks 'many'"),
        (Tree, {"name": "a", "below": [{"name": "b", "below": [{}]}]}, "it.below[0].below[0] lacks 'name'"),
        (Model, {"ok": True, "colour": "green"}, "it.colour must be one of 'red', 'blue'"),
        (list[Model], [{}], "it[0] lacks 'ok'"),
        (Annotated[int, msgspec.Meta(ge=0, lt=5)], -1, "it must be at least 0"),
        (Annotated[int, msgspec.Meta(ge=0, lt=5)], 5, "it must be less than 5"),
        (Annotated[str, msgspec.Meta(max_length=3)], "abcd", "it must have at most 3 characters"),
        (Annotated[str, msgspec.Meta(pattern="^a")], "b", "it must be like ^a"),
        (dict[int, str], {"x": "a"}, "the key 'x' of it must be integer"),
        (list[dict[Colour, int]], [{"green": 1}], "the key 'green' of it[0] must be one of 'red', 'blue'"),
        (dict[date, int], {"x": 1}, "the key 'x' of it must be a text that is a date"),
        (Annotated[dict[str, int], msgspec.Meta(min_length=1)], {}, "it must have at least 1 keys"),
        (Annotated[int, msgspec.Meta(multiple_of=5)], 6, "it must be a multiple of 5"),
        (Annotated[float, msgspec.Meta(multiple_of=0.5)], 0.7, "it must be a multiple of 0.5"),
        (
            Annotated[datetime, msgspec.Meta(tz=True)],
            "2026-01-05T10:00:00",
            "it must be a text that is a date-time with a time zone",
        ),
        (Annotated[bytes, msgspec.Meta(max_length=3)], "YWJjZA==", "it must have at most 3 bytes"),
        (Rights, 8, "it must be a sum of [1, 2, 4]"),
        (Strict, 2, "it must be a sum of [1, 4]"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_does_not_fit_is_told(annotation: Any, value: object, what: str) -> None:
    assert wrong(value, schema_of(annotation)) == what


def test_two_classes_of_one_name_are_told_apart() -> None:
    other = msgspec.defstruct("Decision", [("amount", int)])
    schema = schema_of(tuple[Decision, other])  # type: ignore[valid-type]
    assert wrong([{"approved": True}, {"amount": 3}], schema) is None
    assert wrong([{"amount": 3}, {"amount": 3}], schema) == "it[0] lacks 'approved'"


def test_an_answer_is_refused_with_the_gate_and_what_was_wrong() -> None:
    spec = GateSpec("approval", schema_of(Decision))
    with pytest.raises(BadPayload, match="the gate 'approval' does not take 'yes': it must be object"):
        check_answer(spec, "yes")
    check_answer(spec, {"approved": True})
    check_answer(GateSpec("anything"), "yes")
