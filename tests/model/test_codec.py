"""What the codec takes comes back equal: by type, by the spelling of the call, across a change of the function."""

import dataclasses
import datetime as dt
import decimal
import enum
import os
import pathlib
import uuid
import zoneinfo
from collections import Counter, OrderedDict
from collections.abc import (
    Mapping,
    Sequence,
)
from typing import Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from tests.model.handlers import taking, there_and_back

T = TypeVar("T")


class Calling(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Page:
    path: pathlib.Path
    tags: frozenset[str] = frozenset()
    parent: "Page | None" = None


@dataclasses.dataclass(eq=False)
class Silent:
    """Says of no other object that it is equal."""

    number: int
    inner: "list[Silent]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Row(TypedDict, total=False):
    name: str
    size: int


class Tree(msgspec.Struct):
    name: str
    below: "list[Tree]" = []


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(alias="orderNumber")
    when: dt.datetime
    folder: pathlib.Path
    sizes: set[int]

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"order {self.number}"


class Url(str):
    """A subclass of str with nothing added."""


class Amount(int):
    """A subclass of int with nothing added."""


class Ratio(float):
    """A subclass of float with nothing added, as numpy has them."""


UserId = NewType("UserId", int)
PARIS = zoneinfo.ZoneInfo("Europe/Paris")
ORDER = Order(orderNumber=7, when=dt.datetime(2026, 1, 2, tzinfo=dt.UTC), folder=pathlib.Path("a/b"), sizes={3, 4})


ROUND_TRIPS = [
    (str, ""),
    (str, "\x00"),
    (str, "\ufeffbom \u202ebidi \U0001f600 e\u0301 \xe9 \x1b]52; \r\n"),
    (str, "\udcff"),
    (str, "~dcff"),
    (str, "~~ \udcff ~dcff ~007e"),
    (str, "\ud83d\ude00"),
    (int, 2**63 - 1),
    (int, -(2**63)),
    (int, 2**53 + 1),
    (bool, True),
    (None, None),
    (float, 1e308),
    (float, 5e-324),
    (float, 1),
    (bytes, bytes(range(256))),
    (list[str], []),
    (list[str], ["a", "\udcff"]),
    (list[float], [1.5, 2]),
    (list[int | None], [1, None, 2**63 - 1]),
    (list[list[int]], [[1], [], [2, 3]]),
    (dict[str, int], {"": 0, "\x00": 1, "\udc80": 2, "~": 3}),
    (dict[str, list[str]], {"a": ["b"]}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[float, str], {1.5: "a"}),
    (dict[uuid.UUID, int], {uuid.UUID(int=5): 1}),
    (dict[pathlib.Path, int], {pathlib.Path("/a/\udcff"): 1}),
    (dict[pathlib.Path, pathlib.Path], {pathlib.Path("/a"): pathlib.Path("\udcff")}),
    (dict[str, dict[pathlib.Path, int]], {"\udcff": {pathlib.Path("1"): 1}, "~k": {}}),
    (Box[dict[pathlib.Path, dict[int, str]]], Box({pathlib.Path("\udcff"): {1: "~k"}})),
    (dict[Mode, int], {Mode.FAST: 1}),
    (dict, {"a": [1, {"b": None}]}),
    (dict, {"~": ["looks", "escaped"]}),
    (dict[str, Any], {"~": "~dcff"}),
    (list, [1, "a", [True, None, 1.5]]),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (set[int], {3, 1, 2}),
    (frozenset[tuple[int, str]], frozenset({(1, "a")})),
    (Sequence[int], [1, 2]),
    (Mapping[str, int], {"a": 1}),
    (int | str, "3"),
    (int | str | None, None),
    (int | float, 1.0),
    (Literal["a", 3], 3),
    (Calling, Calling.RED),
    (Level, Level.LOW),
    (Mode, Mode.FAST),
    (Access, Access.READ | Access.WRITE),
    (dt.datetime, dt.datetime(2026, 2, 3, 4, 5, 6, 789)),
    (dt.datetime, dt.datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=PARIS)),
    (dt.datetime, dt.datetime(2025, 10, 26, 2, 30, tzinfo=PARIS, fold=1)),
    (dt.date, dt.date(1, 1, 1)),
    (dt.time, dt.time(1, 2, 3, 4, tzinfo=dt.UTC)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=3)),
    (uuid.UUID, uuid.UUID(int=2**127)),
    (decimal.Decimal, decimal.Decimal("1.10")),
    (decimal.Decimal, decimal.Decimal(2**70)),
    (pathlib.Path, pathlib.Path("/a/b")),
    (pathlib.Path, pathlib.Path(os.fsdecode(b"/caf\xe9/~x"))),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("a")),
    (pathlib.PureWindowsPath, pathlib.PureWindowsPath("c:\\a")),
    (pathlib.Path | None, pathlib.Path("a")),
    (list[pathlib.Path], [pathlib.Path("a")]),
    (Page, Page(pathlib.Path("\udcff"), frozenset({"~", "\ud800"}), Page(pathlib.Path("up")))),
    (Silent, Silent(1, [Silent(2)])),
    (Box[int], Box(1)),
    (Box[pathlib.Path], Box(pathlib.Path("a"))),
    (Point, Point(1)),
    (Row, {"name": "a"}),
    (Tree, Tree("a", [Tree("b")])),
    (Order, ORDER),
    (list[Order], [ORDER]),
    (Order | None, None),
    (str, Url("https://x")),
    (Url, Url("https://x")),
    (int, Amount(5)),
    (float, Ratio(0.1)),
    (Ratio, Ratio(0.1)),
    (Amount, Amount(5)),
    (str, Mode.FAST),
    (dict[str, int], OrderedDict(b=1, a=2)),
    (dict[str, int], Counter("abca")),
    (UserId, UserId(5)),
    (object, [1, {"a": "\udcff"}]),
    (Any, {"a": [1, 2.5, "x", None, True, {"b": []}]}),
]


def ids(case: object) -> str:
    return ascii(case)[:40]


@pytest.mark.parametrize(("annotation", "value"), ROUND_TRIPS, ids=ids)
def test_an_argument_comes_back_equal(annotation: Any, value: Any) -> None:
    (back,), kwargs = there_and_back(taking(annotation), value)
    assert kwargs == {}
    if isinstance(value, Silent):
        assert isinstance(back, Silent)
        assert (back.number, back.inner[0].number) == (1, 2)
    elif isinstance(value, dt.datetime):
        assert back.isoformat() == value.isoformat()
    else:
        assert back == value


@pytest.mark.parametrize(("annotation", "value"), ROUND_TRIPS, ids=ids)
def test_a_result_comes_back_as_an_argument_does(annotation: Any, value: Any) -> None:
    signature = taking(annotation)
    raw = signature.encode_result(value)
    assert (raw is None) == (value is None)
    (argument,), _ = there_and_back(signature, value)
    back = signature.decode_result(raw)
    assert back == argument or isinstance(back, Silent)


def test_bool_int_and_float_are_kept_apart() -> None:
    (back,), _ = there_and_back(taking(Any), [1, 1.0, True, 0, False, None])
    assert list(map(type, back)) == [int, float, bool, int, bool, type(None)]


def test_the_sign_of_zero_is_kept() -> None:
    (back,), _ = there_and_back(taking(float), -0.0)
    assert str(back) == "-0.0"


def test_an_int_for_a_float_comes_back_as_the_float() -> None:
    (back,), _ = there_and_back(taking(float), 1)
    assert (back, type(back)) == (1.0, float)


def test_an_int_for_an_int_enum_comes_back_as_its_member() -> None:
    (back,), _ = there_and_back(taking(Level), 1)
    assert back is Level.LOW


def test_the_order_of_a_dict_is_kept() -> None:
    (back,), _ = there_and_back(taking(dict[str, int]), {"b": 1, "a": 2})
    assert list(back) == ["b", "a"]


def test_only_lone_surrogates_bring_the_escaped_form() -> None:
    signature = taking(str)
    assert signature.encode(("~dcff \x00",), {}) == b'["~dcff \\u0000"]'
    assert signature.encode(("~\udcff",), {}) == b'{"~":["~007e~dcff"]}'


def test_a_result_that_looks_like_the_escaped_form_is_not_taken_for_it() -> None:
    signature = taking(dict[str, Any])
    for value in ({"~": "~0041"}, {"~": ["~0041"], "b": 1}, {"~": {"~": "\udcff"}}):
        assert signature.decode_result(signature.encode_result(value)) == value
    proven = taking(dict[str, int])
    assert proven.decode_result(proven.encode_result({"~": 1})) == {"~": 1}
