"""Which queue is asked for next: in order, by weight, and none more than once while there is nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from ramify.errors import ConfigError
from ramify.kernel.core.queues import Queues, Turns
from ramify.kernel.tuning import LONGEST_PAUSE, SHORTEST_PAUSE
from ramify.model.claim import Claimed
from tests.kernel.claims import claim, core

HIGH, LOW = frozenset({"high"}), frozenset({"low"})


def asked(turns: Turns, now: float = 0.0, *, busy: bool = False) -> frozenset[str] | None:
    """The queue that is asked for, if any."""
    choice = turns.next(now, asks_again=busy)
    return None if choice is None else choice.queues


def serve(turns: Turns, left: Counter[str], times: int, size: int = 4) -> Counter[str]:
    """What is taken of queues with so many tasks each, in so many claims."""
    taken: Counter[str] = Counter()
    turns.stirred()
    for _ in range(times):
        choice = turns.next(0.0, asks_again=True)
        assert choice is not None
        assert choice.queues is not None
        (name,) = choice.queues
        many = min(size, left[name])
        left[name] -= many
        taken[name] += many
        turns.fed(Claimed((claim(many),) if many else (), ready=left[name]), 0.0)
    return taken


def test_the_later_queue_is_asked_only_while_the_earlier_is_empty() -> None:
    turns = Turns(Queues.of(["high", "low"]))
    assert serve(turns, Counter(high=8, low=100), 3) == {"high": 8, "low": 4}
    assert serve(turns, Counter(high=100, low=100), 3) == {"high": 12}


def test_one_empty_queue_does_not_make_the_process_dry_for_the_others() -> None:
    turns = Turns(Queues.of(["high", "low"]))
    assert asked(turns) == HIGH
    turns.fed(Claimed(), 0.0)
    assert not turns.is_dry
    assert asked(turns) == LOW
    turns.fed(Claimed((claim(3),), ready=5), 0.0)
    assert (turns.is_dry, turns.ready) == (False, 5)


def test_an_idle_process_asks_once_for_each_choice_until_something_stirs() -> None:
    turns = Turns(Queues.of(["high", "low"]))
    for _ in range(2):
        assert asked(turns) == HIGH
        turns.fed(Claimed(), 0.0)
        assert asked(turns) == LOW
        turns.fed(Claimed(), 0.0)
        assert turns.is_dry
        assert asked(turns, 1_000.0) is None
        turns.stirred()


def test_a_busy_process_looks_into_the_earlier_queue_again_after_a_pause() -> None:
    turns = Turns(Queues.of(["high", "low"]))
    assert asked(turns) == HIGH
    turns.fed(Claimed(), 0.0)
    assert asked(turns, busy=True) == LOW
    turns.fed(Claimed((claim(3),), ready=5), 0.0)
    assert asked(turns, busy=True) == LOW
    assert asked(turns, LONGEST_PAUSE, busy=True) == HIGH


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_queues_that_are_never_empty_share_by_weight(size: int) -> None:
    turns = Turns(Queues.of({"high": 3, "low": 1}))
    taken = serve(turns, Counter(high=10**6, low=10**6), 400, size)
    assert taken == {"high": 300 * size, "low": 100 * size}


def test_a_queue_that_was_empty_has_saved_nothing_up() -> None:
    turns = Turns(Queues.of({"high": 3, "low": 1}))
    serve(turns, Counter(high=10**6), 200)
    taken = serve(turns, Counter(high=10**6, low=10**6), 40)
    assert 36 <= taken["low"] <= 48


def test_a_set_of_queues_is_asked_for_at_once() -> None:
    turns = Turns(Queues.of({"high", "low"}))
    assert asked(turns) == HIGH | LOW
    turns.fed(Claimed(), 0.0)
    assert turns.is_dry


def test_a_process_claims_of_one_choice_after_the_other_and_then_rests() -> None:
    made = core(queues=Queues.of(["high", "low"]))
    wants = []
    for _ in range(2):
        want = made.claim_policy.want(0.0)
        assert want is not None
        wants.append(want.queues)
        made.claimed(Claimed(), 0.0)
    assert wants == [HIGH, LOW]
    assert made.claim_policy.want(0.0) is None


# rows that are due later


def test_a_queue_is_asked_again_when_its_next_row_is_due() -> None:
    turns = Turns(Queues.of(["high", "low"]))
    assert turns.next_due == math.inf
    for seconds in (5.0, 3.0):
        turns.next(0.0, asks_again=False)
        turns.fed(Claimed(next_due=seconds), 0.0)
    assert turns.next_due == 3.0
    assert not turns.ripen(2.9)
    assert turns.is_dry
    assert turns.ripen(3.0)
    assert not turns.ripen(3.0), "it is asked already"
    assert asked(turns, 3.0) == LOW, "of the other nothing is due yet"
    turns.fed(Claimed(), 3.0)
    assert turns.next_due == 5.0


def test_the_last_answer_says_when_the_next_row_is_due() -> None:
    turns = Turns(None)
    turns.fed(Claimed(next_due=1.0), 0.0)
    turns.fed(Claimed(next_due=9.0), 0.0)
    assert turns.next_due == 9.0
    turns.fed(Claimed((claim(1),)), 0.0)
    assert turns.next_due == math.inf


def test_answers_that_are_too_early_again_and_again_are_waited_for_ever_longer() -> None:
    turns, now, asked_at = Turns(None), 0.0, []
    while now < 1.0:
        asked_at.append(now)
        # What another process took, or what nobody here knows, may be due at any moment.
        turns.fed(Claimed(next_due=0.0), now)
        # The rest ends, which stirs, and it ends a little early.
        now = turns.next_due - 1e-6
        turns.stirred()
    assert asked_at[1] <= 2 * SHORTEST_PAUSE
    assert len(asked_at) < 30
    turns.fed(Claimed((claim(1),)), now)
    turns.fed(Claimed(next_due=0.0), now)
    assert turns.next_due == now + SHORTEST_PAUSE


def test_a_row_that_is_due_much_later_is_not_waited_for_any_longer_than_that() -> None:
    turns, now = Turns(None), 0.0
    for _ in range(20):
        turns.fed(Claimed(next_due=0.3), now)
        assert turns.next_due == now + 0.3
        now += 0.3


def test_suspects_of_one_queue_are_not_forgotten_over_another() -> None:
    turns = Turns(Queues.of(["high", "low"]))
    assert asked(turns) == HIGH
    turns.fed(Claimed(suspects=True), 0.0)
    assert asked(turns) == LOW
    turns.fed(Claimed(), 0.0)
    assert turns.suspects


@pytest.mark.parametrize(
    "given", ["high", 5, ["high", "high"], [""], [5], {""}, {"": 1}, {"high": 0}, {"high": True}, {"high": 1.5}]
)
def test_what_makes_no_sense_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="queues="):
        Queues.of(given)


@pytest.mark.parametrize("given", [[], set(), {}])
def test_no_queues_are_none_and_not_all(given: list[str] | set[str] | Mapping[str, int]) -> None:
    assert asked(Turns(Queues.of(given))) == frozenset()
