"""`reap`: bury dead processes: mark each and void its claims in one transaction, deciding on what it locks.

A process is dead when the store knows it for certain, or when it has not beaten for `dead_after` seconds and the
caller has itself beaten without a gap for that long. Each is buried as by `bury`, with what it left to tell how it
died: here nothing, so nobody is marked for it. It writes no ends.
"""

from __future__ import annotations

from contextlib import suppress

from ramify.errors import Reaped
from ramify.model.death import NO_DEATHS
from ramify.model.process import NewProcess, new_process_id
from ramify.model.segment import SegmentState
from ramify.store.contract import GAP_SHARE
from ramify.testing.conformance.house import DEAD_AFTER, House, refused
from ramify.testing.conformance.registry import case


@case("reap")
def the_work_of_the_dead_is_offered_again(house: House) -> None:
    run = house.run(house.tasks(5))
    worker = house.worker()
    claim = worker.take()
    reap = house.bury(worker)
    assert reap.processes == (worker.process,)
    assert reap.tasks == 5
    assert [(row.state, row.owner) for row in house.live(run)] == [(SegmentState.READY, None)]
    assert sorted(task for row in house.live(run) for task in row.tasks) == list(claim.tasks)


@case("reap")
def what_the_dead_had_finished_is_not_offered_again(house: House) -> None:
    run = house.run(house.tasks(6))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[1:4])
    assert house.bury(worker).tasks == 3
    assert sorted(task for row in house.live(run) for task in row.tasks) == [claim.tasks[0], *claim.tasks[4:]]


@case("reap")
def each_row_of_the_dead_is_offered_again_as_it_was(house: House) -> None:
    run = house.any_run(house.tasks(3), house.tasks(2, kind="copy", queue="slow"))
    worker = house.worker()
    assert len(worker.claim()) == 2
    house.bury(worker)
    assert [(row.kind, row.queue, len(row.tasks), row.deaths) for row in house.live(run)] == [
        ("walk", "default", 3, NO_DEATHS),
        ("copy", "slow", 2, NO_DEATHS),
    ]


@case("reap")
def it_writes_no_ends(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    worker.take()
    house.bury(worker)
    assert not house.log()
    assert house.store.reads.run(run).state.value == "open"


@case("reap")
def the_tokens_of_the_dead_are_void_at_once(house: House) -> None:
    house.run(house.tasks(3))
    frozen = house.worker()
    claim = frozen.take()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        frozen.done(claim)


@case("reap")
def the_dead_are_listed_as_reaped(house: House) -> None:
    worker, reaper = house.worker(), house.worker()
    house.bury(worker, by=reaper)
    assert {p.id: p.reaped for p in house.store.reads.processes()} == {worker.process: True, reaper.process: False}


@case("reap")
def nobody_is_buried_twice(house: House) -> None:
    house.run(house.tasks())
    worker, reaper = house.worker(), house.worker()
    worker.take()
    house.bury(worker, by=reaper)
    with house.nothing_changes():
        again = reaper.reap()
    assert (again.processes, again.tasks) == ((), 0)


@case("reap")
def who_beats_is_not_buried(house: House) -> None:
    house.run(house.tasks())
    worker, reaper = house.worker(), house.worker()
    claim = worker.take()
    house.watch(10 * DEAD_AFTER)
    assert reaper.reap().processes == ()
    worker.done(claim)


@case("reap")
def who_is_silent_for_less_than_dead_after_is_not_buried(house: House) -> None:
    house.run(house.tasks())
    worker, reaper = house.worker(), house.worker()
    house.watch(2 * DEAD_AFTER)
    claim = worker.take()
    house.watch(DEAD_AFTER * 3 / 4, silent=[worker])
    assert reaper.reap().processes == ()
    worker.done(claim)


@case("reap")
def who_was_silent_itself_buries_nobody(house: House) -> None:
    """The store was away, or the machine asleep: everybody was silent, and nobody is dead."""
    house.run(house.tasks(4))
    workers = [house.worker() for _ in range(4)]
    claims = [worker.take(1) for worker in workers]
    house.watch(2 * DEAD_AFTER)
    house.clock.advance(3 * DEAD_AFTER)
    first = workers[0]
    first.beat()
    with house.nothing_changes():
        reap = first.reap()
    assert (reap.processes, reap.clean_window) == ((), False)
    house.clock.advance(1)
    for worker in workers:
        worker.beat()
    house.watch(2 * DEAD_AFTER)
    assert first.reap().processes == ()
    for worker, claim in zip(workers, claims, strict=True):
        worker.done(claim)


@case("reap")
def a_window_begins_anew_after_a_gap(house: House) -> None:
    """Beating again for less than `dead_after` is not enough, for that long it is."""
    frozen, reaper = house.worker(), house.worker()
    house.watch(2 * DEAD_AFTER)
    house.clock.advance(DEAD_AFTER / GAP_SHARE + 1)
    reaper.beat()
    house.watch(DEAD_AFTER * 3 / 4, silent=[frozen])
    assert not reaper.reap().clean_window
    house.watch(DEAD_AFTER / 2, silent=[frozen])
    reap = reaper.reap()
    assert reap.clean_window
    assert reap.processes == (frozen.process,)


@case("reap")
def a_newcomer_buries_nobody(house: House) -> None:
    frozen = house.worker()
    house.clock.advance(2 * DEAD_AFTER)
    newcomer = house.worker()
    reap = newcomer.reap()
    assert (reap.processes, reap.clean_window) == ((), False)
    assert not frozen.beat().reaped


@case("reap")
def who_entered_and_never_beat_is_buried_in_the_end(house: House) -> None:
    """A crash inside `enter` leaves this."""
    process = new_process_id()
    house.client().enter(NewProcess(process))
    reaper = house.worker()
    house.watch(DEAD_AFTER / 2)
    assert reaper.reap().processes == ()
    house.watch(2 * DEAD_AFTER)
    assert reaper.reap().processes == (process,)


@case("reap")
def the_dead_bury_nobody(house: House) -> None:
    house.run(house.tasks())
    worker, frozen = house.worker(), house.worker()
    claim = worker.take()
    house.write_off(frozen)
    house.watch(2 * DEAD_AFTER, silent=[worker])
    with suppress(Reaped):
        assert frozen.reap().processes == ()
    worker.beat()
    worker.done(claim)


@case("reap")
def who_left_is_not_buried(house: House) -> None:
    worker, reaper = house.worker(), house.worker()
    worker.store.leave(worker.process)
    house.workers.remove(worker)
    house.watch(2 * DEAD_AFTER)
    assert reaper.reap().processes == ()


@case("reap")
def several_are_buried_at_once(house: House) -> None:
    run = house.run(house.tasks(4))
    dead = [house.worker() for _ in range(3)]
    for worker in dead:
        worker.take(1)
    reaper = house.worker()
    house.watch(2 * DEAD_AFTER, silent=dead)
    reap = reaper.reap()
    assert set(reap.processes) == {worker.process for worker in dead}
    assert reap.tasks == 3
    assert [len(row.tasks) for row in house.live(run)] == [1, 1, 1, 1]


@case("reap")
def the_work_of_the_dead_in_a_paused_run_waits_for_resume(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.take()
    house.store.pause(run)
    house.bury(worker)
    assert house.offered() == []
    house.store.resume(run)
    assert len(house.offered()) == 1
