"""Text that came from tasks reaches no terminal raw."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.inspect.text import columns, safe_text, shortened, shortened_inside
from tests.cli.conftest import HOSTILE, RAW

#: Every character there is, lone surrogates included.
ANYTHING = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202eexe.txt", "\\u202eexe.txt"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\u2028", "\\u2028"),
        ("n\udcff", "n\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("größe 日本 👩‍🚀", "größe 日本 👩‍🚀"),
        ("[bold]", "[bold]"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(ANYTHING)
def test_no_control_bidi_or_surrogate_is_left(text: str) -> None:
    shown = safe_text(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not any(
        unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"} for c in shown
    )
    assert len(shown.splitlines()) <= 1
    shown.encode()


@given(ANYTHING, st.integers(1, 40))
def test_a_cut_text_fits(text: str, limit: int) -> None:
    assert columns(shortened(safe_text(text), limit)) <= limit


def test_the_hostile_text_of_the_other_tests_is_as_bad_as_it_says() -> None:
    assert all(raw in HOSTILE for raw in RAW)
    assert not any(raw in safe_text(HOSTILE) for raw in RAW)


def test_a_name_is_cut_in_the_middle() -> None:
    assert shortened_inside("load_orders_part_17", 19) == "load_orders_part_17"
    assert shortened_inside("load_orders_part_17", 11) == "load_…rt_17"
    assert shortened_inside("日本語日本語日本語", 9) == "日本…本語"


@given(ANYTHING, st.integers(3, 30))
def test_a_name_that_is_cut_in_the_middle_fits(text: str, limit: int) -> None:
    shown = shortened_inside(safe_text(text), limit)
    assert columns(shown) <= limit
    assert ("…" in shown) or shown == safe_text(text)
