"""`beat`: say "alive" by the store's clock; hear whether this process was reaped and of marks on the runs it holds.

It also tells which of those runs are paused, and how many sessions have not ended.

(The marks themselves are the matter of `cancel.py` and `cancel_tasks.py`, the reaping of `reap.py`.)
"""

from __future__ import annotations

from ramify.testing.conformance.house import DEAD_AFTER, House, only
from ramify.testing.conformance.registry import case


@case("beat")
def a_beat_is_seen_by_everybody(house: House) -> None:
    worker = house.worker()
    house.clock.advance(10)
    beat = worker.beat()
    assert not beat.reaped
    assert beat.marks == ()
    assert only(house.client().reads.processes()).beat_age == 0
    house.clock.advance(7)
    assert only(house.client().reads.processes()).beat_age == 7
    worker.beat()
    assert only(house.client().reads.processes()).beat_age == 0


@case("beat")
def a_beat_changes_nothing_else(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    with house.nothing_changes():
        worker.beat()
    worker.done(claim)


@case("beat")
def a_reaped_process_hears_of_it(house: House) -> None:
    frozen, other = house.worker(), house.worker()
    house.write_off(frozen, by=other)
    assert frozen.beat().reaped
    assert not other.beat().reaped


@case("beat")
def a_beat_does_not_bring_the_dead_back(house: House) -> None:
    house.run(house.tasks())
    frozen = house.worker()
    frozen.take()
    house.write_off(frozen)
    frozen.beat()
    frozen.beat()
    assert frozen.beat().reaped
    assert len(house.offered()) == 1


@case("beat")
def a_parent_may_beat_for_a_process_that_says_nothing(house: House) -> None:
    silent, other, parent = house.worker(), house.worker(), house.client()
    for _ in range(8):
        house.clock.advance(DEAD_AFTER / 4)
        other.beat()
        assert not parent.beat(silent.process).reaped
    reap = other.reap()
    assert (reap.clean_window, reap.processes) == (True, ())


@case("beat")
def nobody_beats_for_the_dead(house: House) -> None:
    dead, other = house.worker(), house.worker()
    house.bury(dead, by=other)
    assert house.client().beat(dead.process).reaped


@case("beat")
def marks_on_runs_that_are_not_held_are_not_told(house: House) -> None:
    held, other = house.run(house.tasks(kind="walk")), house.run(house.tasks(kind="copy"))
    worker = house.worker()
    worker.take(kinds=["walk"])
    house.worker().take(kinds=["copy"])
    house.store.cancel(other)
    assert worker.beat().marks == ()
    house.store.cancel(held)
    assert [mark.run for mark in worker.beat().marks] == [held]


@case("beat")
def the_paused_ones_of_the_runs_it_holds_are_told(house: House) -> None:
    held, other = house.run(house.tasks(kind="walk")), house.run(house.tasks(kind="copy"))
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    house.worker().take(kinds=["copy"])
    house.store.pause(other)
    assert worker.beat().paused == ()
    house.store.pause(held)
    assert worker.beat().paused == (held,)
    house.store.resume(held)
    assert worker.beat().paused == ()
    house.store.pause(held)
    worker.done(claim)
    assert worker.beat().paused == ()


@case("beat")
def every_session_that_has_not_ended_is_a_peer(house: House) -> None:
    one = house.worker()
    assert one.beat().peers == 1
    two, three = house.worker(), house.worker()
    assert [worker.beat().peers for worker in (one, two, three)] == [3, 3, 3]
    two.store.leave(two.process)
    assert one.beat().peers == 2
    house.workers.remove(two)
    house.bury(three, by=one)
    assert one.beat().peers == 1
