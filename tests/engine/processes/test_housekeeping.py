"""Housekeeping hears the news of a kernel in a thread of its own, and the last one also when it is to end."""

from __future__ import annotations

import threading

from ramify.engine.processes.housekeeping import Housekeeping
from ramify.kernel.signals import Signal, Took


def test_why_nothing_could_be_claimed_is_heard_although_the_kernel_ends_right_after_it() -> None:
    heard: list[Signal] = []
    has_heard = threading.Event()

    def listen(signal: Signal) -> None:
        heard.append(signal)
        has_heard.set()

    housekeeping = Housekeeping()
    housekeeping.listen(listen)
    first, last = Took(0), Took(0)
    housekeeping(first)
    assert has_heard.wait(10)
    # It pauses now. What comes meanwhile is the last news.
    housekeeping(last)
    housekeeping.stop()
    assert heard[-1] is last


def test_other_news_are_not_waited_for_at_the_end() -> None:
    heard: list[Signal] = []
    housekeeping = Housekeeping()
    housekeeping.listen(heard.append)
    housekeeping(Took(3))
    housekeeping.stop()
    assert heard == []
