"""A session knows the store's time from answers: no verb is sent to ask for it, and waits are not cut short."""

from __future__ import annotations

import sys
import threading

from ramify.errors import StoreUnavailable
from ramify.kernel.machine import Machine
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.claim import Claimed
from ramify.model.policy import SECOND
from ramify.store.contract import Beat
from ramify.store.memory import MemoryStore
from tests.kernel.shop import Shop


class Clocked(MemoryStore):
    """Counts how often the kernel asks for the time."""

    asked = 0

    def now(self) -> int:
        self.asked += sys._getframe(1).f_globals["__name__"].startswith("ramify.kernel")
        return super().now()


class Hand:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def sender(hand: Hand) -> Sender:
    return Sender(MemoryStore(), Settings(), Signals(), threading.Event(), machine=Machine(clock=hand))


def test_no_verb_is_sent_to_ask_for_the_time() -> None:
    store = Clocked()
    shop = Shop(lambda: store)

    def flaky(left: int) -> None:
        tried.append(left)
        if len(tried) < 3:
            raise ValueError

    tried: list[int] = []
    run = shop.run(shop.task(flaky, retries=3).of(1))
    shop.close()
    assert (len(tried), shop.state(run).value) == (3, "done")
    assert store.asked == 0


def test_the_time_goes_on_from_when_the_answer_was_asked_for() -> None:
    hand = Hand()
    made = sender(hand)
    hand.seconds = 10.0

    def answer() -> Claimed:
        hand.seconds = 12.0
        return Claimed(now=500 * SECOND)

    made.until_answered(answer)
    assert made.now() == 502 * SECOND
    hand.seconds = 13.5
    assert made.now() == 503.5 * SECOND


def test_the_latest_answer_counts_and_those_that_tell_no_time_do_not() -> None:
    hand = Hand()
    made = sender(hand)
    made.heard(Claimed(now=500 * SECOND), 0.0)
    made.heard(Beat(now=900 * SECOND), 1.0)
    made.heard(Beat(reaped=True), 2.0)
    made.heard(True, 2.0)
    hand.seconds = 3.0
    assert made.now() == 902 * SECOND


def test_the_time_that_a_store_was_away_is_not_counted() -> None:
    hand = Hand()
    made = sender(hand)
    tries = []

    def answer() -> Claimed:
        tries.append(hand.seconds)
        if len(tries) == 1:
            hand.seconds = 60.0
            raise StoreUnavailable("away")
        return Claimed(now=500 * SECOND)

    made.until_answered(answer)
    assert made.now() == 500 * SECOND
