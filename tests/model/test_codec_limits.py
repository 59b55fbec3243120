"""Limits, the same on every store: numbers, depth, self-reference and size."""

import dataclasses
import decimal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from ramify.errors import BadPayload
from ramify.model.codec import Signature
from ramify.model.codec.limits import MAX_BYTES
from tests.model.handlers import nested, refusal, taking


@dataclasses.dataclass
class Page:
    url: str
    links: Any = None


@dataclasses.dataclass
class Node:
    below: "Node | None" = None


class Model(pydantic.BaseModel):
    number: float
    extra: Any = None


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("annotation", "value", "place"),
    [
        (float, NAN, "`x` is nan"),
        (float, INF, "`x` is inf"),
        (Any, -INF, "`x` is -inf"),
        (float | None, NAN, "`x` is nan"),
        (list[float], [1.0, NAN], "`x[1]` is nan"),
        (list[float | None], [None, NAN], "`x[1]` is nan"),
        (dict[str, float], {"a": INF}, "`x['a']` is inf"),
        (Any, {"a": [{"b": NAN}]}, "`x['a'][0]['b']` is nan"),
        (dict[float, int], {NAN: 1}, "`x key nan` is nan"),
        (set[float], {NAN}, "`x{nan}` is nan"),
        (Page, Page("", links=[NAN]), "`x.links[0]` is nan"),
        (Model, Model(number=NAN), "`x['number']` is nan"),
        (decimal.Decimal, decimal.Decimal("NaN"), "`x` is a NaN"),
        (decimal.Decimal, decimal.Decimal("sNaN"), "`x` is a NaN"),
    ],
)
def test_nan_and_infinity_are_refused(annotation: Any, value: Any, place: str) -> None:
    assert place in refusal(annotation, value)


@pytest.mark.parametrize(
    ("annotation", "value", "place"),
    [
        (int, 2**63, "`x` is an integer beyond 64 bits"),
        (int, -(2**63) - 1, "`x` is an integer beyond 64 bits"),
        (int, 2**70, "`x` is an integer beyond 64 bits"),
        pytest.param(Any, 10**5000, "`x` is an integer beyond 64 bits", id="10**5000"),
        (int | None, 2**63, "`x` is an integer"),
        (list[int], [0, 2**63], "`x[1]` is an integer"),
        (list[int], [-(2**63) - 1], "`x[0]` is an integer"),
        (dict[str, int | None], {"a": 2**64}, "`x['a']` is an integer"),
        (dict[int, str], {2**64: "a"}, "`x key 18446744073709551616` is an integer"),
        (list, [[2**63]], "`x[0][0]` is an integer"),
        (tuple[int, ...], (1, 2**63), "`x[1]` is an integer"),
        (Page, Page("", links=2**63), "`x.links` is an integer"),
        (Model, Model(number=1, extra={"n": 2**63}), "`x['extra']['n']` is an integer"),
    ],
)
def test_integers_beyond_64_bits_are_refused(annotation: Any, value: Any, place: str) -> None:
    text = refusal(annotation, value)
    assert place in text
    assert "Pass it as a string" in text


def test_what_contains_itself_is_refused() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    loop: dict[str, Any] = {}
    loop["a"] = {"b": [loop]}
    node = Node()
    node.below = node
    assert "`x` contains itself (at `x[1]`)" in refusal(Any, ring)
    assert "`x` contains itself (at `x['a']['b'][0]`)" in refusal(dict, loop)
    assert "`x` contains itself (at `x.below`)" in refusal(Node, node)
    assert "`x` contains itself" in refusal(list[int], ring)
    ring.insert(0, object())
    assert "`x` contains itself" in refusal(Any, ring)


@pytest.mark.parametrize("annotation", [Any, list, list[Any], object])
def test_nesting_is_taken_to_64_levels_and_refused_beyond(annotation: Any) -> None:
    signature = taking(annotation)
    deep = nested(64)
    assert signature.decode(signature.encode((deep,), {})) == ((deep,), {})
    assert signature.decode_result(signature.encode_result(deep)) == deep
    assert "nested more than 64 levels" in refusal(annotation, nested(65))


def test_deep_nesting_among_many_shallow_parts_is_found() -> None:
    shallow = [[n] for n in range(100)]
    signature = taking(Any)
    value: Any = [shallow, nested(63)]
    assert signature.decode(signature.encode((value,), {})) == ((value,), {})
    assert "nested more than 64 levels" in refusal(Any, [shallow, nested(64)])
    assert "nested more than 64 levels" in refusal(Any, {"\udcff": nested(64)})


def test_nested_objects_count_as_levels() -> None:
    node = Node()
    for _ in range(63):
        node = Node(node)
    signature = taking(Node)
    assert signature.decode(signature.encode((node,), {})) == ((node,), {})
    assert "nested more than 64 levels" in refusal(Node, Node(node))


def test_keywords_and_positions_have_the_same_limit_of_depth() -> None:
    def f(a: int = 0, *, b: Any = None) -> None: ...

    signature = Signature.of(f)
    assert signature.decode(signature.encode((), {"b": nested(64)})) == ((), {"b": nested(64)})
    with pytest.raises(BadPayload, match="`b` is nested more than 64"):
        signature.encode((), {"b": nested(65)})


@pytest.mark.parametrize("annotation", [Any, list, list[list[int]], Node])
def test_a_hundred_thousand_levels_raise_no_recursion_error(annotation: Any) -> None:
    deep = nested(100_000)
    assert "nested more than 64 levels" in refusal(annotation, deep)
    while deep:  # else the interpreter frees it recursively, which older versions do not survive
        deep = deep.pop()


@contextmanager
def frames_left(count: int) -> Iterator[None]:
    before, depth = sys.getrecursionlimit(), 0
    frame: Any = sys._getframe()
    while frame:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + count)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_64_levels_need_no_deep_stack() -> None:
    signature = taking(Any)
    deep = nested(64)
    with frames_left(200):
        assert signature.decode(signature.encode((deep,), {})) == ((deep,), {})
        assert signature.decode(signature.encode(({"\udcff": deep[0]},), {})) == (({"\udcff": deep[0]},), {})


@pytest.mark.parametrize("annotation", [str, Any, str | None, Annotated[str, msgspec.Meta(min_length=1)]])
def test_a_payload_over_one_mebibyte_is_refused(annotation: Any) -> None:
    signature = taking(annotation)
    frame = len('[""]')
    for size in (MAX_BYTES - 1, MAX_BYTES):
        payload = signature.encode(("a" * (size - frame),), {})
        assert len(payload) == size
        assert signature.decode(payload) == (("a" * (size - frame),), {})
    with pytest.raises(BadPayload, match=r"`x` takes 1,048,575 bytes.*1,048,576 \(1 MiB\).*pass a reference"):
        signature.encode(("a" * (MAX_BYTES - frame + 1),), {})
    with pytest.raises(BadPayload, match=r"`x` takes 100,000,002 bytes"):
        signature.encode(("a" * 100_000_000,), {})


def test_a_result_over_one_mebibyte_is_refused() -> None:
    signature = taking(bytes)
    fits = b"a" * ((MAX_BYTES - 2) // 4 * 3)
    assert signature.decode_result(signature.encode_result(fits)) == fits
    with pytest.raises(BadPayload, match=r"`return value` takes .*1,048,576.* pass a reference to it$"):
        signature.encode_result(fits + b"aaaa")
    many = list(range(MAX_BYTES // 5))
    with pytest.raises(BadPayload, match=r"`return value` takes .*To map over its items, yield them one by one$"):
        taking(list[int]).encode_result(many)


def test_arguments_that_are_too_large_together_are_refused_by_the_largest() -> None:
    def f(a: str, b: str, *, c: str = "") -> None: ...

    signature = Signature.of(f)
    half = "a" * (MAX_BYTES // 2)
    with pytest.raises(BadPayload, match=r"`b` takes 524,297 bytes"):
        signature.encode((half, half + "1234567"), {})
    with pytest.raises(BadPayload, match=r"`a` takes 524,290 bytes"):
        signature.encode((half, ""), {"c": half[:-20]})


def test_escaping_that_makes_a_payload_too_large_is_refused() -> None:
    signature = taking(str)
    most = "\udcff" * ((MAX_BYTES - len('{"~":[""]}')) // 5)
    assert signature.decode(signature.encode((most,), {})) == ((most,), {})
    assert "1,048,576" in refusal(str, most + "\udcff\udcff")
