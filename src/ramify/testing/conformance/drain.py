"""`drain`: ask a process to take nothing more, finish what it runs and leave. Its beats tell it; no more changes."""

from __future__ import annotations

from ramify.model.decision import Said
from ramify.model.process import new_process_id
from ramify.testing.conformance.house import House
from ramify.testing.conformance.registry import case


@case("drain")
def a_process_that_was_asked_to_drain_hears_of_it_by_its_beat(house: House) -> None:
    one, other = house.worker(), house.worker()
    assert not one.beat().draining
    assert house.store.drain(one.process, Said("deploy", "ann"))
    assert one.beat().draining
    assert not other.beat().draining


@case("drain")
def everybody_sees_that_it_drains_and_who_asked(house: House) -> None:
    one = house.worker()
    house.store.drain(one.process, Said("deploy \ud800", "ann", after=3, life=2))
    house.store.drain(one.process, Said("again", "bob"))
    (seen,) = house.client().reads.processes()
    assert seen.draining is not None
    assert seen.draining.by == "ann"
    assert seen.draining.reason.startswith("deploy ")
    assert (seen.draining.after, seen.draining.life) == (None, None)


@case("drain")
def what_it_holds_stays_with_it_until_it_is_done(house: House) -> None:
    run = house.run(house.tasks(3))
    one = house.worker()
    claim = one.take()
    with house.nothing_changes():
        assert house.store.drain(one.process)
    assert house.offered() == []
    one.done(claim, claim.tasks[:1])
    one.release(claim)
    assert house.offered() == list(claim.tasks[1:])
    one.store.leave(one.process)
    house.workers.remove(one)
    house.finish(run)


@case("drain")
def one_that_has_ended_cannot_be_asked(house: House) -> None:
    one = house.worker()
    one.store.leave(one.process)
    house.workers.remove(one)
    assert not house.store.drain(one.process)
    assert not house.store.drain(new_process_id())
