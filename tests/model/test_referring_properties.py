"""Calls that take results, by the short way and by the long one: the same bytes, the same arguments, the same words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ramify.errors import BadPayload
from ramify.model.codec import Signature
from ramify.model.codec.escape import has_slots, plainly_filled
from ramify.model.codec.wire import difference, write
from ramify.model.reference import Blank, Reference
from tests.model.test_codec_properties import TYPED, both_tiers, json, mixtures


def function(*annotations: Any) -> Signature:
    """A function of three parameters with these annotations, of which the last may be left out."""

    def three(a: Any, b: Any, c: Any = None) -> Any: ...

    three.__annotations__ = dict(zip("abc", annotations, strict=True))
    return Signature.of(three)


class Results:
    """The results of a call, by slot."""

    def __init__(self, results: Sequence[bytes | None]) -> None:
        self.results = results

    def result(self, slot: int) -> bytes | None:
        return self.results[slot]

    def stream(self, name: str, first: int, size: int | None) -> object:
        raise AssertionError(name)

    def gathered(self, name: str, slot: int) -> object:
        raise AssertionError(name)


Place = tuple[Any, st.SearchStrategy[Any]]
PLACES: list[tuple[Place, Place, Place]] = [
    (place, TYPED[(number + 7) % len(TYPED)], TYPED[(number + 19) % len(TYPED)]) for number, place in enumerate(TYPED)
]
#: Functions with the annotations of three places, and with a list of the last.
SIGNATURES = [
    (places, [function(first, second, third), function(first, second, list[third])])  # type: ignore[valid-type]
    for places in PLACES
    for (first, _), (second, _), (third, _) in [places]
]
#: Some that are the same, of every kind, of types that fit most parameters and of one that fits few.
references = st.builds(
    lambda kind, source, of: kind(source, of=of),
    st.sampled_from([Reference, Reference, Reference, Blank]),
    st.integers(0, 3),
    st.sampled_from([Any, int, list[int]]),
) | st.builds(lambda source: Reference(source, stream=True, size=2), st.integers(0, 1))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Signature, tuple[Any, ...]]:
    """A function, and arguments for it: references, values that fit, and others."""
    places, (signature, _) = draw(st.sampled_from(SIGNATURES))
    args = [draw(st.one_of(references, values, mixtures)) for _, values in places[: draw(st.integers(0, 3))]]
    return signature, tuple(args)


@both_tiers(calls(), quick=150)
def test_a_call_with_references_has_the_same_bytes_by_the_short_way(case: tuple[Signature, tuple[Any, ...]]) -> None:
    signature, args = case
    by_reference = signature._by_reference
    short = by_reference._sealed_at_once(args)
    if short is not None:
        long = by_reference._sealed_by_name(args, {})
        assert short == long
        assert [each.of for each in short[1]] == [each.of for each in long[1]]


def test_the_short_way_is_taken_by_what_most_calls_are() -> None:
    one, two = Reference(1, of=int), Reference(2, of=int)
    for types, args in (
        ((int, int, int), (5, one)),
        ((str, int, float), ("x", one, two)),
        ((list[int], dict[str, int], Any), ([1, 2], {"a": 1}, one)),
        ((int | None, bool, float), (None, True, two)),
    ):
        assert function(*types)._by_reference._sealed_at_once(args) is not None, args


def test_the_short_way_is_left_to_what_needs_no_escapes_and_fits() -> None:
    one = Reference(1, of=int)
    by_reference = function(str, Any, list[int])._by_reference
    assert by_reference._sealed_at_once(("~r0", one)) is None
    assert by_reference._sealed_at_once(("\udcff", one)) is None
    assert by_reference._sealed_at_once(("x", Reference(1, stream=True))) is None
    assert by_reference._sealed_at_once(("x", 1, one)) is None
    assert by_reference._sealed_at_once(("x" * 2**20, one)) is None
    assert by_reference._sealed_at_once((one,)) is None


def test_an_argument_that_is_needed_by_name_is_missed_by_either_way() -> None:
    def keyword(a: int, b: int = 0, *, c: int) -> None: ...
    def stream(a: int, b: int = 0, *, c: Any) -> None: ...

    for signature in (Signature.of(keyword), Signature.of(stream, {"c": int})):
        with pytest.raises(BadPayload, match=r"missing a required .*'c'"):
            signature.encode_referring((1, Reference(1)), {})


def read(signature: Signature, body: bytes, results: Sequence[bytes | None] | None) -> tuple[Any, str]:
    """The arguments, or the words in which they are refused."""
    try:
        return signature.decode(body, None if results is None else Results(results))[0], ""
    except BadPayload as refusal:
        return None, str(refusal)


@st.composite
def results_of(draw: st.DrawFn) -> tuple[Sequence[Signature], Any, list[bytes | None]]:
    """Functions, a value for their second place, and results for the others: some that fit, and any."""
    places, signatures = draw(st.sampled_from(SIGNATURES))
    (_, firsts), (_, seconds), (_, thirds) = places
    results = [draw(st.none() | values.map(write) | json.map(write)) for values in (firsts, thirds, json)]
    return signatures, draw(seconds), results[: draw(st.integers(2, 3))]


@both_tiers(results_of(), st.booleans(), st.booleans(), quick=150)
def test_results_are_read_as_arguments_in_the_same_way_as_bytes_and_as_a_tree(
    case: tuple[Sequence[Signature], Any, list[bytes | None]], inside: bool, twice: bool
) -> None:
    signatures, value, results = case
    signature = signatures[inside]
    out = Reference("the first" if twice else "the second")
    body, taken = signature.encode_referring((Reference("the first"), value, [out, out] if inside else out), {})
    assert has_slots(body)
    given = results[: len(taken)]
    plain = plainly_filled(body, results)
    if plain is None:
        # A key that is a path is escaped as well.
        assert any(b"~" in each for each in (body.replace(b'"~r', b"")[5:], *results) if each is not None)
        return
    assert not has_slots(plain)
    (short, words), (long, other_words) = read(signature, plain, None), read(signature, body, given)
    assert words == other_words
    assert words or difference(long, short, "") is None
    assert list(map(type, short or ())) == list(map(type, long or ()))


def test_keys_of_a_result_are_what_their_annotation_says() -> None:
    def of_paths(sizes: dict[Path, int], more: int) -> None: ...

    signature = Signature.of(of_paths)
    body, _ = signature.encode_referring((Reference(1), Reference(2)), {})
    assert read(signature, body, [b'{"a/b":1}', b"2"]) == (({Path("a/b"): 1}, 2), "")


def test_a_result_that_looks_like_a_slot_is_a_text() -> None:
    signature = function(str, str, str)
    body, _ = signature.encode_referring((Reference(1), Reference(2)), {})
    for results in ([b'"~r1"', b'"x"'], [b'"x"', b'"~r0"'], [b'{"~":"~007er1"}', b'"x"']):
        assert plainly_filled(body, results) is None
    assert plainly_filled(body, [b'"x"', None]) == b'["x",null]'
    assert plainly_filled(body, [b'"x"']) is None, "a result is missing"
