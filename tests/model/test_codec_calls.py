"""Calls: how they are spelled, what a function's signature says, and what happens when it changes."""

import dataclasses
import datetime as dt
import enum
import os
import pathlib
import subprocess
import sys
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, NoReturn, TypedDict, Unpack

import pytest

from ramify.errors import BadPayload, ConfigError
from ramify.model.codec import Signature
from tests.model.handlers import taking, there_and_back


class Number(enum.Enum):
    ONE = 1


class Row(TypedDict, total=False):
    name: str
    size: int


@dataclasses.dataclass
class Page:
    path: pathlib.Path


@dataclasses.dataclass
class Draft:
    path: pathlib.Path


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
        "from ramify.model.codec.signature import Signature\n"
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


@pytest.mark.parametrize("annotation", [str | pathlib.Path, dt.datetime | str, Page | Draft, Number | int])
def test_an_annotation_that_json_cannot_tell_apart_is_refused_at_decoration(annotation: Any) -> None:
    with pytest.raises(ConfigError, match=r"handler\(\): `x` cannot be stored as it is annotated"):
        taking(annotation)


@pytest.mark.parametrize("annotation", [os.PathLike, Iterable[int], Signature, type])
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
