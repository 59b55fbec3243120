"""Waiting: a change made in this process is noticed at once, one made elsewhere soon."""

import threading

from ramify.engine.wakeups import LONGEST, Naps, Wakeups
from ramify.kernel.signals import Saved, Took


def test_a_sleeper_wakes_when_something_is_saved() -> None:
    wakeups = Wakeups()
    woken: list[bool] = []
    sleeper = threading.Thread(target=lambda: woken.append(wakeups.sleep(0, 20)))
    sleeper.start()
    wakeups(Took(3))
    wakeups(Saved(1, 0, 0, 0.0))
    sleeper.join(10)
    assert woken == [True]


def test_a_stir_between_two_sleeps_is_not_missed() -> None:
    wakeups = Wakeups()
    naps = Naps(wakeups)
    wakeups(Saved(1, 0, 0, 0.0))
    assert wakeups.sleep(0, 0) is True
    naps.sleep(20)
    assert wakeups.count == 1


def test_sleeps_end_by_themselves_so_that_changes_elsewhere_are_seen() -> None:
    wakeups = Wakeups()
    assert wakeups.sleep(wakeups.count, 0.001) is False
    naps = Naps(wakeups)
    for _ in range(30):
        naps.sleep(0.0001)
    assert naps._pause == LONGEST
