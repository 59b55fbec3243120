"""`now`, `wait`, `wake`: the store's clock, the only one that due times are compared with, and how to sleep on changes.

`wait` sleeps until something may have changed since an earlier wait, and at most as long as it is told; what it gives
back tells which of the two it was, and is what the next wait begins from. It is a hint: coming back early means little.
`wake` ends the waits of a client from another of its threads.
"""

from __future__ import annotations

import time
from threading import Thread
from typing import Self

from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.topic import Publication
from ramify.store.contract import Store
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.registry import case

DAY = 86_400.0


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


@case("now")
def now_goes_on_when_the_wall_clock_is_set_back(house: House) -> None:
    before = house.store.now()
    house.clock.set_wall(-DAY)
    assert house.store.now() == before
    house.clock.advance(90)
    assert house.store.now() == before + 90 * SECOND


@case("now")
def now_follows_a_wall_clock_that_is_ahead(house: House) -> None:
    """A machine that slept: its monotonic time stood still."""
    house.store.now()
    house.clock.set_wall(DAY)
    assert house.store.now() == house.clock.now()
    house.clock.set_wall(-DAY)
    house.clock.advance(1)
    assert house.store.now() == house.clock.now() + round(DAY) * SECOND


@case("now")
def a_wall_clock_that_was_set_back_holds_up_nothing(house: House) -> None:
    """Neither what was added before nor what is added after, nor what was put off."""
    worker = house.worker()
    early = house.tasks(due=house.store.now() + 60 * SECOND)
    house.run(early, house.tasks(1))
    taken = worker.take()
    house.clock.set_wall(-DAY)
    again = house.store.now() + 60 * SECOND
    worker.end(taken, status=Status.RETRYING, later=(Later(taken.tasks, again),))
    assert worker.claim() == ()
    house.clock.advance(60)
    assert {task for claim in worker.claim() for task in claim.tasks} == {*early.ids, *taken.tasks}


@case("now")
def a_client_begins_no_earlier_than_what_is_written_down(house: House) -> None:
    house.run(house.tasks(2))
    run_at = house.store.now()
    house.clock.set_wall(-DAY)
    assert house.client().now() == run_at
    house.clock.set_wall(DAY)
    house.clock.advance(5)
    worker = house.worker()
    worker.end(worker.take(1))
    committed_at = house.store.now()
    house.clock.set_wall(-DAY)
    later = house.client()
    assert later.now() == committed_at
    house.clock.advance(7)
    assert later.now() == house.store.now() == committed_at + 7 * SECOND


@case("wait")
def wait_returns_when_nothing_happens(house: House) -> None:
    """In real time, although the clock of the house stands still."""
    begin = time.monotonic()
    seen = house.store.wait(60, 0)
    assert house.store.wait(0, seen) == house.store.wait(0.01, seen) == seen
    assert time.monotonic() - begin < 30


@case("wait")
def wait_does_nothing_but_wait(house: House) -> None:
    house.run(house.tasks(3))
    house.worker().take(1)
    with house.nothing_changes():
        house.store.wait(0.001, house.store.wait(0, 0))


@case("wait")
def wait_says_whether_something_may_have_changed(house: House) -> None:
    waiting = house.client()
    seen = waiting.wait(0, 0)
    assert waiting.wait(0.01, seen) == seen
    house.run(house.tasks())
    now = waiting.wait(60, seen)
    assert now != seen
    assert waiting.wait(0.01, now) == now


@case("wait")
def wait_ends_when_another_client_writes(house: House) -> None:
    waiting = house.client()
    with _Sleeper(waiting) as sleeper:
        house.run(house.tasks())
    assert sleeper.is_woken


@case("wait")
def a_publication_ends_the_waits_of_others(house: House) -> None:
    waiting, worker = house.client(), house.worker()
    with _Sleeper(waiting) as sleeper:
        worker.store.swap(worker.stamp(), (), publications=[Publication("bills", b"1")])
    assert sleeper.is_woken


@case("wait")
def wait_ends_when_another_thread_writes(house: House) -> None:
    with _Sleeper(house.store) as sleeper:
        house.run(house.tasks())
    assert sleeper.is_woken


@case("wait")
def all_who_wait_at_once_hear_of_a_change(house: House) -> None:
    """Nobody's wait is used up by that of another thread."""
    waiting = house.client()
    with _Sleeper(waiting) as one, _Sleeper(waiting) as two, _Sleeper(waiting) as three:
        house.run(house.tasks())
    assert [one.is_woken, two.is_woken, three.is_woken] == [True] * 3


@case("wait")
def a_change_between_two_waits_is_not_missed(house: House) -> None:
    """Although others of the client have waited since, and have seen it."""
    waiting = house.client()
    seen = other = waiting.wait(0, 0)
    house.run(house.tasks())
    other = waiting.wait(60, other)
    assert waiting.wait(0.01, other) == other
    assert waiting.wait(60, seen) != seen


@case("wait")
def one_whose_time_is_up_leaves_the_others_able_to_hear(house: House) -> None:
    """A store may let one of them listen for all."""
    waiting = house.client()
    with _Sleeper(waiting) as sleeper:
        with _Sleeper(waiting, 0.02) as one, _Sleeper(waiting, 0.01) as two:
            pass
        assert not one.is_woken
        assert not two.is_woken
        house.run(house.tasks())
    assert sleeper.is_woken


@case("wait")
def what_a_client_wrote_itself_does_not_end_its_waits_for_ever(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    seen = worker.store.wait(0, 0)
    assert worker.store.wait(0.01, seen) == seen
    house.run(house.tasks())
    worker.done(worker.take())
    seen = worker.store.wait(60, seen)
    assert worker.store.wait(0.01, seen) == seen


@case("wait")
def those_who_find_nothing_to_do_let_one_another_sleep(house: House) -> None:
    """Asking for work, asking whether a round is over, and beating are no news to anybody."""
    run = house.run(house.tasks())
    house.worker().take()
    one, two = house.worker(), house.worker()
    seen = {worker: worker.store.wait(0, 0) for worker in (one, two)}
    for worker in (one, two, one):
        assert worker.claim() == ()
        assert not worker.store.advance([(run, 0)])[0].moved
        worker.beat()
    assert {worker: worker.store.wait(0, seen[worker]) for worker in (one, two)} == seen


@case("wake")
def wake_ends_the_waits_in_progress(house: House) -> None:
    store = house.client()
    with _Sleeper(store) as one, _Sleeper(store) as two:
        store.wake()
    assert [one.is_woken, two.is_woken] == [True, True]


@case("wake")
def a_wake_just_before_the_wait_is_not_lost(house: House) -> None:
    """Nobody can know whether the other thread sleeps already."""
    store = house.client()
    seen = store.wait(0, 0)
    store.wake()
    now = store.wait(60, seen)
    assert now != seen
    assert store.wait(0.01, now) == now


@case("wake")
def wake_concerns_one_client_and_changes_nothing(house: House) -> None:
    store, other = house.client(), house.client()
    seen = other.wait(0, 0)
    with house.nothing_changes():
        store.wake()
    assert other.wait(0.01, seen) == seen


class _Sleeper:
    """A thread that waits from the beginning of a block on, at whose end it must have returned."""

    def __init__(self, store: Store, seconds: float = 60) -> None:
        self._store, self._seconds, self._seen = store, seconds, store.wait(0, 0)
        self._found = self._seen
        self._thread = Thread(target=self._sleep)

    @property
    def is_woken(self) -> bool:
        return not self._thread.is_alive() and self._found != self._seen

    def _sleep(self) -> None:
        self._found = self._store.wait(self._seconds, self._seen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)


@case("claim")
def the_time_of_the_store_comes_with_a_claim(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    for _ in ("something to take", "nothing left"):
        house.clock.advance(3)
        assert worker.ask(want()).now == house.store.now()


@case("commit")
def the_time_of_the_store_comes_with_a_commit(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    one, other = worker.take(1), worker.take(1)
    house.clock.advance(3)
    assert worker.done(one).now == house.store.now()
    answer = worker.commit(Part(other.token, other.tasks), then=want())
    assert answer.now == answer.claimed.now == house.store.now()


@case("beat")
def the_time_of_the_store_comes_with_a_beat(house: House) -> None:
    worker = house.worker()
    house.clock.advance(1)
    assert worker.beat().now == house.store.now()
