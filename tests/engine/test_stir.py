"""Waiting: a change made in this process is noticed at once, one made elsewhere soon."""

import threading

from ramify.engine.stir import LONGEST, Patience, Stir
from ramify.kernel.signals import Saved, Took


def test_a_sleeper_wakes_when_something_is_saved() -> None:
    stir = Stir()
    woken: list[bool] = []
    sleeper = threading.Thread(target=lambda: woken.append(stir.sleep(0, 20)))
    sleeper.start()
    stir(Took(3))
    stir(Saved(1, 0, 0, 0.0))
    sleeper.join(10)
    assert woken == [True]


def test_a_stir_between_two_sleeps_is_not_missed() -> None:
    stir = Stir()
    patience = Patience(stir)
    stir(Saved(1, 0, 0, 0.0))
    assert stir.sleep(0, 0) is True
    patience.sleep(20)
    assert stir.count == 1


def test_sleeps_end_by_themselves_so_that_changes_elsewhere_are_seen() -> None:
    stir = Stir()
    assert stir.sleep(stir.count, 0.001) is False
    patience = Patience(stir)
    for _ in range(30):
        patience.sleep(0.0001)
    assert patience._pause == LONGEST
