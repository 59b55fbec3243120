"""Limits delay starts; they never fail a task, and they count what really runs."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from ramify.kernel.core.adapt import Change
from ramify.kernel.core.limits import WHY_FEWER, WHY_MORE, Bucket, OwnLimits, Throttle
from ramify.kernel.tuning import LIMITS_KEPT, SLICE, SLICES, STALE, THROTTLE_WINDOW
from ramify.model.policy import Rate
from tests.kernel.claims import handler


def test_without_limits_everything_may_start() -> None:
    limits = OwnLimits({"work": handler()})
    assert not limits.is_any
    assert limits.allowed("work", None, 1_000, 0.0) == 1_000
    assert limits.most_held("work", None) is None


def test_no_more_start_at_a_time_than_the_concurrency() -> None:
    limits = OwnLimits({"work": handler(concurrency=2)})
    assert limits.allowed("work", None, 5, 0.0) == 2
    limits.start("work", None, 2, 0.0)
    assert limits.allowed("work", None, 5, 0.0) == 0
    limits.stop("work", None, 1)
    assert limits.allowed("work", None, 5, 0.0) == 1


def test_lanes_are_counted_apart() -> None:
    limits = OwnLimits({"work": handler(concurrency=1)})
    limits.start("work", "left", 1, 0.0)
    assert limits.allowed("work", "left", 1, 0.0) == 0
    assert limits.allowed("work", "right", 1, 0.0) == 1


def test_a_rate_lets_one_through_and_then_an_even_pace() -> None:
    limits = OwnLimits({"work": handler(rate=Rate((4, 2.0)))})
    assert limits.allowed("work", None, 9, 10.0) == 1
    limits.start("work", None, 1, 10.0)
    assert limits.allowed("work", None, 9, 10.0) == 0
    assert limits.opens_in("work", None, 10.0) == pytest.approx(0.5, rel=0.03)
    assert limits.allowed("work", None, 9, 10.52) == 1


def test_a_burst_is_what_was_asked_for() -> None:
    limits = OwnLimits({"work": handler(rate=Rate("50/s", burst=20))})
    assert limits.allowed("work", None, 99, 10.0) == 21
    limits.start("work", None, 21, 10.0)
    assert limits.allowed("work", None, 99, 10.03) == 1


def test_the_wait_a_rate_names_is_always_enough() -> None:
    bucket = Bucket(Rate((3, 7.0)), 0.0)
    now = 0.0
    for _ in range(50):
        while bucket.ready(now):
            bucket.take(1)
        now += bucket.wait()
        assert bucket.ready(now) == 1


RATES = [Rate("1/s"), Rate("50/s"), Rate("50/s", burst=20), Rate("10/m"), Rate("5000/s"), Rate((5, 0.25), burst=1)]


def busiest(starts: list[float], seconds: float) -> int:
    """The most starts in any stretch of so many seconds."""
    starts.sort()
    return max(bisect_left(starts, at + seconds) - n for n, at in enumerate(starts))


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_no_stretch_of_a_rate_sees_more_starts_than_it_allows(rate: Rate, seed: random.Random) -> None:
    bucket, now, starts = Bucket(rate, 0.0), 0.0, list[float]()
    late = min(SLICE, rate.seconds / SLICES)
    for _ in range(4_000):
        # Somebody looks, a little late and sometimes after a lull; what is handed out begins a little later still.
        now += bucket.wait() + late * seed.random() / 2 + rate.seconds * (seed.random() < 0.005)
        many = bucket.ready(now)
        bucket.take(many)
        starts += (now + 0.999 * late * seed.random() for _ in range(many))
    assert 0.8 * rate.count <= busiest(starts, rate.seconds) <= rate.count + rate.burst


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_rate_is_reached_by_somebody_who_looks_when_told_to_and_a_little_late(rate: Rate) -> None:
    bucket, now, begun = Bucket(rate, 0.0), 0.0, 0
    while now < 10 * rate.seconds:
        begun += (many := bucket.ready(now))
        bucket.take(many)
        now += bucket.wait() + rate.seconds / 500
    assert begun >= 0.95 * 10 * rate.count


def test_starts_do_not_pile_up_beyond_the_burst() -> None:
    assert Bucket(Rate((3, 1.0)), 0.0).ready(1_000.0) == 1
    assert Bucket(Rate((3, 1.0), burst=3), 0.0).ready(1_000.0) == 4


def test_nothing_is_waited_for_when_no_rate_holds_back() -> None:
    limits = OwnLimits({"work": handler(concurrency=1)})
    limits.start("work", None, 1, 0.0)
    assert limits.opens_in("work", None, 0.0) is None


def test_the_tighter_limit_says_how_much_is_worth_holding() -> None:
    limits = OwnLimits({"work": handler(concurrency=5, rate=Rate((20, 10.0)))})
    assert limits.most_held("work", None) == 2


def test_the_rates_of_lanes_that_are_long_over_are_forgotten() -> None:
    limits = OwnLimits({"work": handler(rate=Rate((1, 1.0)))})
    for n in range(10 * LIMITS_KEPT):
        limits.start("work", f"lane {n}", 1, n / 100)
    assert len(limits._buckets.known) < 3 * LIMITS_KEPT
    assert limits.allowed("work", f"lane {n}", 1, n / 100) == 0


def deferring(limits: OwnLimits, kind: str, lane: str | None, since: float, windows: int = 1) -> None:
    """Windows in which eight at a time run and defer themselves."""
    for n in range(windows * 16):
        limits.ran(kind, lane, 1, 1, since + n * 0.01)


def test_a_kind_that_defers_itself_is_held_back_and_no_other() -> None:
    limits = OwnLimits({"shy": handler("shy"), "work": handler()})
    limits.start("shy", None, 8, 0.0)
    deferring(limits, "shy", None, 0.0)
    assert limits.at_a_time("shy", None) == 4
    assert limits.allowed("shy", None, 9, 0.2) == 0
    limits.stop("shy", None, 7)
    assert limits.allowed("shy", None, 9, 0.2) == 3
    assert (limits.at_a_time("work", None), limits.allowed("work", None, 9, 0.2)) == (None, 9)


def test_a_lane_that_defers_itself_is_held_back_and_no_other() -> None:
    limits = OwnLimits({"work": handler(concurrency=6)})
    limits.start("work", "slow", 6, 0.0)
    deferring(limits, "work", "slow", 0.0)
    assert (limits.at_a_time("work", "slow"), limits.at_a_time("work", "quick")) == (3, 6)
    assert (limits.most_held("work", "slow"), limits.most_held("work", "quick")) == (3, 6)


def test_lanes_that_deferred_themselves_long_ago_are_forgotten() -> None:
    limits = OwnLimits({"work": handler()})
    for n in range(10 * LIMITS_KEPT):
        limits.ran("work", f"lane {n}", 1, 1, n / 100)
    assert len(limits._throttles.known) < 4 * LIMITS_KEPT


def test_a_kind_that_gets_through_again_is_forgotten() -> None:
    limits = OwnLimits({"work": handler()})
    limits.start("work", None, 4, 0.0)
    deferring(limits, "work", None, 0.0)
    for n in range(100):
        limits.ran("work", None, 1, 0, 1.0 + n / 50)
    assert not limits.is_any


# a kind and lane is throttled when most of it defers itself, and freed again when most of it gets through

RUNNING = 8


def window(throttle: Throttle, since: float, deferred: int, tasks: int = 10) -> Change | None:
    """A second in which so many of the tasks deferred themselves, evenly spread."""
    changes = [
        throttle.ran(1, (n + 1) * deferred // tasks - n * deferred // tasks, RUNNING, since + n / tasks)
        for n in range(tasks)
    ]
    return next((change for change in changes if change is not None), None)


def test_tasks_that_all_defer_themselves_are_halved_again_and_again_down_to_one_at_a_time() -> None:
    throttle = Throttle(0.0)
    seen = []
    for second in range(6):
        window(throttle, float(second), deferred=10)
        seen.append(throttle.most)
    assert seen[0] == 4
    assert seen[-1] == 1


def test_a_tenth_that_defers_itself_is_no_throttling() -> None:
    throttle = Throttle(0.0)
    assert [window(throttle, float(second), deferred=1) for second in range(20)] == [None] * 20
    assert throttle.most is None


def test_a_few_tasks_are_no_sign_of_anything() -> None:
    throttle = Throttle(0.0)
    assert window(throttle, 0.0, deferred=9, tasks=9) is None


def test_what_deferred_itself_long_ago_does_not_count() -> None:
    throttle = Throttle(0.0)
    window(throttle, 0.0, deferred=9, tasks=9)
    assert throttle.ran(1, 1, RUNNING, 2 * STALE) is None
    assert throttle.most is None


def test_tasks_that_get_through_again_are_doubled_until_nothing_is_held_back() -> None:
    throttle = Throttle(0.0)
    for n in range(10):
        throttle.ran(1, 1, RUNNING, n * 2 * THROTTLE_WINDOW / 10)
    throttle.ran(4, 4, 4, 1.0)
    assert throttle.most == 2
    changes = [throttle.ran(4, 0, 2, 2.0 + n) for n in range(2)]
    assert changes == [Change(2, 4, WHY_MORE), Change(4, 8, WHY_MORE)]
    assert throttle.is_as_new(9.0)


def test_a_throttle_says_why() -> None:
    assert window(Throttle(0.0), 0.0, deferred=10) == Change(RUNNING, RUNNING // 2, WHY_FEWER)
