"""Whether a result can be an argument, as far as annotations tell: refused only where no value would ever fit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.model.codec.fitting import fits, in_code
from ramify.model.codec.wire import Wire


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int


class Page(TypedDict):
    title: str


@dataclass
class Order:
    number: int


class Row(msgspec.Struct):
    number: int


class Packed(msgspec.Struct, array_like=True):
    number: int


class Strange:
    """Nothing is known of it."""


UserId = NewType("UserId", int)


@pytest.mark.parametrize(
    ("result", "parameter"),
    [
        (int, int), (int, float), (float, int), (str, Path), (Path, str), (date, str), (str, date), (UUID, str),
        (int, Any), (Any, int), (Strange, int), (int, Strange), (int, int | None), (int | None, int), (None, None),
        (None, int | None), (list[int], list[int]), (list[int], list[float]), (list[int], tuple[int, ...]),
        (set[str], list[Path]), (list[int], tuple[int, str]), (list[Any], list[int]), (list, list[int]),
        (Point, list[int]), (Packed, list[int]), (dict[str, int], Page), (Page, dict[str, Any]), (Order, Row),
        (Row, dict[str, int]), (Colour, str), (str, Colour), (Level, int), (UserId, int), (int, UserId),
        (Literal["a", "b"], str), (str, Literal["a"]), (Annotated[int, "x"], int), (Decimal, str), (Decimal, float),
        (timedelta, str), (datetime, date), (list[int] | str, str), (bool, bool | int),
    ],
    ids=str,
)  # fmt: skip
def test_what_may_fit_is_taken(result: Any, parameter: Any) -> None:
    assert fits(result, parameter)


@pytest.mark.parametrize(
    ("result", "parameter"),
    [
        (int, str), (str, int), (int, bool), (bool, int), (None, int), (int, None), (list[int], int), (int, list[int]),
        (list[int], list[str]), (list[list[int]], list[list[str]]), (set[str], list[int]), (dict[str, int], list[int]),
        (Order, str), (Row, list[int]), (Packed, dict[str, int]), (Colour, int), (Level, str), (UserId, str),
        (Literal["a"], int), (Annotated[int, "x"], str), (date, int), (int | None, str), (Path, int),
    ],
    ids=str,
)  # fmt: skip
def test_what_never_fits_is_refused(result: Any, parameter: Any) -> None:
    assert not fits(result, parameter)


SORTS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1), float: st.floats(allow_nan=False, allow_infinity=False), str: st.text(),
    bool: st.booleans(), None: st.none(), list[int]: st.lists(st.integers(0, 9), min_size=1),
    list[str]: st.lists(st.text(), min_size=1), dict[str, int]: st.dictionaries(st.text(), st.integers(0, 9)),
    date: st.dates(), UUID: st.uuids(), timedelta: st.timedeltas(), Decimal: st.decimals(allow_nan=False),
    int | None: st.none() | st.integers(0, 9), Order: st.builds(Order, st.integers(0, 9)), Path: st.just(Path("a/b")),
}  # fmt: skip


@given(
    st.sampled_from(list(SORTS)).flatmap(lambda sort: st.tuples(st.just(sort), SORTS[sort])),
    st.sampled_from(list(SORTS)),
)
def test_a_value_that_can_be_read_was_not_refused(made: tuple[Any, Any], parameter: Any) -> None:
    sort, value = made
    try:
        Wire(parameter).read(Wire(sort).seal(value))
    except Exception:  # noqa: BLE001  it does not fit, whatever was said
        return
    assert fits(sort, parameter)


def test_annotations_are_shown_as_they_are_written() -> None:
    assert [in_code(each) for each in (int, list[int], int | None, Any, Order)] == [
        "int", "list[int]", "int | None", "Any", "Order",
    ]  # fmt: skip
