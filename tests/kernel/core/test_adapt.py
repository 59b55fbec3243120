"""The number of workers follows what was measured: more for tasks that wait, fewer for tasks that compute."""

from __future__ import annotations

from ramify.kernel.core.adapt import Adapter, Change
from ramify.kernel.tuning import SETTLED_FOR


def watch(adapter: Adapter, since: float, tasks: int, busy: float) -> Change | None:
    """A window of one second in which every worker was at work, and nobody else computed."""
    adapter.ran(0, 0.0, 0.0, since, 0.0)
    adapter.ran(tasks, float(adapter.target), busy, since + 1.0, busy)
    return adapter.judge(since + 1.0, scarce=False, cpu=busy)


def test_tasks_that_wait_get_more_workers() -> None:
    change = watch(Adapter("threads", 4, 64), 0.0, 100, busy=0.4)
    assert change == Change(4, 8, "tasks wait")


def test_the_further_from_a_full_core_the_larger_the_step() -> None:
    change = watch(Adapter("threads", 4, 64), 0.0, 100, busy=0.1)
    assert change == Change(4, 16, "tasks wait")


def test_tasks_that_compute_in_turns_get_fewer_workers() -> None:
    change = watch(Adapter("threads", 4, 64), 0.0, 100, busy=1.0)
    assert change is not None
    assert change.now == 1


def test_tasks_that_compute_side_by_side_keep_their_workers() -> None:
    adapter = Adapter("threads", 4, 64)
    assert watch(adapter, 0.0, 100, busy=3.8) is None


def test_a_step_that_did_not_help_is_taken_back_and_not_tried_again_soon() -> None:
    adapter = Adapter("threads", 4, 64)
    watch(adapter, 0.0, 100, busy=0.4)
    assert watch(adapter, 1.0, 100, busy=0.4) == Change(8, 4, "more did not help")
    assert watch(adapter, 2.0, 100, busy=0.4) is None
    assert watch(adapter, 2.0 + SETTLED_FOR, 100, busy=0.4) == Change(4, 8, "tasks wait")


def test_a_step_that_helped_is_kept() -> None:
    adapter = Adapter("threads", 4, 64)
    watch(adapter, 0.0, 100, busy=0.4)
    assert watch(adapter, 1.0, 200, busy=0.4) == Change(8, 16, "tasks wait")


def test_fewer_workers_that_are_slower_are_taken_back() -> None:
    adapter = Adapter("threads", 4, 64)
    assert watch(adapter, 0.0, 100, busy=1.9) == Change(4, 2, "tasks compute")
    assert watch(adapter, 1.0, 50, busy=1.0) == Change(2, 4, "fewer were slower")


def test_workers_that_passed_one_lock_around_are_not_missed() -> None:
    adapter = Adapter("threads", 4, 64)
    assert watch(adapter, 0.0, 100, busy=1.0) == Change(4, 1, "tasks compute")
    assert watch(adapter, 1.0, 50, busy=1.0) is None


def test_workers_that_compute_and_wait_for_commits_in_between_are_seen_to_compute() -> None:
    adapter = Adapter("threads", 4, 64)
    adapter.ran(100, 0.1, 0.1, 0.0, 0.0)
    adapter.starved()
    assert adapter.judge(1.0, scarce=False, cpu=0.95) == Change(4, 1, "tasks compute")


def test_many_workers_that_wait_are_kept_although_this_process_is_busy() -> None:
    adapter = Adapter("threads", 4, 64)
    adapter.ran(1000, 4.0, 0.2, 0.0, 0.0)
    assert adapter.judge(1.0, scarce=False, cpu=0.95) is None


def test_scarce_memory_halves_the_number_again_and_again_down_to_one() -> None:
    adapter = Adapter("threads", 4, 64)
    changes = [adapter.judge(now, scarce=True, cpu=0.0) for now in (0.0, 0.5, 1.5, 3.0)]
    assert changes == [Change(4, 2, "memory is scarce"), None, Change(2, 1, "memory is scarce"), None]


def test_a_window_in_which_workers_had_nothing_to_do_says_nothing() -> None:
    adapter = Adapter("threads", 4, 64)
    adapter.ran(0, 0.0, 0.0, 0.0, 0.0)
    adapter.ran(100, 1.0, 0.1, 1.0, 0.1)
    adapter.starved()
    assert adapter.judge(1.0, scarce=False, cpu=0.1) is None


def test_too_short_a_window_is_not_judged() -> None:
    adapter = Adapter("threads", 4, 64)
    adapter.ran(100, 0.0, 0.0, 0.0, 0.0)
    assert adapter.judge(0.05, scarce=False, cpu=0.0) is None


def test_a_number_that_was_given_never_changes() -> None:
    adapter = Adapter("threads", 4, 64, fixed=True)
    assert watch(adapter, 0.0, 100, busy=0.0) is None
    assert adapter.judge(9.0, scarce=True, cpu=0.0) is None
    assert adapter.target == 4


def test_it_never_grows_beyond_the_most() -> None:
    adapter = Adapter("threads", 4, 6)
    assert watch(adapter, 0.0, 100, busy=0.1) == Change(4, 6, "tasks wait")
