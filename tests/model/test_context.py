"""What a set makes of what is there, and which sets do not fit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.errors import BadPayload
from ramify.model.context import ContextValue, SetValue, after_set, check_sets, outrun_by
from ramify.model.task import MAX_NAME, MAX_PAYLOAD

KNOWN = ContextValue("a", b"1", 7, 10, 20)


def test_the_first_value_stands() -> None:
    assert after_set(None, SetValue(7, "a", b"1"), 10) == ContextValue("a", b"1", 7, 10, 10)
    assert after_set(KNOWN, SetValue(8, "a", b"2"), 30) is KNOWN


def test_who_means_it_replaces_it_and_so_does_the_same_task() -> None:
    assert after_set(KNOWN, SetValue(8, "a", b"2", overwrite=True), 30) == ContextValue("a", b"2", 8, 10, 30)
    assert after_set(KNOWN, SetValue(7, "a", b"2"), 30) == ContextValue("a", b"2", 7, 10, 30)


def test_who_comes_too_late_is_told_who_was_first() -> None:
    assert msgspec.json.decode(outrun_by(KNOWN)) == {"name": "a", "first": 7}


sets = st.lists(st.builds(SetValue, st.integers(1, 4), st.just("a"), st.binary(max_size=2), st.booleans()), min_size=1)


@given(sets)
def test_whatever_is_set_the_first_time_stays_and_each_value_is_that_of_its_task(given: list[SetValue]) -> None:
    known: ContextValue | None = None
    for now, new in enumerate(given):
        before, known = known, after_set(known, new, now)
        assert known.first_set == 0
        assert known is before or (known.value, known.task, known.last_set) == (new.value, new.task, now)
        assert (known is before) == (before is not None and not new.overwrite and before.task != new.task)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (SetValue(7, "", b""), "a name in the context is empty"),
        (SetValue(7, "n" * (MAX_NAME + 1), b""), "has 256 characters"),
        (SetValue(7, "a\0", b""), "NUL or a lone surrogate"),
        (SetValue(7, "b", bytes(MAX_PAYLOAD + 1)), "the value of 'b' in the context takes 1048577 bytes"),
        (SetValue(8, "b", b""), "task 8 sets 'b' in the context and is not done in this part"),
        (SetValue(7, "a", b""), "a task sets a name in the context twice"),
    ],
)
def test_sets_that_do_not_fit_are_refused(new: SetValue, why: str) -> None:
    check_sets([SetValue(7, "a", b"1"), SetValue(9, "a", bytes(MAX_PAYLOAD))], {7, 9})
    with pytest.raises(BadPayload, match=why):
        check_sets([SetValue(7, "a", b"1"), new], {7, 9})
