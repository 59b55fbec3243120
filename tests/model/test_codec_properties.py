"""Properties of the codec over generated values: equal or refused, the same by every way, and no other exception."""

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable
from types import GenericAlias
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.errors import BadPayload
from ramify.model.codec import Signature
from ramify.model.codec.limits import INT_MAX, INT_MIN, MAX_DEPTH, breaks_limits, first_fault
from ramify.model.codec.wire import Wire, difference, write

#: A function of one parameter, its annotation, and a value or the strategy for one.
Case = tuple[Signature, Any, Any]


class Shade(enum.Enum):
    DARK = "~"
    LIGHT = "\x00"


@dataclasses.dataclass(frozen=True)
class Leaf:
    name: str
    path: pathlib.Path
    size: int | None = None


@dataclasses.dataclass
class Branch:
    leaves: list[Leaf]
    sizes: dict[str, float]
    extra: Any = None


characters = st.one_of(
    st.characters(), st.integers(0xD800, 0xDFFF).map(chr), st.sampled_from('~\x00{}[]"\\/dcff0019 keys\ufeff\u202e')
)
text = st.text(characters, max_size=20) | st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
integers = st.integers(INT_MIN, INT_MAX)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | numbers | text
json = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5), max_leaves=30
)
paths = text.map(lambda name: pathlib.Path(name.replace("\x00", "")))
leaves = st.builds(Leaf, text, paths, st.none() | integers)
moments = st.datetimes(timezones=st.none() | st.just(dt.UTC) | st.timezones())

TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, text),
    (int, integers),
    (float, numbers),
    (bool, st.booleans()),
    (int | None, st.none() | integers),
    (str | int, text | integers),
    (list[str], st.lists(text)),
    (list[int], st.lists(integers)),
    (list[float], st.lists(numbers)),
    (list[int | None], st.lists(st.none() | integers)),
    (list[list[int]], st.lists(st.lists(integers))),
    (dict[str, int], st.dictionaries(text, integers)),
    (dict[str, list[float]], st.dictionaries(text, st.lists(numbers))),
    (dict[int, str], st.dictionaries(integers, text)),
    (dict[pathlib.Path, str], st.dictionaries(paths, text)),
    (dict[str, Any], st.dictionaries(text, json)),
    (tuple[str, int], st.tuples(text, integers)),
    (tuple[float, ...], st.lists(numbers).map(tuple)),
    (set[str], st.sets(text)),
    (frozenset[int], st.frozensets(integers)),
    (bytes, st.binary()),
    (dt.date, st.dates()),
    (dt.time, st.times()),
    (dt.timedelta, st.timedeltas()),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(allow_nan=False)),
    (pathlib.Path, paths),
    (Shade, st.sampled_from(Shade)),
    (Leaf, leaves),
    (set[Leaf], st.sets(leaves, max_size=4)),
    (Branch, st.builds(Branch, st.lists(leaves, max_size=3), st.dictionaries(text, numbers, max_size=3), json)),
    (Any, json),
    (object, json),
]

anything = st.one_of(*(values for _, values in TYPED), moments, st.floats(), st.integers(), st.complex_numbers())
mixtures = st.recursive(
    anything,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(text | st.integers() | st.none() | st.floats(), inner, max_size=3)
    ),
    max_leaves=8,
)


def function(parameters: list[Any], required: int) -> Signature:
    """A function with these annotations, of which the first `required` have no default."""

    def one(a: Any) -> Any: ...
    def two(a: Any, b: Any) -> Any: ...
    def one_or_two(a: Any, b: Any = None) -> Any: ...

    fn = one if len(parameters) == 1 else (two if required == 2 else one_or_two)
    fn.__annotations__ = dict(zip("ab", parameters, strict=False)) | {"return": parameters[0]}
    return Signature.of(fn)


SIGNATURES = [(function([annotation], 1), annotation, values) for annotation, values in TYPED]
typed = st.sampled_from(SIGNATURES).flatmap(lambda case: st.tuples(st.just(case[0]), st.just(case[1]), case[2]))


def both_tiers(
    *strategies: st.SearchStrategy[Any], quick: int = 500
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a property with `quick` examples, and with 5,000 in the full tier."""

    def wrapped(check: Callable[..., None]) -> Callable[..., None]:
        def test(examples: int) -> None:
            settings(max_examples=examples)(given(*strategies)(check))()

        test.__name__ = test.__qualname__ = check.__name__
        return pytest.mark.parametrize("examples", [quick, pytest.param(5_000, marks=pytest.mark.full)])(test)

    return wrapped


@both_tiers(text)
def test_every_text_comes_back_the_same(value: str) -> None:
    signature = function([str], 1)
    assert signature.decode(signature.encode((value,), {})) == ((value,), {})
    assert signature.decode_result(signature.encode_result(value)) == value


@both_tiers(json)
def test_every_json_value_comes_back_the_same_without_an_annotation(value: Any) -> None:
    signature = function([Any], 1)
    (back,), _ = signature.decode(signature.encode((value,), {}))
    # The texts tell 1 from 1.0 and True, 0.0 from -0.0, and one order of keys from another.
    assert repr(back) == repr(value)
    assert repr(signature.decode_result(signature.encode_result(value))) == repr(value)


@both_tiers(typed)
def test_every_value_of_an_annotated_type_comes_back_equal(case: Case) -> None:
    signature, _, value = case
    payload = signature.encode((value,), {})
    (back,), _ = signature.decode(payload)
    assert back == value
    assert signature.decode_result(signature.encode_result(value)) == value
    assert signature.identity(signature.encode((back,), {})) == signature.identity(payload)


@both_tiers(st.sampled_from(SIGNATURES), mixtures)
def test_any_value_for_any_annotation_comes_back_equal_or_is_refused(case: Case, value: Any) -> None:
    signature, annotation, _ = case
    long_way = Wire(GenericAlias(tuple, (annotation,)), MAX_DEPTH + 1)
    try:
        payload = signature.encode((value,), {})
    except BadPayload as refusal:
        assert str(refusal).startswith("one(): `a")  # noqa: PT017  both ways out are checked
        with pytest.raises(Exception):  # noqa: B017  the long way refuses it too, each fault by its own exception
            long_way.seal((value,))
    else:
        assert payload == long_way.seal((value,))
        (back,), _ = signature.decode(payload)
        assert back == value or difference(value, back, "") is None


@both_tiers(typed, typed, st.booleans(), st.booleans())
def test_two_arguments_come_back_in_their_places_by_position_and_by_name(
    one: Case, other: Case, optional: bool, by_name: bool
) -> None:
    (_, first, a), (_, second, b) = one, other
    signature = function([first, second], 1 if optional else 2)
    payload = signature.encode((a,), {"b": b}) if by_name else signature.encode((a, b), {})
    assert payload == signature.encode((), {"b": b, "a": a})
    assert signature.decode(payload) == ((a, b), {})
    if optional:
        assert signature.decode(signature.encode((a,), {})) == ((a, None), {})


@both_tiers(st.sampled_from(SIGNATURES), st.binary(max_size=60) | (json | st.lists(json, max_size=2)).map(write))
def test_any_bytes_decode_or_are_refused(case: Case, raw: bytes) -> None:
    signature = case[0]
    for read in (signature.decode, signature.decode_result):
        try:
            read(raw)
        except BadPayload:
            continue


@both_tiers(
    st.recursive(json | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=20), st.integers(1, 70)
)
def test_what_decides_about_limits_and_what_words_it_agree(value: Any, levels: int) -> None:
    for _ in range(levels):
        value = [value]
    assert breaks_limits(value, MAX_DEPTH) == (first_fault(value, "x") is not None)
