"""`Claimed.next_due`: a claim that finds nothing says how long it is until the next row is due that it could take.

It may say less than that, never more, so that a process which rests that long and asks again is never late. Only rows
count that the same want could take: no other kind, queue, run or lane, nothing gated, nothing parked.
"""

from __future__ import annotations

from ramify.model.commit import Later
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.policy import PARKED
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.registry import case

#: More rows than a store looks at for its answer, and more than it reads at a time of those that are due.
MANY_ROWS = 600
#: More claims than a process needs to wait for one row behind so many others.
MANY_CLAIMS = 100


@case("claim")
def one_that_finds_nothing_says_when_the_next_row_is_due(house: House) -> None:
    now, run = house.clock.now(), house.queue()
    worker = house.worker()
    assert worker.ask(want()).next_due is None
    for seconds in (20, 4, 10):
        house.add(run, house.tasks(due=now + seconds * SECOND))
    assert worker.ask(want()).next_due == 4.0
    house.clock.advance(3.5)
    assert worker.ask(want()).next_due == 0.5
    house.clock.advance(0.5)
    assert worker.take().tasks
    assert worker.ask(want()).next_due == 6.0


@case("claim")
def a_row_that_was_put_off_is_the_next_one_due(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, house.clock.now() + 30 * SECOND)])
    assert house.worker().ask(want()).next_due == 30.0


@case("claim")
def a_suspect_that_was_put_off_is_the_next_one_due(house: House) -> None:
    house.run(house.tasks())
    for _ in range(2):
        victim = house.worker()
        house.kill(victim, Death(dict.fromkeys(victim.take().tasks, 5), evidence=True))
    worker = house.worker()
    claim = worker.take()
    assert claim.deaths.apart
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, house.clock.now() + 30 * SECOND)])
    assert worker.ask(want()).next_due == 30.0
    assert worker.ask(want(kinds=["copy"])).next_due is None
    house.clock.advance(30)
    assert worker.take().tasks


@case("claim")
def only_rows_that_the_same_want_could_take_are_the_next_ones_due(house: House) -> None:
    due = house.clock.now() + 5 * SECOND
    others = ({"kind": "copy"}, {"queue": "slow"}, {"lane": "a.org"}, {"due": PARKED})
    served = [house.any_run(house.tasks(**({"due": due} | columns))) for columns in others]
    house.any_run(house.tasks(due=due))  # of no wanted run
    wanted = want(kinds=["walk"], queues=["default"], runs=served, busy_lanes=["a.org"])
    assert house.worker().ask(wanted).next_due is None
    house.add(served[0], house.tasks(due=due + SECOND))
    assert house.worker().ask(wanted).next_due == 6.0


@case("claim")
def rows_of_a_paused_run_are_not_the_next_ones_due(house: House) -> None:
    due = house.clock.now() + 5 * SECOND
    paused = house.any_run(house.tasks(due=due))
    house.any_run(house.tasks(due=due + SECOND))
    worker = house.worker()
    assert worker.ask(want()).next_due == 5.0
    house.store.pause(paused)
    assert worker.ask(want()).next_due == 6.0
    house.store.resume(paused)
    assert worker.ask(want()).next_due == 5.0


@case("claim")
def rows_of_a_round_that_is_not_open_are_not_the_next_ones_due(house: House) -> None:
    run = house.run(house.tasks(kind="copy"))
    house.add(run, house.tasks(due=house.clock.now() + 5 * SECOND))
    worker = house.worker()
    assert worker.ask(want(kinds=["walk"])).next_due is None
    worker.done(worker.take(kinds=["copy"]))
    assert house.settle(run).round == 1
    assert worker.ask(want(kinds=["walk"])).next_due == 5.0


@case("claim")
def due_rows_that_are_not_wanted_do_not_hide_the_next_one(house: House) -> None:
    now = house.clock.now()
    house.any_run(*(house.tasks(kind=f"cron {n}", due=now - n) for n in range(MANY_ROWS)))
    house.any_run(house.tasks(due=now + 5 * SECOND))
    worker = house.worker()
    assert worker.ask(want()).next_due == 5.0
    house.clock.advance(5)
    assert worker.take().tasks
    assert worker.ask(want()).next_due is None


@case("claim")
def who_rests_until_the_next_row_is_due_is_never_late(house: House) -> None:
    """However many rows of others become due before it."""
    now, left = house.clock.now(), 10.0
    house.any_run(*(house.tasks(kind=f"cron {n}", due=now + n * SECOND // 100) for n in range(MANY_ROWS)))
    house.any_run(house.tasks(due=now + round(left * SECOND)))
    worker = house.worker()
    for _ in range(MANY_CLAIMS):
        answer = worker.ask(want())
        if answer.claims:
            break
        assert answer.next_due is not None
        assert 0 <= answer.next_due <= left
        house.clock.advance(answer.next_due)
        left = round(left - answer.next_due, 6)
    assert left == 0
    assert answer.claims


@case("commit")
def a_claim_with_a_commit_says_when_the_next_row_is_due(house: House) -> None:
    house.any_run(house.tasks(), house.tasks(due=house.clock.now() + 10 * SECOND))
    worker = house.worker()
    claim = worker.take()
    answer = worker.done(claim)
    assert answer.claimed.next_due is None
    assert worker.commit(then=want()).claimed.next_due == 10.0


@case("commit")
def sent_again_it_says_how_long_it_is_until_the_next_row_is_due_from_then_on(house: House) -> None:
    now = house.clock.now()
    house.any_run(*(house.tasks(kind="copy", lane="a.org", due=now - 1) for _ in range(40)))
    house.any_run(house.tasks(due=now + 10 * SECOND))
    worker, wanted = house.worker(), want(busy_lanes=["a.org"])
    assert worker.commit(then=wanted).claimed.next_due == 10.0
    for seconds, left in ((4, 6.0), (7, 0.0)):
        house.clock.advance(seconds)
        claimed = worker.store.commit(worker.last, (), wanted).claimed
        # It may say instead that something is there by now.
        assert claimed.ready or claimed.next_due == left
