"""Leases are handed out in turn, within limits, and everything that is handed out is counted until it is back."""

from __future__ import annotations

from typing import Any

import pytest

from ramify.kernel.core.handler import Calling, Handler
from ramify.kernel.core.holding import Holding
from ramify.kernel.core.leases import Leases
from ramify.kernel.core.work import Chunk, Ran
from ramify.kernel.settings import MOST_THREADS, Settings
from ramify.kernel.tuning import CHOSEN_COROUTINES, CHOSEN_THREADS
from ramify.model.claim import Details
from ramify.model.policy import Rate
from tests.kernel.claims import handler, holding


def leases_of(*handlers: Handler, threads: int = 4, coroutines: int = 4) -> Leases:
    known = {made.kind: made for made in handlers or (handler(),)}
    return Leases(known, Settings(threads=threads, coroutines=coroutines))


def given(leases: Leases, colour: bool = False, now: float = 0.0) -> Chunk:
    chunk = leases.lease(colour, now)
    assert chunk is not None
    return chunk


def test_a_kind_of_unknown_length_is_leased_one_task_at_a_time() -> None:
    leases, held = leases_of(), holding(3)
    leases.offer(held, held.available)
    assert list(given(leases).positions) == [0]
    assert (leases.ready[False], leases.leased[False], leases.chunks[False]) == (2, 1, 1)


def test_short_tasks_are_leased_in_chunks_that_leave_some_for_the_other_workers() -> None:
    leases, held = leases_of(threads=2), holding(8)
    leases.sizes.ran("work", 100, 0.01)
    leases.offer(held, held.available)
    assert list(given(leases).positions) == [0, 1, 2, 3]


@pytest.mark.parametrize("colour", [Calling.PLAIN, Calling.ASYNC])
def test_a_task_with_a_time_limit_is_leased_alone(colour: Calling) -> None:
    own = handler(colour=colour, timeout=1.0)
    leases, held = leases_of(own), holding(8, own)
    leases.sizes.ran("work", 100, 0.01)
    leases.offer(held, held.available)
    chunk = given(leases, colour.is_async, now=2.0)
    assert (len(chunk.positions), chunk.limit, chunk.deadline) == (1, 1.0, 3.0)


def test_the_event_loop_gets_as_many_as_it_has_room_for() -> None:
    own = handler(colour=Calling.ASYNC)
    leases, held = leases_of(own, coroutines=3), holding(8, own)
    leases.offer(held, held.available)
    assert len(given(leases, True).positions) == 3
    assert not leases.has_room(True)


def test_threads_are_counted_by_chunk() -> None:
    leases, held = leases_of(threads=1), holding(8)
    leases.offer(held, held.available)
    chunk = given(leases)
    assert not leases.has_room(False)
    leases.take_back(Ran(chunk, done=[chunk.claim.tasks[chunk.positions[0]]]), held)
    leases.free(chunk)
    assert leases.has_room(False)


def test_a_claim_that_a_limit_holds_back_lets_others_go_first() -> None:
    narrow, wide = handler("narrow", concurrency=1), handler("wide")
    leases = leases_of(narrow, wide)
    first, second = holding(2, narrow, kind="narrow", first=1), holding(2, wide, kind="wide", first=10)
    leases.offer(first, 2)
    leases.offer(second, 2)
    assert [given(leases).claim.kind for _ in range(3)] == ["narrow", "wide", "wide"]
    assert leases.lease(False, 0.0) is None


def test_a_limit_counts_what_was_handed_out_and_not_what_was_asked_for() -> None:
    own = handler(colour=Calling.ASYNC, concurrency=3)
    leases, held = leases_of(own), holding(6, own)
    held.fresh, held.back = 1, [0]
    leases.offer(held, held.available)
    chunk = given(leases, True)
    assert list(chunk.positions) == [0]
    leases.take_back(Ran(chunk, done=[chunk.claim.tasks[chunk.positions[0]]]), held)
    assert leases.limits.allowed("work", None, 9, 0.0) == 3


def test_a_short_wait_ends_at_its_moment() -> None:
    leases, held = leases_of(), holding(1)
    held.take(1)
    held.leased = 0
    leases.retry(held, 0, 5.0)
    assert leases.lease(False, 4.9) is None
    assert leases.next_moment(4.0) == pytest.approx(1.0)
    assert list(given(leases, now=5.0).positions) == [0]
    assert held.adds_up()


def test_a_closed_claim_is_handed_out_no_more_and_not_counted() -> None:
    leases, held = leases_of(), holding(4)
    leases.offer(held, held.available)
    given(leases)
    leases.close(held)
    leases.close(held)
    assert leases.waiting_tasks == 0
    assert leases.lease(False, 0.0) is None


def test_a_closed_claim_takes_back_interrupted_tasks_without_offering_them() -> None:
    leases, held = leases_of(), holding(2)
    leases.offer(held, held.available)
    chunk = given(leases)
    leases.close(held)
    leases.take_back(Ran(chunk, done=[chunk.claim.tasks[chunk.positions[0]]]), held)
    leases.give_back(held, 0)
    assert (leases.waiting_tasks, held.adds_up()) == (0, True)


def test_only_chunks_whose_time_is_up_are_overdue_and_each_once() -> None:
    own = handler(timeout=2.0)
    leases, held = leases_of(own), holding(3, own)
    leases.offer(held, held.available)
    late, back, _ = given(leases), given(leases), given(leases, now=1.5)
    back.is_back = True
    assert list(leases.overdue(1.9)) == []
    assert list(leases.overdue(2.0)) == [late]
    assert list(leases.overdue(3.0)) == []


def test_a_call_may_have_a_time_limit_of_its_own() -> None:
    leases, held = leases_of(), holding(1, details={100: Details(extra=b'{"timeout":0.5}')})
    leases.offer(held, held.available)
    assert given(leases, now=1.0).deadline == 1.5


def test_a_rate_tells_when_to_look_again() -> None:
    own = handler(rate=Rate((1, 4.0)))
    leases, held = leases_of(own), holding(2, own)
    leases.offer(held, held.available)
    given(leases)
    assert leases.lease(False, 1.0) is None
    assert leases.next_moment(1.0) == pytest.approx(3.0, rel=0.02)
    assert given(leases, now=4.1)


def test_a_chunk_knows_which_attempt_each_task_is_at() -> None:
    leases, held = leases_of(), holding(2)
    held.attempts = {1: 3}
    leases.offer(held, held.available)
    assert [given(leases).attempts, given(leases).attempts] == [{}, {1: 3}]


@pytest.mark.parametrize("policy", [{"concurrency": 1}, {"rate": Rate((1, 1e6))}], ids=str)
def test_who_looks_for_work_asks_once_for_each_lane_that_is_held_back(policy: dict[str, Any]) -> None:
    own = handler(**policy)
    leases, asked = leases_of(own), list[str | None]()
    allowed = leases.limits.allowed
    leases.limits.allowed = lambda *where: asked.append(where[1]) or allowed(*where)  # type: ignore[method-assign, func-returns-value]
    for n in range(500):
        held = holding(1, own, first=n + 1, lane=f"host{n % 2}")
        leases.offer(held, 1)
    assert [given(leases).claim.lane for _ in range(2)] == ["host0", "host1"]
    for _ in range(50):
        assert leases.lease(False, 0.0) is None
    assert asked == ["host0", "host1", "host0", "host1"]
    assert (leases.stuck["work"], leases.ready[False]) == (498, 498)


def test_a_rate_that_allows_a_start_which_nobody_takes_is_no_moment_to_wake_up_for() -> None:
    own = handler(rate=Rate((1, 4.0)))
    leases, held = leases_of(own), holding(2, own)
    leases.offer(held, held.available)
    given(leases)
    assert leases.lease(False, 1.0) is None
    leases.ripen(9.0)
    assert leases.next_moment(9.0) is None


def test_what_a_limit_holds_back_is_known_by_kind_until_it_may_start() -> None:
    own = handler(concurrency=1)
    leases, held = leases_of(own), holding(3, own)
    leases.offer(held, 3)
    chunk = given(leases)
    assert leases.lease(False, 0.0) is None
    assert leases.stuck["work"] == 2
    leases.take_back(Ran(chunk, done=[chunk.claim.tasks[chunk.positions[0]]]), held)
    assert leases.stuck["work"] == 0


def test_threads_that_gain_and_gain_end_at_the_most_that_is_chosen_and_not_at_the_most_that_may_be_given() -> None:
    settings = Settings()
    adapter = Leases({"work": handler()}, settings).adapters[False]
    for second in range(20):
        adapter.ran(0, 0.0, 0.0, second, 0.0)
        adapter.ran(100 * adapter.target, adapter.target, 0.0, second + 1.0, 0.0)
        adapter.judge(second + 1.0, scarce=False, cpu=0.0)
    assert adapter.target == CHOSEN_THREADS < MOST_THREADS
    assert settings.slots == 2 * CHOSEN_THREADS + CHOSEN_COROUTINES


def judged_after_a_wave(leases: Leases, tasks: int) -> int:
    """All workers come back at once and find nothing held for some of them; how many there are from then on."""
    held = holding(tasks, handler(rate=Rate((1, 60.0))) if leases.limits.is_any else handler())
    adapter = leases.adapters[False]
    adapter.ran(adapter.target, float(adapter.target), 0.0, 0.0, 0.0)
    leases.offer(held, held.available)
    while leases.lease(False, 0.0) is not None:
        pass
    adapter.judge(1.0, scarce=False, cpu=0.0)
    return adapter.target


@pytest.mark.parametrize(("left", "workers"), [(100, 16), (0, 4)])
def test_workers_with_nothing_to_do_keep_their_number_only_where_the_store_has_nothing_either(
    left: int, workers: int
) -> None:
    leases = Leases({"work": handler()}, Settings())
    leases.sizes.claimed(3, left)
    assert judged_after_a_wave(leases, 3) == workers


def test_workers_that_a_rate_holds_back_keep_their_number() -> None:
    leases = Leases({"work": handler(rate=Rate((1, 60.0)))}, Settings())
    leases.sizes.claimed(3, 100)
    assert judged_after_a_wave(leases, 3) == 4


def several(own: Handler, *lanes: str) -> Holding:
    return holding(len(lanes), own, lanes=list(lanes))


def known(leases: Leases) -> Leases:
    """Its kind is known to be quick, so that many are leased at once."""
    leases.sizes.ran("work", 1_000, 0.001)
    return leases


def test_tasks_of_several_lanes_are_leased_together() -> None:
    own = handler()
    leases, held = known(leases_of(own, threads=1)), several(own, "a", "b", "a")
    leases.offer(held, 3)
    chunk = given(leases)
    assert (list(chunk.positions), chunk.lanes) == ([0, 1, 2], None)
    leases.take_back(Ran(chunk, done=list(chunk.claim.tasks)), held)
    assert held.adds_up() is False  # nobody took the outcomes
    assert (leases.running, held.leased) == (0, 0)


def test_lanes_of_a_kind_without_limits_are_not_counted_although_another_kind_has_one() -> None:
    own = handler()
    leases, held = known(leases_of(own, handler("narrow", concurrency=1), threads=1)), several(own, "a", "b", "a")
    leases.offer(held, 3)
    chunk = given(leases)
    assert (list(chunk.positions), chunk.lanes) == ([0, 1, 2], None)


def test_of_several_lanes_only_those_are_leased_that_may_start() -> None:
    own = handler(concurrency=1)
    leases, held = known(leases_of(own, threads=2)), several(own, "a", "b", "a", "c")
    leases.offer(held, 4)
    chunks = [given(leases), given(leases)]
    assert [list(chunk.positions) for chunk in chunks] == [[0, 1], [3]]
    assert (held.aside, held.adds_up(), leases.waiting_tasks) == (1, True, 0)
    for lane in "abc":
        assert leases.limits.allowed("work", lane, 9, 0.0) == 0
    leases.take_back(Ran(chunks[0], done=[100]), held)
    assert [leases.limits.allowed("work", lane, 9, 0.0) for lane in "abc"] == [1, 0, 0]


def test_what_may_not_start_goes_back_once_nothing_else_is_left_of_its_claim() -> None:
    own = handler(concurrency=1)
    leases, held = known(leases_of(own)), several(own, "a", "a", "a", "b")
    leases.offer(held, 4)
    given(leases)
    assert (held.closing, list(leases.put_back)) == (False, [])
    given(leases)
    assert (held.closing, list(leases.put_back)) == (True, [held.claim.token])
    assert leases.kinds["work"] == 2


def test_a_short_wait_is_waited_for_before_the_rest_goes_back() -> None:
    own = handler(concurrency=1)
    leases, held = known(leases_of(own)), several(own, "a", "a")
    held.take(1)
    held.leased -= 1
    leases.retry(held, 0, 5.0)
    leases.limits.start("work", "a", 1, 0.0)
    leases.offer(held, 1)
    assert leases.lease(False, 0.0) is None
    assert not leases.put_back
    leases.limits.stop("work", "a", 1)
    assert list(given(leases, now=5.0).positions) == [0]
    assert list(leases.put_back) == [held.claim.token]


def test_a_lane_that_waits_in_line_goes_on_when_its_task_in_another_claim_is_over() -> None:
    own = handler(concurrency=1)
    leases, mixed, alone = known(leases_of(own)), several(own, "a", "b"), holding(1, own, first=500, lane="a")
    leases.offer(mixed, 2)
    leases.offer(alone, 1)
    chunk, _ = given(leases), given(leases)
    assert leases.lease(False, 0.0) is None
    leases.take_back(Ran(chunk, done=[100]), mixed)
    assert given(leases).claim is alone.claim


def test_with_a_rate_tasks_of_several_lanes_are_leased_one_by_one() -> None:
    own = handler(rate=Rate("5/s"))
    leases, held = known(leases_of(own)), several(own, "a", "b")
    leases.offer(held, 2)
    assert [list(given(leases).positions) for _ in range(2)] == [[0], [1]]


def test_of_several_lanes_the_one_that_defers_itself_is_throttled() -> None:
    own = handler()
    leases, held = known(leases_of(own, threads=1)), several(own, *["a"] * 12, *["b"] * 12)
    leases.offer(held, 24)
    chunk = given(leases)
    assert len(chunk.positions) == 24
    ran = Ran(chunk, done=list(chunk.claim.tasks))
    leases.take_back(ran, held)
    leases.learn(ran, held, list(range(100, 112)), 0.0, 0.0)
    leases.learn(ran, held, list(range(100, 112)), 1.0, 0.0)
    assert leases.limits.at_a_time("work", "a") is not None
    assert leases.limits.at_a_time("work", "b") is None
    assert [of for of, _ in leases.judge(1.0, False, 0.0)] == ["work in lane a"]
    for n in range(100):
        leases.learn(ran, held, [], 1.0 + n / 50, 0.0)
    assert leases.limits.at_a_time("work", "a") is None
