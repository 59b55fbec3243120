"""`enter`, `leave`, `close`: a process exists from its entering until it leaves or is reaped.

From `enter` on it beats, may be reaped, and its stamps are accepted. `leave` offers what it still holds again without
blame, and its stamps are refused from then on. A client that is closed leaves its process's claims where they are. What
one client wrote, every other client sees, whatever became of the first.
"""

from __future__ import annotations

import os
from typing import Any

from ramify.errors import RamifyError, Reaped
from ramify.model.death import NO_DEATHS
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.segment import SegmentState
from ramify.store.contract import Beat
from ramify.testing.conformance.house import House, only, refused, want
from ramify.testing.conformance.registry import case


@case("enter")
def a_process_that_entered_is_listed_with_what_it_said(house: House) -> None:
    process = new_process_id()
    what = ("walk", "größe"), ()
    house.store.enter(NewProcess(process, 17, "mill", "7.1", 16, *what, boot="b-1", pids="pid:[9]"))
    seen = only(house.store.reads.processes())
    assert (seen.id, seen.pid, seen.host, seen.entered) == (process, 17, "mill", house.clock.now())
    assert (seen.boot, seen.pids, seen.draining, seen.parent) == ("b-1", "pid:[9]", None, 16)
    assert (seen.kinds, seen.queues, seen.version) == (("walk", "größe"), (), "7.1")
    assert not seen.reaped


@case("enter")
def a_process_need_not_say_what_it_knows(house: House) -> None:
    house.store.enter(NewProcess(new_process_id()))
    seen = only(house.store.reads.processes())
    assert (seen.kinds, seen.queues) == (None, None)


@case("enter")
def to_enter_is_the_first_beat_and_tells_of_the_peers(house: House) -> None:
    one, two = new_process_id(), new_process_id()
    assert house.store.enter(NewProcess(one)) == Beat(peers=1, now=house.store.now())
    assert house.store.enter(NewProcess(two)).peers == 2
    assert house.store.enter(NewProcess(two)).peers == 2
    house.store.leave(one)
    assert house.store.enter(NewProcess(new_process_id())).peers == 2


@case("enter")
def the_stamps_of_a_process_that_never_entered_are_refused(house: House) -> None:
    house.run(house.tasks())
    with refused(Reaped):
        house.store.claim(Stamp(new_process_id(), 1), want())


@case("enter")
def entering_again_changes_nothing(house: House) -> None:
    """An outcome that is unknown is sent again: the numbers used and the claims held must survive that."""
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.store.enter(NewProcess(worker.process, host="house"))
    assert len(house.store.reads.processes()) == 1
    assert worker.store.claim(worker.last, want()).claims[0].token == claim.token
    worker.done(claim)


@case("enter")
def a_process_that_was_reaped_cannot_enter_under_its_old_id(house: House) -> None:
    house.run(house.tasks())
    frozen = house.worker()
    house.write_off(frozen)
    with refused(RamifyError):
        frozen.store.enter(NewProcess(frozen.process))
        frozen.claim()


@case("leave")
def what_a_leaver_holds_is_offered_again_without_blame(house: House) -> None:
    run = house.run(house.tasks(5))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:2])
    worker.store.leave(worker.process)
    assert [row.deaths for row in house.live(run)] == [NO_DEATHS]
    assert house.offered() == list(claim.tasks[2:])


@case("leave")
def the_stamps_of_a_leaver_are_refused(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    worker.store.leave(worker.process)
    for late in (worker.claim, lambda: worker.release(claim), lambda: worker.done(claim)):
        with refused(Reaped):
            late()


@case("leave")
def what_a_leaver_had_staged_becomes_garbage(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    assert worker.stage(worker.take(), house.tasks(3))
    worker.store.leave(worker.process)
    assert [row.state for row in house.segments(run) if row not in house.live(run)] == [SegmentState.GARBAGE]


@case("leave")
def leaving_twice_is_leaving_once(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    worker.take()
    worker.store.leave(worker.process)
    successor = house.worker()
    claim = successor.take()
    worker.store.leave(worker.process)
    successor.done(claim)


@case("close")
def a_closed_client_leaves_its_claims_with_its_process(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    worker.take()
    worker.store.close()
    assert house.offered() == []


@case("close")
def closing_twice_is_closing_once(house: House) -> None:
    store = house.client()
    store.close()
    store.close()
    house.run(house.tasks())
    assert len(house.offered()) == 1


@case("close")
def what_a_client_wrote_is_there_for_the_next_one(house: House) -> None:
    run = house.run(house.tasks(3), name="crawl")
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:1])
    before = house.picture()
    house.close()
    house.store = house.client()
    assert house.picture() == before
    assert house.store.reads.run(run).name == "crawl"


@case("id")
def every_client_sees_the_id_that_the_store_was_created_with(house: House) -> None:
    own = house.store.id
    assert len(own) >= 16, "too short to be chosen at random by every store in the world"
    assert own.isascii()
    assert own.isalnum(), "it is a part of idempotency keys, whose parts are joined by dashes"
    house.run(house.tasks())
    assert house.client().id == own
    house.close()
    house.store = house.client()
    assert house.store.id == own


@case("describe")
def a_store_says_what_it_is_and_what_it_keeps(house: House) -> None:
    said = house.store.describe()
    assert said.name
    assert said.location
    assert said.keeps
    assert said.lacks


@case("describe")
def what_a_store_says_it_can_do_is_so(house: House) -> None:
    said = house.store.describe()
    house.run(house.tasks(), name="crawl")
    assert said.file is None or os.path.isfile(said.file)
    assert hasattr(house.store.reads, "sql") == said.sql
    if said.sql:
        asking: Any = house.store.reads
        assert list(asking.sql("SELECT :run", {"run": 7}).rows) == [(7,)]
    assert house.client().describe() == said
