"""What would not come back equal is refused at once, with the parameter, what is wrong and what to do."""

import dataclasses
import datetime as dt
import decimal
import enum
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from ramify.errors import BadPayload, RamifyError
from ramify.model.codec import Signature
from tests.model.handlers import refusal, taking


class Plain(enum.Enum):
    LOW = 1


class Row(TypedDict):
    name: str


@dataclasses.dataclass
class Page:
    url: str
    links: Any = None


@dataclasses.dataclass
class Draft(Page):
    note: str = ""


class Model(pydantic.BaseModel):
    number: float
    extra: Any = None


class Secretive(pydantic.BaseModel):
    password: pydantic.SecretStr


class Broken(pydantic.BaseModel):
    number: int = 1

    @pydantic.model_serializer
    def dump(self) -> dict[str, Any]:
        raise RuntimeError("the dump is broken")


class Quarrelsome(pydantic.BaseModel):
    number: int = 1

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("no comparing")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot be said")


class Mute(pydantic.BaseModel):
    def __eq__(self, other: object) -> bool:
        raise Unspeakable

    def __repr__(self) -> str:
        raise ValueError("cannot be shown")


class Mangled(pydantic.BaseModel):
    """Does not come back, and cannot be shown."""

    number: int = 1

    def __eq__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        raise ValueError("cannot be shown")


NAN = float("nan")


@pytest.mark.parametrize(
    ("annotation", "value", "place"),
    [
        (Any, {1: "a"}, "`x` has the key 1 (an int)"),
        (dict, {"a": {None: 1}}, "`x['a']` has the key None (None)"),
        (dict[str, int], {1: 1}, "does not fit|has the key 1"),
        (Any, [None, {(1, 2): 1}], "`x[1]` has the key (1, 2) (a tuple)"),
        (Any, {True: 1}, "`x` has the key True (a bool)"),
        (dict[bool, int], {True: 1}, "`x"),
        (Any, {1: "a", "1": "b"}, "`x` has the key 1"),
        (Page, Page("", links={1.5: 1}), "`x.links` has the key 1.5"),
    ],
)
def test_keys_that_would_come_back_as_strings_are_refused(annotation: Any, value: Any, place: str) -> None:
    text = refusal(annotation, value)
    assert any(part in text for part in place.split("|"))


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ((1, 2), "a tuple and would come back as a list"),
        ([(1, 2)], "a tuple and would come back as a list"),
        ({1, 2}, "a set and would come back as a list"),
        (Page("u"), "a Page and would come back as a dict"),
        (Path("a"), "a PosixPath and would come back as a str"),
        (Plain.LOW, "a Plain and would come back as an int"),
        (b"a", "a bytes and would come back as a str"),
        (dt.date(2026, 1, 1), "a date and would come back as a str"),
        (decimal.Decimal(1), "a Decimal and would come back as a str"),
        (Model(number=1), "a Model and would come back as a dict"),
    ],
)
@pytest.mark.parametrize("annotation", [Any, object])
def test_without_an_annotation_only_json_values_are_taken(annotation: Any, value: Any, kinds: str) -> None:
    text = refusal(annotation, value)
    assert kinds in text
    assert "Annotate it with its type" in text


@pytest.mark.parametrize(
    ("annotation", "value", "place"),
    [
        (int, "3", "`x`: expected int, got a str"),
        (int, True, "`x`: expected int, got a bool"),
        (int, 1.0, "`x`: expected int, got a float"),
        (bool, 1, "`x`: expected bool, got an int"),
        (str, 3, "`x`: expected str, got an int"),
        (str, b"ab", "a bytes and would come back as a str"),
        (list[int], (1, 2), "a tuple and would come back as a list"),
        (list[int], [1, "a"], "at `x[1]`"),
        (list[str], ["a", None], "at `x[1]`"),
        (dict[str, int], {"a": "b"}, "at `x[...]`"),
        (dict[str, int], [1], ": expected dict[str, int], got a list"),
        (float, 2**60 + 1, "`x` is a"),
        (int, Plain.LOW, "a Plain and would come back as an int"),
        (Literal["a"], "b", "got a str: Invalid enum value 'b'"),
        (Literal["a"], "\udcff", "`x`"),
        (Annotated[int, msgspec.Meta(gt=3)], 2, "got an int: Expected `int` >= 4"),
        (Row, {"name": "a", "size": 1}, "would come back without 'size'"),
        (Row, {}, "missing required field `name`"),
        (Page, Draft("u", note="n"), "a Draft and would come back as a Page"),
        (Page, {"url": "u"}, "a dict and would come back as a Page"),
        (Path, "a", "a str and would come back as a PosixPath"),
        (Secretive, Secretive(password=pydantic.SecretStr("a")), "`x`"),
        (dt.datetime, dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=30))), "not equal"),
    ],
)
def test_what_does_not_fit_its_annotation_is_refused(annotation: Any, value: Any, place: str) -> None:
    assert place in refusal(annotation, value)


@pytest.mark.parametrize("value", [lambda: 1, object(), range(3), 1j, int, Ellipsis, NotImplemented, iter([])])
@pytest.mark.parametrize("annotation", [Any, int, list[str]])
def test_a_value_of_an_unknown_type_is_refused(annotation: Any, value: Any) -> None:
    assert f"{type(value).__name__}, which cannot be stored" in refusal(annotation, value)
    if annotation is Any:
        assert "`x['a'][0]` is a" in refusal(annotation, {"a": [value]})


def test_a_socket_is_refused() -> None:
    with socket.socket() as open_socket:
        assert "`x[1]` is a socket, which cannot be stored" in refusal(list[Any], [1, open_socket])


def test_an_exception_in_the_users_own_types_is_named_and_kept() -> None:
    for value, name in ((Broken(), "the dump is broken"), (Quarrelsome(), "ZeroDivisionError: no comparing")):
        signature = taking(type(value))
        with pytest.raises(BadPayload, match=rf"`x` cannot be stored: .*{name}") as caught:
            signature.encode((value,), {})
        assert caught.value.__cause__ is not None


def test_types_that_cannot_be_shown_do_not_break_the_refusal() -> None:
    assert refusal(Mute, Mute()) == "handler(): `x` cannot be stored: Unspeakable"
    with pytest.raises(BadPayload, match=r"handler\(\): `x` is <Mangled .*> and would come back as <Mangled .*>"):
        taking(Mangled).encode((Mangled(),), {})


def test_none_is_an_argument_only_where_it_is_annotated() -> None:
    with pytest.raises(BadPayload, match="`x`: expected int, got None"):
        taking(int).encode((None,), {})


def test_the_wrong_arguments_are_refused_with_the_name_of_the_function() -> None:
    def fetch(url: str, depth: int = 0) -> None: ...

    signature = Signature.of(fetch)
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((), {}, r"fetch\(\): missing a required argument: 'url'. It takes \(url, depth\)"),
        (("a", 1, 2), {}, r"fetch\(\): too many positional arguments"),
        (("a",), {"dept": 1}, r"fetch\(\): got an unexpected keyword argument 'dept'"),
        (("a",), {"url": "b"}, r"fetch\(\): multiple values for argument 'url'"),
    ]
    for args, kwargs, text in cases:
        with pytest.raises(BadPayload, match=text):
            signature.encode(args, kwargs)


def test_a_positional_only_parameter_is_not_taken_by_name() -> None:
    def f(a: int, /) -> None: ...

    with pytest.raises(BadPayload, match=r"f\(\): .*positional"):
        Signature.of(f).encode((), {"a": 1})


def test_the_refused_parameter_is_named_among_good_ones() -> None:
    def f(a: dict[Path, int], b: str, *rest: int, c: float = 0.0, **more: list[int]) -> None: ...

    signature = Signature.of(f)
    good = {Path("\udcff"): 1}
    with pytest.raises(BadPayload, match=r"f\(\): `b`: expected str, got an int"):
        signature.encode((good, 1), {})
    with pytest.raises(BadPayload, match=r"`rest`: expected .*at `rest\[1\]`"):
        signature.encode((good, "", 1, "a"), {})
    with pytest.raises(BadPayload, match=r"`c` is nan"):
        signature.encode((good, ""), {"c": NAN})
    with pytest.raises(BadPayload, match=r"`more\['z'\]\[0\]` is an integer beyond 64 bits"):
        signature.encode((good, ""), {"z": [2**63]})


def test_a_refusal_is_both_a_ramify_error_and_a_type_error() -> None:
    assert issubclass(BadPayload, RamifyError)
    assert issubclass(BadPayload, TypeError)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'["a","b"]', "Expected `int`, got `str` - at `b`"),
        (b"[]", "length"),
        (b'["a",1,2]', "length"),
        (b'{"a":"x"}', "missing required field `b`"),
        (b'{"a":"x","b":1,"z":1}', "unknown field `z`"),
        (b'{"~":["a","b"]}', "Expected `int`, got `str` - at `b`"),
        (b'{"~":{"a":"x","b":1,"z":1}}', "unknown field `z`"),
        (b'{"~', ""),
        (b'{"~x":1,"y":2}', ""),
        (b"", ""),
        (b"\xff\x00", ""),
        (b'["\xff",1]', ""),
        (b"3", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_a_stored_call_that_does_not_fit_is_refused(payload: bytes, text: str) -> None:
    def f(a: str, b: int, *, c: int = 0) -> None: ...

    with pytest.raises(BadPayload, match=r"f\(\): its stored call does not fit the function") as caught:
        Signature.of(f).decode(payload)
    assert text in str(caught.value)


def test_a_stored_call_with_more_arguments_than_the_function_takes_is_refused() -> None:
    def f(a: str, b: int = 0) -> None: ...

    for payload in (b'["a",1,2]', b'{"~":["a",1,2]}'):
        with pytest.raises(BadPayload, match=r"f\(\): its stored call does not fit the function"):
            Signature.of(f).decode(payload)


def test_a_stored_result_that_does_not_fit_is_refused() -> None:
    for raw in (b'"a"', b"", b"{", b'{"~":"\\ud800"}', b'{"~":"a"}'):
        with pytest.raises(BadPayload, match=r"handler\(\): its stored result does not fit"):
            taking(int).decode_result(raw)
