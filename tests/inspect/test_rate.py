"""Rates over a window, and an end only where there is one."""

import pytest

from ramify.inspect.rate import Moment, ObservedPace


def paced(*moments: tuple[float, int, int]) -> ObservedPace:
    pace = ObservedPace()
    for moment in moments:
        pace.note(Moment(*moment))
    return pace


def test_one_look_gives_no_rate() -> None:
    assert (paced((0, 10, 5)).added, paced((0, 10, 5)).ended) == (None, None)
    assert ObservedPace().ended is None


def test_rates_are_taken_between_the_oldest_and_the_newest_look() -> None:
    pace = paced((0, 0, 0), (5, 100, 10), (10, 300, 50))
    assert (pace.added, pace.ended) == (30, 5)


def test_looks_older_than_the_window_no_longer_count() -> None:
    pace = paced((0, 0, 0), (10, 1_000, 1_000), (40, 1_000, 1_300), (41, 1_000, 1_310))
    assert pace.seconds == 31
    assert pace.ended == pytest.approx(10)


def test_an_end_is_foretold_only_while_more_ends_than_is_added() -> None:
    assert paced((0, 0, 0), (10, 100, 200)).eta(1_000) == pytest.approx(100)
    assert paced((0, 0, 0), (10, 200, 200)).eta(1_000) is None
    # It would be ten hours.
    assert paced((0, 0, 0), (10, 199, 200)).eta(3_600) is None
    assert paced((0, 0, 0), (10, 300, 200)).eta(1_000) is None


def test_a_moment_of_watching_foretells_nothing() -> None:
    assert paced((0, 0, 0), (1, 0, 200)).eta(1_000) is None


def test_a_retry_that_takes_ends_back_is_no_negative_rate() -> None:
    assert paced((0, 10, 10), (5, 10, 4)).ended == 0
