"""Ids come from a block of one's own, and the store is asked once in many."""

from __future__ import annotations

from ramify.kernel.machine import Machine
from ramify.kernel.outgoing.ids import Ids


class Reserved:
    """A store's ids: how often it was asked, and what is next."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.next = 1

    def __call__(self, count: int) -> int:
        self.asked.append(count)
        self.next += count
        return self.next - count


def test_the_store_is_asked_once_in_many() -> None:
    store = Reserved()
    ids = Ids(store, 4, 100)
    assert [ids.reserve(2) for _ in range(10)] == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
    assert store.asked == [4, 100]


def test_ids_above_one_are_of_a_block_that_begins_above_it() -> None:
    store = Reserved()
    ids = Ids(store, 4, 100)
    ids.reserve(1)
    store(10)
    assert ids.reserve(1, above=8) > 8


def test_ids_of_things_in_order_come_from_a_young_block() -> None:
    store, now = Reserved(), 0.0
    ids = Ids(store, 4, 100, Machine(clock=lambda: now))
    assert ids.reserve(1, younger=1.0) == 1
    another = store(5)
    now = 0.9
    assert ids.reserve(1, younger=1.0) == 2
    now = 1.0
    assert ids.reserve(1, younger=1.0) > another
    now = 99.0
    assert ids.reserve(1) == ids.reserve(1) - 1, "others do not care"
