"""`now`, `wait`, `wake`: the store's clock, the only one that due times are compared with, and how to sleep on changes.

`wait` sleeps until something may have changed since the last wait of the same client, and at most as long as it is
told; it says which of the two it was. It is a hint: a change may be missed, and coming back early means little. `wake`
ends a wait from another thread.
"""

from __future__ import annotations

import time
from threading import Thread

from ramify.model.commit import Later, Part
from ramify.model.event import Status
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
    house.store.wait(0)
    house.store.wait(0.01)
    assert time.monotonic() - begin < 30


@case("wait")
def wait_does_nothing_but_wait(house: House) -> None:
    house.run(house.tasks(3))
    house.worker().take(1)
    with house.nothing_changes():
        house.store.wait(0.001)


@case("wait")
def wait_says_whether_something_may_have_changed(house: House) -> None:
    waiting = house.client()
    waiting.wait(0)
    assert not waiting.wait(0.01)
    house.run(house.tasks())
    assert waiting.wait(60)
    assert not waiting.wait(0.01)


@case("wait")
def wait_ends_when_another_client_writes(house: House) -> None:
    waiting = house.client()
    waiting.wait(0)
    heard: list[bool] = []
    thread = Thread(target=lambda: heard.append(waiting.wait(60)))
    thread.start()
    house.run(house.tasks())
    thread.join(60)
    assert heard == [True]


@case("wait")
def what_a_client_wrote_itself_does_not_end_its_waits_for_ever(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    worker.store.wait(0)
    assert not worker.store.wait(0.01)


@case("wait")
def those_who_find_nothing_to_do_let_one_another_sleep(house: House) -> None:
    """Asking for work, asking whether a round is over, and beating are no news to anybody."""
    run = house.run(house.tasks())
    house.worker().take()
    one, two = house.worker(), house.worker()
    one.store.wait(0)
    two.store.wait(0)
    for worker in (one, two, one):
        assert worker.claim() == ()
        assert not worker.store.advance([(run, 0)])[0].moved
        worker.beat()
    assert not one.store.wait(0)
    assert not two.store.wait(0)


@case("wake")
def wake_ends_a_wait_in_progress(house: House) -> None:
    store = house.client()
    store.wait(0)
    heard: list[bool] = []
    thread = Thread(target=lambda: heard.append(store.wait(60)))
    begin = time.monotonic()
    thread.start()
    store.wake()
    thread.join(60)
    assert heard == [True]
    assert time.monotonic() - begin < 30


@case("wake")
def a_wake_just_before_the_wait_is_not_lost(house: House) -> None:
    """Nobody can know whether the other thread sleeps already."""
    store = house.client()
    store.wait(0)
    store.wake()
    assert store.wait(60)
    assert not store.wait(0.01)


@case("wake")
def wake_concerns_one_client_and_changes_nothing(house: House) -> None:
    store, other = house.client(), house.client()
    other.wait(0)
    with house.nothing_changes():
        store.wake()
    assert not other.wait(0.01)


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
