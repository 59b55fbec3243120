"""`now` and `wait`: the store's clock, the only one that due times are compared with, and a way to sleep on changes.

`wait` sleeps until something may have changed, and at most as long as it is told. It is a hint: a change may be
missed, and coming back early means nothing.
"""

from __future__ import annotations

import time

from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House
from ramify.testing.conformance.registry import case


@case("now")
def now_is_the_clock_the_store_was_given(house: House) -> None:
    assert house.store.now() == house.clock.now()
    house.clock.advance(90)
    assert house.store.now() == house.clock.now()


@case("now")
def all_clients_read_the_same_clock(house: House) -> None:
    before = house.client().now()
    house.clock.advance(1)
    assert house.client().now() - before == SECOND


@case("wait")
def wait_returns_when_nothing_happens(house: House) -> None:
    """In real time, although the clock of the house stands still."""
    begin = time.monotonic()
    house.store.wait(0)
    house.store.wait(0.01)
    assert time.monotonic() - begin < 30


@case("wait")
def wait_does_nothing_but_wait(house: House) -> None:
    house.run(house.tasks(3))
    house.worker().take(1)
    with house.nothing_changes():
        house.store.wait(0.001)
