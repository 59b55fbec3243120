"""How much to hold, to claim and to lease follows from measured times, and leaves others their share."""

from __future__ import annotations

from ramify.kernel.core.sizes import Sizes
from ramify.kernel.tuning import CHUNK_AT_MOST, UNSEEN


def test_before_anything_is_measured_as_many_tasks_as_workers_are_held() -> None:
    assert Sizes(10_000).window(4, {}) == 4


def test_slow_tasks_are_not_hoarded() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 1, 10.0)
    assert sizes.window(4, {"work": 1}) == 4


def test_fast_tasks_are_held_in_numbers_up_to_the_limit() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 1_000, 0.001)
    assert sizes.window(4, {}) == 4 + 2 * 10_000


def test_claims_at_most_double() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 1_000, 0.001)
    sizes.claimed(16, 100_000)
    assert sizes.limit(4, {}) == 32


def test_enough_is_enough() -> None:
    sizes = Sizes(10_000)
    assert sizes.limit(4, {"work": 8}) == 0
    assert sizes.limit(4, {"work": 3}) > 0


def test_the_last_tasks_are_shared_with_peers() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 1, 0.001)
    sizes.peers = 4
    sizes.claimed(100, 400)
    assert sizes.limit(8, {"work": 4}) == 400 // 8


def test_a_claim_with_peers_and_no_word_of_what_is_left_is_bounded() -> None:
    sizes = Sizes(1_000_000)
    sizes.ran("work", 10_000, 0.001)
    sizes.peers = 2
    sizes.claimed(1_000_000, 1_000_000)
    sizes.untold()
    assert sizes.limit(4, {}) <= max(UNSEEN, int(0.002 * 4 / 1e-7))


def test_a_kind_that_was_never_run_is_leased_one_by_one() -> None:
    assert Sizes(100).chunk("work", 1_000, 2) == 1


def test_a_mix_of_kinds_is_measured_by_what_is_held() -> None:
    sizes = Sizes(10_000)
    sizes.ran("slow", 1, 10.0)
    sizes.ran("fast", 1, 0.001)
    assert sizes.window(4, {"slow": 4}) == 4
    assert sizes.window(4, {"fast": 4}) == 4 + 2_000


def test_workers_that_are_busy_with_kinds_nobody_knows_hoard_nothing() -> None:
    sizes = Sizes(10_000)
    sizes.ran("fast", 1, 0.001)
    assert sizes.window(4, {"new": 4, "fast": 1}) == 4


def test_old_measurements_fade() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 100, 100.0)
    sizes.ran("work", 10_000, 0.01)
    assert sizes.chunk("work", 1_000_000, 1) == CHUNK_AT_MOST


def test_where_tasks_become_longer_the_first_of_those_tells() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 10_000, 0.01)
    sizes.ran("work", 1, 2.0)
    assert (sizes.window(4, {"work": 1}), sizes.chunk("work", 1_000, 1)) == (4 + 1, 1)


def test_one_long_task_among_those_of_many_workers_does_not() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 1_000, 1.0, workers=100)
    before = sizes.window(100, {"work": 1})
    sizes.ran("work", 1, 1.0, workers=100)
    assert sizes.window(100, {"work": 1}) > before / 3


def test_what_is_held_by_far_too_much_goes_back_and_claims_begin_small_again() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 10_000, 0.01)
    sizes.claimed(5_000, 1_000_000)
    sizes.ran("work", 1, 0.25)
    window = sizes.window(2, {"work": 1})
    assert sizes.surplus(2, {"work": 2 * window}) == 0
    assert sizes.surplus(2, {"work": 5_000}) == 5_000 - window
    sizes.ran("work", 10_000, 0.01)
    assert sizes.limit(2, {}) == 4


def test_a_single_task_that_waited_for_a_moment_sends_nothing_back() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 10_000, 0.1)
    sizes.claimed(5_000, 1_000_000)
    # Pauses of this process, with hundreds of quick tasks between them.
    for _ in range(5):
        sizes.ran("work", 1, 0.1)
        assert sizes.surplus(1, {"work": 5_000}) == 0
        for _ in range(300):
            sizes.ran("work", 1, 0.00001)
            assert sizes.surplus(1, {"work": 5_000}) == 0


def test_two_tasks_that_take_longer_send_back_what_is_too_much() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 10_000, 0.1)
    sizes.claimed(5_000, 1_000_000)
    sizes.ran("work", 1, 0.1)
    sizes.ran("work", 3, 0.00003)
    sizes.ran("work", 1, 0.1)
    assert sizes.surplus(1, {"work": 5_000}) > 4_900


def test_what_was_never_measured_is_not_too_much() -> None:
    sizes = Sizes(10_000)
    sizes.claimed(5_000, 1_000_000)
    sizes.ran("fast", 1, 0.001)
    assert sizes.surplus(2, {"new": 5_000}) == 0


def test_a_chunk_holds_a_few_milliseconds_of_work_and_leaves_some_for_other_workers() -> None:
    sizes = Sizes(10_000)
    sizes.ran("work", 100, 0.1)
    assert sizes.chunk("work", 1_000, 2) == 4
    assert sizes.chunk("work", 4, 2) == 2
    sizes.ran("tiny", 10_000, 0.0001)
    assert sizes.chunk("tiny", 1_000_000, 2) == CHUNK_AT_MOST


def test_a_task_that_took_no_time_does_not_divide_by_zero() -> None:
    sizes = Sizes(100)
    sizes.ran("work", 5, 0.0)
    assert sizes.chunk("work", 10_000, 1) == CHUNK_AT_MOST
