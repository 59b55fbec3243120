"""A kind and lane is throttled when most of it defers itself, and freed again when most of it gets through."""

from __future__ import annotations

from ramify.kernel.core.adapt import Change
from ramify.kernel.core.throttle import WHY_FEWER, WHY_MORE, Throttle
from ramify.kernel.tuning import STALE, THROTTLE_WINDOW

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
