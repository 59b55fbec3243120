"""A process claims when it holds too little, asks ever less often when there is nothing, and minds suspects."""

from __future__ import annotations

from typing import Any

import pytest

from ramify.kernel.core.core import Core
from ramify.kernel.core.handler import Calling
from ramify.kernel.core.queues import Queues
from ramify.kernel.core.steps import Flush, PutBack, Rest
from ramify.kernel.core.work import Ran
from ramify.kernel.tuning import BACK_AT_ONCE, HOLD_OFF, LONGEST_PAUSE, SHORTEST_PAUSE, SUSPECT_WAIT, WATCHED
from ramify.model.claim import Claim, Claimed
from ramify.model.death import Deaths
from tests.kernel.claims import answer, claim, core, handler, lease


def test_a_process_that_holds_nothing_wants_as_many_as_it_has_workers() -> None:
    want = core(threads=4).claim_policy.want(0.0)
    assert want is not None
    assert (want.limit, want.kinds) == (4, frozenset({"work"}))


def test_a_process_that_holds_enough_wants_nothing() -> None:
    made = core(threads=4)
    made.claimed(Claimed((claim(8),)), 0.0)
    assert made.claim_policy.want(0.0) is None


def test_a_process_takes_no_more_tasks_in_its_life_than_it_may() -> None:
    made = core(threads=4, most_tasks=6)
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert want.limit == 4
    first = claim(4)
    made.claimed(Claimed((first,), ready=100), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, list(chunk.tasks), seconds=0.001), 0.001)
    step = made.step(0.2)
    assert isinstance(step, Flush)
    made.committed(step.batch, answer(), 0.2)
    assert made.claim_policy.through == len(chunk.tasks)
    want = made.claim_policy.want(0.2)
    assert want is not None
    assert want.limit == 2, "what it is through with counts, and what it still holds"
    made.claimed(Claimed((claim(2, 200),), ready=100), 0.3)
    assert made.claim_policy.want(0.3) is None


def test_what_a_process_puts_back_does_not_count_as_taken() -> None:
    made = core(threads=4, most_tasks=6)
    first = claim(6)
    made.claimed(Claimed((first,), ready=100), 0.0)
    assert made.claim_policy.want(0.0) is None
    made.released([first.token])
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert want.limit == 4


def test_an_empty_answer_makes_it_wait_for_a_change() -> None:
    made = core()
    made.claimed(Claimed(), 0.0)
    assert made.claim_policy.want(1_000.0) is None
    made.stirred()
    assert made.claim_policy.want(1_000.0) is not None


def test_a_claim_that_left_nothing_is_not_followed_by_one_that_finds_nothing() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1),)), 0.0)
    assert made.claim_policy.want(0.0) is None
    assert made.claim_policy.want(SHORTEST_PAUSE) is not None


def test_a_process_that_holds_nothing_any_more_asks_again() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1),)), 0.0)
    made.released([claim(1).token])
    assert made.claim_policy.want(0.0) is not None


def test_while_tasks_run_it_asks_again_after_a_pause_that_grows() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1),)), 0.0)
    pauses = []
    for _ in range(9):
        made.claimed(Claimed(), 10.0)
        assert made.claim_policy.want(10.0) is None
        pauses.append(made.claim_policy.asks_again - 10.0)
        assert made.claim_policy.want(made.claim_policy.asks_again) is not None
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] == pytest.approx(LONGEST_PAUSE)


def test_while_runs_are_started_one_after_the_other_the_next_claim_waits_for_several() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1, 100, run=1), claim(1, 101, run=2))), 0.0)
    assert made.claim_policy.want(HOLD_OFF / 2) is None
    step = made.step(HOLD_OFF / 2)
    assert isinstance(step, Rest)
    assert step.seconds == pytest.approx(HOLD_OFF / 2)
    assert made.claim_policy.want(HOLD_OFF) is not None


@pytest.mark.parametrize(
    "claims",
    [
        (claim(1, 100, run=1),),
        (claim(1, 100, run=1), claim(1, 101, run=1, kind="other")),
        (claim(1, 100, run=1), claim(1, 101, run=2, round=3)),
    ],
)
def test_a_run_that_is_started_alone_waits_for_nobody(claims: tuple[Claim, ...]) -> None:
    made = core(handler(), handler("other"), threads=8)
    made.claimed(Claimed(claims), 0.0)
    assert made.claim_policy.want(SHORTEST_PAUSE) is not None


def test_runs_that_go_on_step_by_step_wait_for_nobody() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1, 100, run=1),)), 0.0)
    made.claimed(Claimed((claim(1, 101, run=2),)), 0.0)
    made.claimed(Claimed((claim(1, 102, run=1), claim(1, 103, run=2))), 0.0)
    assert made.claim_policy.want(SHORTEST_PAUSE) is not None


@pytest.mark.parametrize("settings", [{"runs": frozenset({1, 2})}, {"until_idle": True}])
def test_who_gets_no_new_runs_or_must_not_rest_does_not_wait_for_any(settings: dict[str, Any]) -> None:
    made = core(threads=8, **settings)
    made.claimed(Claimed((claim(1, 100, run=1), claim(1, 101, run=2))), 0.0)
    assert made.claim_policy.want(SHORTEST_PAUSE) is not None


def test_when_more_is_left_than_was_asked_for_the_next_claim_does_not_wait() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1, 100, run=1), claim(1, 101, run=2)), ready=5), 0.0)
    assert made.claim_policy.want(0.0) is not None


def test_with_a_suspect_in_hand_nothing_else_is_wanted() -> None:
    made = core()
    made.claimed(Claimed((claim(1, deaths=Deaths(ran=2, apart=True)),)), 0.0)
    assert made.claim_policy.want(0.0) is None


def test_suspects_that_wait_too_long_stop_other_claims_until_the_process_is_empty() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1),), suspects=True), 0.0)
    assert made.claim_policy.want(SUSPECT_WAIT) is not None
    assert made.claim_policy.want(SUSPECT_WAIT + 0.1) is None
    made.released([claim(1).token])
    assert made.claim_policy.want(SUSPECT_WAIT + 0.1) is not None


def test_suspects_that_are_gone_are_forgotten() -> None:
    made = core(threads=8)
    made.claimed(Claimed((claim(1),), suspects=True), 0.0)
    made.claimed(Claimed((claim(1, first=200),)), 1.0)
    assert made.claim_policy.want(50.0) is not None


def test_a_kind_that_is_held_back_by_its_limit_is_not_hoarded() -> None:
    made = core(handler("narrow", concurrency=1), handler("wide"), threads=8)
    made.claimed(Claimed((claim(2, kind="narrow"),), ready=1), 0.0)
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert want.kinds == frozenset({"wide"})


def test_a_lane_that_is_held_back_is_left_alone_and_the_others_are_not() -> None:
    made = core(handler("narrow", concurrency=1), threads=8)
    made.claimed(Claimed((claim(2, kind="narrow", lane="left"),), ready=1), 0.0)
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert (want.kinds, want.busy_lanes) == (frozenset({"narrow"}), frozenset({"left"}))


def test_claims_are_smaller_while_memory_is_scarce() -> None:
    made = core(threads=16)
    made.claim_policy.scarce = True
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert want.limit == 4


def test_what_is_far_too_much_by_now_goes_back_the_latest_first() -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(20, 100), claim(20, 200), claim(20, 300)), ready=1_000), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, list(chunk.tasks), seconds=0.05), 0.05)
    assert made.step(0.05) == PutBack((claim(20, 300).token, claim(20, 200).token))
    made.released([claim(20, 300).token, claim(20, 200).token])
    # Of the first, what was tried is not sent yet.
    assert [holding.available for holding in made.holdings.values()] == [19]


def test_of_very_many_claims_that_go_back_some_go_at_a_time() -> None:
    made = core(threads=2)
    made.claimed(Claimed(tuple(claim(1, 100 + many) for many in range(BACK_AT_ONCE + 1))), 0.0)
    for holding in made.holdings.values():
        made.leases.send_back(holding)
    first = made.step(0.0)
    assert isinstance(first, PutBack)
    assert len(first.tokens) == BACK_AT_ONCE
    made.released(first.tokens)
    assert made.step(0.0) == PutBack((claim(1, 100 + BACK_AT_ONCE).token,))


def test_nothing_goes_back_before_something_of_it_was_tried() -> None:
    made = core(threads=2)
    made.leases.sizes.ran("work", 1, 9.0)
    made.claimed(Claimed((claim(200),), ready=1_000), 0.0)
    assert not isinstance(made.step(0.0), PutBack)
    assert lease(made).tasks


def two_sides(**settings: Any) -> Core:
    """With two threads and room for 32 coroutines."""
    return core(handler(), handler("talk", Calling.ASYNC), **{"threads": 2, "coroutines": 32, **settings})


def test_a_side_that_nothing_is_held_of_does_not_count_as_workers() -> None:
    made = two_sides()
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert (want.limit, want.kinds) == (2, frozenset({"work", "talk"}))
    made.claimed(Claimed((claim(2),), ready=100), 0.0)
    chunk = lease(made)
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert (want.limit, want.kinds) == (32, frozenset({"talk"})), "the threads have enough"
    made.claimed(Claimed(), 0.0)
    assert made.claim_policy.want(0.0) is None
    assert [made.claim_policy.is_hungry] == [False]
    # It says nothing of the threads that it found nothing.
    made.finished(Ran(chunk, list(chunk.tasks), seconds=1.0), 0.0)
    assert made.claim_policy.is_hungry
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert (want.limit, want.kinds) == (2, frozenset({"work", "talk"}))


def test_an_idle_side_is_asked_for_now_and_then_in_every_queue() -> None:
    made = two_sides(queues=Queues.of(["high", "low"]))
    for _ in range(2):
        assert made.claim_policy.want(0.0) is not None
        made.claimed(Claimed((claim(2),), ready=100), 0.0)
    asked = []
    for _ in range(2):
        want = made.claim_policy.want(0.0)
        assert want is not None
        asked.append((want.queues, want.kinds))
        made.claimed(Claimed(), 0.0)
    assert asked == [(frozenset({queue}), frozenset({"talk"})) for queue in ("high", "low")]
    assert made.claim_policy.want(0.0) is None
    # Whatever else stirs, it is asked for after its pause.
    made.stirred()
    assert made.claim_policy.want(0.0) is None
    assert made.claim_policy.want(made.claim_policy.asks_again) is not None


def test_a_side_that_was_fed_last_is_asked_for_as_many_as_it_has_workers() -> None:
    made = two_sides()
    made.claimed(Claimed((claim(1, kind="talk"),), ready=100), 0.0)
    want = made.claim_policy.want(0.0)
    assert want is not None
    assert want.limit > 2


def test_each_side_puts_back_what_is_too_much_for_it() -> None:
    made = two_sides()
    made.claimed(Claimed((claim(20, 100), claim(20, 200, kind="talk")), ready=1_000), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, list(chunk.tasks), seconds=0.5), 0.5)
    assert [holding.claim.kind for holding in made.claim_policy.surplus(0.5)] == ["work"]


def test_a_suspect_is_neither_started_nor_kept_while_others_that_returned_are_watched() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),)), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, list(chunk.tasks), seconds=0.001), 1.0)
    made.came_back(chunk)
    step = made.step(1.0)
    assert isinstance(step, Flush)
    suspect = claim(1, 500, deaths=Deaths(ran=2, apart=True))
    made.committed(step.batch, answer(suspect), 1.0)
    made.claimed(Claimed((suspect,)), 1.0)
    assert made.lease(False, 1.0) is None
    assert made.step(1.0) == PutBack((suspect.token,))
    made.released([suspect.token])
    # It is asked for when the moment is over.
    assert made.claim_policy.want(1.0) is None
    assert made.claim_policy.want(1.0 + WATCHED) is not None
    made.claimed(Claimed((suspect,)), 1.0 + WATCHED)
    assert lease(made, 1.0 + WATCHED).tasks == [500]


def test_where_suspects_wait_nothing_is_asked_for_while_others_are_watched() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),), suspects=True), 0.0)
    chunk = lease(made)
    made.finished(Ran(chunk, list(chunk.tasks), seconds=0.001), 0.1)
    made.released([chunk.claim.token])
    made.stirred()
    assert made.claim_policy.want(0.1) is None
    assert made.claim_policy.want(0.1 + WATCHED) is not None
