"""The answers of a claim beside its tasks: their place in a join, and how many tasks it left for the next claim.

`Claimed.ready` is a lower bound from a bounded look: there may be more, and there are never fewer. Only what the same
want could take now is counted: no other kind, queue, run or lane, nothing gated or not yet due, and no suspects.
"""

from __future__ import annotations

from ramify.model.death import Death
from ramify.model.join import NewJoins
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.registry import case


@case("claim")
def a_claim_says_that_somebody_waits_for_its_tasks(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    one, two = house.tasks(2, join=waiting.first), house.tasks(3, join=waiting.first, slot=2)
    house.any_run(one, two, waiting, joins=[NewJoins.one(waiting.first, 5)])
    worker = house.worker()
    for _ in range(5):
        claim = worker.take(1)
        assert claim.awaited is True
    members = house.store.reads.members(waiting.first).rows
    assert members == list(enumerate((*one.ids, *two.ids)))


@case("claim")
def a_claim_of_tasks_that_nobody_waits_for_says_so(house: House) -> None:
    house.run(house.tasks(3))
    claim = house.worker().take()
    assert not claim.awaited
    house.run(house.tasks(3, awaited=True))
    claim = house.worker().take()
    assert claim.awaited is True


@case("claim")
def a_claim_says_how_many_tasks_it_left(house: House) -> None:
    house.run(house.tasks(10))
    one, two = house.worker(), house.worker()
    assert one.ask(want(4)).ready == 6
    answer = two.ask(want(1, runs=[house.store.reads.runs().rows[0].id]))
    assert answer.ready == 5
    done = one.commit(then=want(3))
    assert done.claimed.ready == 2
    assert two.ask(want(100)).ready == 0
    assert two.ask(want(100)).ready == 0


@case("claim")
def what_ended_is_not_counted_as_left(house: House) -> None:
    house.run(house.tasks(10))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[::2])
    worker.release(claim)
    assert house.worker().ask(want(1)).ready == 4


@case("claim")
def only_what_the_same_want_could_take_now_counts_as_left(house: House) -> None:
    future = house.clock.now() + 1000 * SECOND
    served = [
        house.any_run(house.tasks(2, **columns))
        for columns in ({"kind": "copy"}, {"queue": "slow"}, {"lane": "a.org"}, {"due": future}, {})
    ]
    house.any_run(house.tasks(2))  # of no wanted run
    gated = house.run(house.tasks(kind="copy"))
    house.add(gated, house.tasks(2))
    paused = house.any_run(house.tasks(2))
    house.store.pause(paused)
    wanted = want(1, ["walk"], queues=["default"], runs=[*served, gated, paused], busy_lanes=["a.org"])
    answer = house.worker().ask(wanted)
    assert [claim.run for claim in answer.claims] == [served[-1]]
    assert answer.ready == 1


@case("claim")
def suspects_do_not_count_as_left(house: House) -> None:
    house.run(house.tasks(20))
    for _ in range(2):
        victim = house.worker()
        house.kill(victim, Death(dict.fromkeys(victim.take().tasks, 5), evidence=True))
    answer = house.worker().ask(want(1))
    assert answer.suspects
    assert answer.ready == 0


@case("claim")
def tasks_are_never_said_to_be_left_that_are_not(house: House) -> None:
    """However many rows there are to look at."""
    house.any_run(*[house.tasks(2) for _ in range(100)])
    worker = house.worker()
    left = 200
    while left:
        answer = worker.ask(want(7))
        left -= sum(len(claim.tasks) for claim in answer.claims)
        assert (answer.ready > 0) == (left > 0)
        assert answer.ready <= left
