"""What the codec takes comes back equal: by type, by the spelling of the call, across a change of the function."""

import dataclasses
import datetime as dt
import decimal
import enum
import os
import pathlib
import subprocess
import sys
import typing
import uuid
import zoneinfo
from collections import Counter, OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Generic, Literal, NamedTuple, NewType, NoReturn, TypedDict, TypeVar, Unpack

import msgspec
import pydantic
import pytest

from ramify.errors import BadPayload, ConfigError
from ramify.model.codec import Signature

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Number(enum.Enum):
    ONE = 1


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


def taking(annotation: Any) -> Signature:
    """A function of one parameter `x` with this annotation, which is also that of its result."""

    def handler(x: Any) -> Any: ...

    handler.__annotations__ = {"x": annotation, "return": annotation}
    return Signature.of(handler)


def there_and_back(signature: Signature, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return signature.decode(signature.encode(args, kwargs))


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
    (Colour, Colour.RED),
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


def test_equal_calls_have_one_payload_however_they_are_spelled() -> None:
    def move(source: str, target: str, *, force: bool = False) -> None: ...

    signature = Signature.of(move)
    spellings = [
        signature.encode(("a", "b"), {}),
        signature.encode(("a",), {"target": "b"}),
        signature.encode((), {"target": "b", "source": "a"}),
    ]
    assert spellings == [b'["a","b"]'] * 3
    assert signature.encode(("a", "b"), {"force": True}) == b'{"source":"a","target":"b","force":true}'


def test_every_kind_of_parameter_comes_back_in_its_place() -> None:
    def f(a: int, /, b: int, c: pathlib.Path = pathlib.Path(), *rest: int, d: str = "d", **more: float) -> None: ...

    signature = Signature.of(f)
    path = pathlib.Path("\udcff")
    assert there_and_back(signature, 1, 2) == ((1, 2, pathlib.Path()), {})
    assert there_and_back(signature, 1, b=2, c=path) == ((1, 2, path), {})
    assert there_and_back(signature, 1, 2, path, 4, 5, d="x") == ((1, 2, path, 4, 5), {"d": "x"})
    assert there_and_back(signature, 1, 2, d="x") == ((1, 2), {"d": "x"})
    assert there_and_back(signature, 1, 2, a=1.5, e=2) == ((1, 2), {"a": 1.5, "e": 2.0})


def test_a_gap_before_a_keyword_leaves_the_default_to_the_function() -> None:
    def f(a: int, b: int = 2, c: int = 3) -> None: ...

    assert there_and_back(Signature.of(f), 1, c=4) == ((1,), {"c": 4})


def test_a_function_with_only_star_args_or_nothing_works() -> None:
    def f(*names: str) -> None: ...
    def g() -> None: ...

    assert there_and_back(Signature.of(f), "a", "b") == (("a", "b"), {})
    assert there_and_back(Signature.of(f)) == ((), {})
    assert Signature.of(g).encode((), {}) == b"[]"
    assert there_and_back(Signature.of(g)) == ((), {})


def test_keywords_typed_by_a_typed_dict_are_typed_one_by_one() -> None:
    def f(**row: Unpack[Row]) -> None: ...

    assert there_and_back(Signature.of(f), name="a", size=1) == ((), {"name": "a", "size": 1})
    with pytest.raises(BadPayload, match="size"):
        Signature.of(f).encode((), {"size": "a"})


def test_a_default_is_the_functions_own_object_and_is_not_stored() -> None:
    shared: list[int] = []
    unstorable = object()

    def f(a: int, b: list[int] = shared, c: Any = unstorable) -> None: ...

    signature = Signature.of(f)
    assert signature.encode((1,), {}) == b"[1]"
    (_, b, c), _ = signature.decode(b"[1]")
    assert b is shared
    assert c is unstorable


def test_a_parameter_with_a_default_can_be_added_while_calls_wait() -> None:
    def before(a: int, *, k: int = 0) -> None: ...
    def after(a: int, b: str = "new", *, k: int = 0, m: int = 1) -> None: ...

    old, new = Signature.of(before), Signature.of(after)
    assert new.decode(old.encode((1,), {})) == ((1, "new"), {})
    assert new.decode(old.encode((1,), {"k": 5})) == ((1,), {"k": 5})


def test_the_fast_path_says_when_a_payload_needs_keywords() -> None:
    def f(a: str, *, b: int = 0) -> None: ...

    signature = Signature.of(f)
    assert signature.decode_positional(signature.encode_positional(("x",))) == ("x",)
    assert signature.decode_positional(signature.encode_positional(("\udcff",))) == ("\udcff",)
    assert signature.decode_positional(signature.encode(("x",), {"b": 1})) is None
    assert signature.decode_positional(signature.encode(("\udcff",), {"b": 1})) is None


def test_a_required_keyword_cannot_be_forgotten_on_the_fast_path() -> None:
    def f(a: int, *, b: int) -> None: ...

    with pytest.raises(BadPayload, match=r"f\(\): missing a required.* argument: 'b'"):
        Signature.of(f).encode_positional((1,))


def test_the_identity_of_a_call_does_not_depend_on_the_order_of_dicts_and_sets() -> None:
    def f(tags: set[str], by: dict[int, Any], more: Any = None, *, key: str = "") -> None: ...

    signature = Signature.of(f)
    payload, same = b'[["a","b"],{"1":{"x":1,"y":2},"2":3}]', b'[["b","a"],{"2":3,"1":{"y":2,"x":1}}]'
    assert signature.decode(payload) == signature.decode(same)
    assert signature.identity(payload) == signature.identity(same)


def test_different_calls_have_different_identities() -> None:
    def f(a: Any, b: Any = None, *rest: Any, c: Any = None) -> None: ...

    signature = Signature.of(f)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (([["x", 1]],), {}),
        (({"x": 1},), {}),
        (({"": [["x", 1]]},), {}),
        (({"x": 1.0},), {}),
        (({"x": True},), {}),
        (({"x": 1}, None), {}),
        (({"x": 1}, "\udcff"), {}),
        (({"x": 1}, "~dcff"), {}),
        (([{"x": 1}], {"c": 2}), {}),
        (({"x": 1},), {"c": 2}),
        (({"args": [{"x": 1}], "kwargs": {"c": 2}},), {}),
        (({"x": 1}, 2, 3), {}),
        (({"x": 1}, 2), {}),
    ]
    identities = {signature.identity(signature.encode(args, kwargs)) for args, kwargs in calls}
    assert len(identities) == len(calls)


def test_the_identity_of_a_set_is_the_same_in_every_process() -> None:
    program = (
        "from ramify.model.codec import Signature\n"
        "def f(tags: set[frozenset[str]]): ...\n"
        "s = Signature.of(f)\n"
        "p = s.encode(({frozenset('ab'), frozenset('cde'), frozenset('fg')},), {})\n"
        "print(p, s.identity(p), sep='|')"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            check=True,
        ).stdout.split(b"|")
        for hash_seed in range(1, 5)
    ]
    assert len({payload for payload, _ in outputs}) > 1
    assert len({identity for _, identity in outputs}) == 1


def test_strings_and_numbers_are_their_own_identity() -> None:
    def f(a: str, b: int) -> None: ...

    payload = Signature.of(f).encode(("a", 1), {})
    assert Signature.of(f).identity(payload) is payload


def result_of(fn: Callable[..., Any]) -> Any:
    return Signature.of(fn)._result.annotation


def test_the_result_of_a_handler_is_what_it_returns_in_the_end() -> None:
    def generator() -> Generator[str, None, int]:
        yield "child"
        return 1

    def iterator() -> Iterator[str]:
        yield "child"

    def iterable() -> Iterable[str]:
        yield "child"

    def delegating() -> Generator[str, None, int]:
        return generator()

    def bare() -> typing.Generator:  # type: ignore[type-arg]
        yield "child"

    async def coroutine() -> int:
        return 1

    async def stream() -> AsyncIterator[str]:
        yield "child"

    def awaitable() -> Awaitable[int]:
        return coroutine()

    async def numbers() -> list[int]:
        return [1]

    def started() -> Coroutine[Any, Any, list[int]]:
        return numbers()

    def never() -> NoReturn:
        raise SystemExit

    def unannotated():  # type: ignore[no-untyped-def]
        ...

    assert [result_of(fn) for fn in (generator, delegating, coroutine, awaitable)] == [int] * 4
    assert [result_of(fn) for fn in (iterator, iterable, never)] == [None] * 3
    assert [result_of(fn) for fn in (bare, stream, unannotated)] == [Any] * 3
    assert result_of(started) == list[int]


def test_none_is_stored_as_no_bytes_whatever_the_annotation() -> None:
    signature = taking(int)
    assert signature.encode_result(None) is None
    assert signature.decode_result(None) is None


@pytest.mark.parametrize("annotation", [str | pathlib.Path, dt.datetime | str, Page | Silent, Number | int], ids=ids)
def test_an_annotation_that_json_cannot_tell_apart_is_refused_at_decoration(annotation: Any) -> None:
    with pytest.raises(ConfigError, match=r"handler\(\): `x` cannot be stored as it is annotated"):
        taking(annotation)


@pytest.mark.parametrize("annotation", [os.PathLike, Iterable[int], Signature, type], ids=ids)
def test_an_annotation_that_nothing_can_be_made_of_is_refused_at_decoration(annotation: Any) -> None:
    with pytest.raises(ConfigError, match=r"handler\(\): `x` is annotated .*which cannot be stored"):
        taking(annotation)


def test_an_optional_parameter_of_such_a_type_is_only_refused_when_it_is_given() -> None:
    def f(a: int, client: Signature | None = None, other: Signature = ...) -> None: ...

    signature = Signature.of(f)
    assert there_and_back(signature, 1) == ((1, None, ...), {})
    with pytest.raises(BadPayload, match="`client` is a Signature, which cannot be stored"):
        signature.encode((1, signature), {})


def test_an_annotation_that_cannot_be_resolved_is_refused_with_its_name() -> None:
    def f(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match=r"f\(\): .*Nowhere.*TYPE_CHECKING"):
        Signature.of(f)
