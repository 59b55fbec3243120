"""`vacuum`: remove up to `limit` garbage rows, expired keys and old sessions. It touches nothing else."""

from __future__ import annotations

from ramify.errors import Reaped
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.model.segment import SegmentState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import DEAD_AFTER, House, refused
from ramify.testing.conformance.registry import case

DAY = 86_400


@case("vacuum")
def garbage_is_removed(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.stage(claim, house.tasks(10))
    worker.stage(claim, house.tasks(5))
    worker.done(claim)
    assert {row.state for row in house.segments(run)} == {SegmentState.GARBAGE}
    assert house.store.vacuum().tasks == 15
    assert house.segments(run) == []
    assert house.store.vacuum().tasks == 0


@case("vacuum")
def garbage_is_removed_bit_by_bit(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.stage(claim, house.tasks(100))
    worker.done(claim)
    removed = []
    while (now := house.store.vacuum(limit=30).tasks) > 0:
        assert now <= 30
        removed.append(now)
    assert sum(removed) == 100
    assert house.segments(run) == []


@case("vacuum")
def the_rows_of_a_live_stream_stay(house: House) -> None:
    """Staged is not garbage: its publisher is alive."""
    house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(5)
    worker.stage(claim, staged)
    with house.nothing_changes():
        assert house.store.vacuum().tasks == 0
    worker.done(claim, publish=[staged.first])
    assert house.offered() == list(staged.ids)


@case("vacuum")
def published_tasks_and_their_events_stay(house: House) -> None:
    run = house.any_run(house.tasks(3), house.tasks(keys=[b"k"], hold=Hold.ONCE))
    worker = house.worker()
    worker.end(worker.claim(2)[0], status=Status.FAILED)
    with house.nothing_changes():
        house.store.vacuum()
    house.finish(run)
    house.clock.advance(2 * DAY)
    with house.nothing_changes():
        house.store.vacuum()


@case("vacuum")
def expired_keys_are_removed_and_held_ones_stay(house: House) -> None:
    run = house.queue()
    house.add(run, house.tasks(keys=[b"kept"], hold=Hold.UNIQUE, keep=60 * SECOND))
    house.finish(run)
    house.add(run, house.tasks(keys=[b"held"], hold=Hold.UNIQUE), house.tasks(keys=[b"ever"], hold=Hold.ONCE))
    assert house.store.vacuum().keys == 0
    house.clock.advance(61)
    assert house.store.vacuum().keys == 1
    answer = house.add(
        run, house.tasks(2, keys=[b"kept", b"held"], hold=Hold.UNIQUE), house.tasks(keys=[b"ever"], hold=Hold.ONCE)
    )
    assert answer.taken == {(0, 1), (1, 0)}


@case("vacuum")
def the_session_of_the_dead_outlives_it_by_a_day(house: House) -> None:
    """A verb delivered late must still meet its number."""
    frozen, reaper = house.worker(), house.worker()
    house.write_off(frozen, by=reaper)
    assert house.store.vacuum().sessions == 0
    with refused(Reaped):
        frozen.claim()
    house.clock.advance(2 * DAY)
    reaper.beat()
    assert house.store.vacuum().sessions == 1
    assert [p.id for p in house.store.reads.processes()] == [reaper.process]
    with refused(Reaped):
        frozen.claim()


@case("vacuum")
def the_sessions_of_the_living_stay(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    for _ in range(3):
        house.clock.advance(DAY)
        worker.beat()
        house.store.vacuum()
    worker.done(claim)


@case("vacuum")
def a_process_that_holds_something_stays_until_it_is_reaped(house: House) -> None:
    house.run(house.tasks())
    frozen = house.worker()
    frozen.take()
    house.workers.remove(frozen)
    house.clock.advance(3 * DAY)
    house.store.vacuum()
    reaper = house.worker()
    house.watch(2 * DEAD_AFTER)
    assert reaper.reap().processes == (frozen.process,)
    assert len(house.offered()) == 1
