"""Back-off, rank and due time: numbers in, numbers out."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.model.policy import PRIORITY_SECONDS, SECOND, Backoff, Rate, deep_rank, due_bucket, rank_of


def test_the_default_doubles_from_a_second_to_five_minutes() -> None:
    assert [Backoff().longest(k) for k in (1, 2, 3, 9, 10, 10_000)] == [1, 2, 4, 256, 300, 300]


def test_full_jitter_spreads_over_the_whole_wait() -> None:
    assert Backoff().wait(3, 0.0) == 0
    assert Backoff().wait(3, 0.5) == 2
    assert Backoff(jitter=False).wait(3, 0.0) == 4


def test_a_constant_back_off_stays_constant() -> None:
    assert [Backoff(first=7, factor=1).longest(k) for k in (1, 2, 99)] == [7, 7, 7]
    assert Backoff(first=0).longest(5) == 0


@given(st.integers(1, 100_000), st.floats(0, 1e6), st.floats(1, 10), st.floats(0, 1e6))
def test_no_back_off_overflows_or_passes_its_cap(failures: int, first: float, factor: float, cap: float) -> None:
    assert 0 <= Backoff(first, factor, cap).longest(failures) <= cap


@pytest.mark.parametrize(
    ("name", "value"),
    [("first", -1), ("cap", math.nan), ("factor", math.inf), ("factor", 0.5), ("first", True), ("cap", "5")],
)
def test_a_back_off_that_makes_no_sense_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"Backoff\({name}="):
        Backoff(**{name: value})  # type: ignore[arg-type]


def test_back_off_is_only_asked_for_after_a_failure() -> None:
    with pytest.raises(ValueError, match="only asked for after"):
        Backoff().longest(0)


def test_a_level_of_priority_is_a_head_start_and_nobody_starves() -> None:
    urgent, plain = rank_of(1_000, -1), rank_of(1_000, 0)
    assert urgent < plain
    assert rank_of(1_000 + (PRIORITY_SECONDS + 1) * SECOND, -1) > plain


def test_depth_first_puts_the_deeper_round_first() -> None:
    assert deep_rank(10**9, 0, 5) < deep_rank(10**9, 0, 4)


@given(st.integers(0, 10**16), st.floats(0.01, 10**6))
def test_due_times_are_never_early_and_at_most_an_eighth_late(now: int, wait: float) -> None:
    due = due_bucket(now, wait)
    assert now + int(wait * SECOND) <= due <= now + wait * SECOND * 9 / 8 + 1


def test_failures_at_about_the_same_time_share_few_due_times() -> None:
    assert len({due_bucket(10**15 + i * 1000, 8.0) for i in range(1000)}) <= 2


@pytest.mark.parametrize(
    ("given", "count", "seconds"),
    [("50/s", 50, 1), (" 10 / m ", 10, 60), ("5/hour", 5, 3600), ("1/day", 1, 86400), ((3, 0.5), 3, 0.5)],
)
def test_a_rate_is_a_count_in_a_while(given: str | tuple[int, float], count: int, seconds: float) -> None:
    rate = Rate(given)
    assert (rate.count, rate.seconds, rate.burst) == (count, seconds, 0)
    assert rate == Rate((count, seconds))


@pytest.mark.parametrize("given", ["50", "50/w", "-1/s", "1.5/s", "0/s", 50, (50,), (0, 1), (True, 1), (1.5, 1)])
def test_a_rate_that_means_nothing_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^Rate\(.*Write .10/s., .100/m. or .5/h., or \(count, seconds or "):
        Rate(given)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "1", True])
def test_a_rate_over_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match="expected a finite time above 0"):
        Rate((1, seconds))


@pytest.mark.parametrize("burst", [-1, 1.5, "20", True, None])
def test_a_burst_that_means_nothing_is_refused(burst: Any) -> None:
    with pytest.raises(ValueError, match=r"Rate\('50/s', burst=.*whole number, 0 or more"):
        Rate("50/s", burst=burst)
