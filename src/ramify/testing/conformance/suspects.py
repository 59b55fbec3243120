"""`claim` of suspects: a row with crashes is given only to a process that holds nothing, alone.

And that process gets nothing else while it holds it. So a task that kills its worker is found in a few deaths, because
at the end it runs alone in its process, and no innocent neighbour is ever blamed.
"""

from __future__ import annotations

from ramify.model.claim import Claim
from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.policy import SECOND
from ramify.model.segment import REOFFER_PARTS
from ramify.testing.conformance.house import House, Worker, want
from ramify.testing.conformance.registry import case


@case("claim")
def a_suspect_row_is_given_alone(house: House) -> None:
    run = _suspects(house, 4)
    house.add(run, house.tasks(kind="copy"))
    worker = house.worker()
    claims = worker.claim()
    while claims and not claims[0].crashes:
        for claim in claims:
            worker.done(claim)
        claims = worker.claim()
    assert len(claims) == 1
    assert claims[0].crashes == 1


@case("claim")
def who_holds_a_suspect_gets_nothing_else(house: House) -> None:
    run = _suspects(house, 2)
    worker = house.worker()
    suspect = worker.take()
    assert suspect.crashes == 1
    fresh = house.tasks(3)
    house.add(run, fresh)
    assert worker.claim() == ()
    worker.done(suspect)
    assert worker.claim()


@case("claim")
def who_holds_something_gets_no_suspect_but_hears_of_them(house: House) -> None:
    run = _suspects(house, 3)
    fresh = house.tasks(2, kind="copy")
    house.add(run, fresh)
    worker = house.worker()
    held = worker.take(1, ["copy"])
    answer = worker.ask(want(100))
    assert [list(claim.tasks) for claim in answer.claims] == [[fresh.first + 1]]
    assert answer.suspects
    assert held.crashes == 0
    again = worker.ask(want())
    assert again.claims == ()
    assert again.suspects


@case("claim")
def no_suspects_no_warning(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    assert not worker.ask(want(1)).suspects
    assert not worker.ask(want(1)).suspects


@case("claim")
def suspects_of_unknown_kinds_are_not_announced(house: House) -> None:
    """A process that could not run them need not make room for them."""
    run = _suspects(house, 2)
    house.add(run, house.tasks(kind="copy"))
    worker = house.worker()
    worker.take(1, ["copy"])
    assert not worker.ask(want(kinds=["copy"])).suspects


@case("claim")
def several_processes_try_several_suspects(house: House) -> None:
    _suspects(house, 3)
    workers = [house.worker() for _ in range(3)]
    claims = [worker.take() for worker in workers]
    assert all(len(claim.tasks) == 1 for claim in claims)
    assert len({claim.tasks[0] for claim in claims}) == 3


@case("claim")
def the_limit_holds_for_suspects_too(house: House) -> None:
    tasks = house.tasks(REOFFER_PARTS * 4)
    house.run(tasks)
    worker = house.worker()
    worker.take()
    house.bury(worker)
    assert len(house.worker().take(2).tasks) == 2


@case("claim")
def a_partial_commit_of_a_suspect_carries_nothing_new(house: House) -> None:
    run = house.any_run(house.tasks(REOFFER_PARTS * 2))
    worker = house.worker()
    worker.take()
    house.bury(worker)
    house.add(run, house.tasks(kind="copy"))
    worker, suspect = _take_suspect(house, house.live(run)[0].first)
    claimed = worker.commit(Part(suspect.token, suspect.tasks[:1]), then=want()).claimed
    assert claimed.claims == ()


@case("claim")
def a_commit_that_frees_the_last_row_may_carry_a_suspect(house: House) -> None:
    _suspects(house, 2)
    worker = house.worker()
    first = worker.take()
    claimed = worker.commit(Part(first.token, first.tasks), then=want()).claimed
    assert [claim.crashes for claim in claimed.claims] == [1]


@case("claim")
def a_task_is_known_to_have_been_alone_when_its_worker_died_twice_with_it(house: House) -> None:
    """At the first death the row was one of two. At the second it ran alone, and the claim after that says so."""
    guilty, other = house.tasks(), house.tasks()
    house.any_run(guilty, other)
    victim = house.worker()
    assert len(victim.claim()) == 2
    house.bury(victim)
    for alone in (False, True, True):
        worker, claim = _take_suspect(house, guilty.first)
        assert claim.alone is alone
        house.bury(worker)


@case("claim")
def a_row_of_several_tasks_was_never_alone(house: House) -> None:
    house.run(house.tasks(REOFFER_PARTS * 3))
    worker = house.worker()
    worker.take()
    house.bury(worker)
    second = house.worker()
    dead = second.take()
    assert len(dead.tasks) == 3
    house.bury(second)
    _, claim = _take_suspect(house, dead.tasks[0])
    assert claim.crashes == 2
    assert not claim.alone


@case("claim")
def a_suspect_that_comes_back_later_is_still_a_suspect(house: House) -> None:
    """Otherwise a task that raises and kills by turns would never be found."""
    _suspects(house, 1)
    worker = house.worker()
    claim = worker.take()
    due = house.clock.now() + SECOND
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, due)])
    house.clock.advance(2)
    assert worker.take().crashes == 1


def _suspects(house: House, count: int) -> int:
    """A run with `count` rows of one task each, whose owner died."""
    run = house.any_run(house.tasks(count))
    worker = house.worker()
    assert len(worker.take().tasks) == count
    house.bury(worker)
    assert [row.crashes for row in house.live(run)] == [1] * count
    return run


def _take_suspect(house: House, task: int) -> tuple[Worker, Claim]:
    """A process that holds the suspect row of `task`; others that come first are finished."""
    worker = house.worker()
    while True:
        claim = worker.take()
        if task in claim.tasks:
            return worker, claim
        worker.done(claim)
