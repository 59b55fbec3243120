"""`claim` of suspects: a row that must run apart is given only to a process that holds nothing.

And that process gets nothing else while it holds it. So a task that kills its worker is found in a few deaths, because
at the end it runs alone in its process, and no innocent neighbour is ever blamed.
"""

from __future__ import annotations

from ramify.model.blame import PARTS
from ramify.model.claim import Claim
from ramify.model.commit import Later, Part
from ramify.model.death import Death, Deaths
from ramify.model.event import Status
from ramify.model.policy import SECOND
from ramify.testing.conformance.house import House, Worker, want
from ramify.testing.conformance.registry import case


@case("claim")
def a_suspect_row_is_given_alone(house: House) -> None:
    run = _suspects(house, 4)
    house.add(run, house.tasks(kind="copy"))
    worker = house.worker()
    claims = worker.claim()
    while claims and not claims[0].deaths.apart:
        for claim in claims:
            worker.done(claim)
        claims = worker.claim()
    assert len(claims) == 1
    assert claims[0].deaths.apart


@case("claim")
def who_holds_a_suspect_gets_nothing_else(house: House) -> None:
    run = _suspects(house, 2)
    worker = house.worker()
    suspect = worker.take()
    assert suspect.deaths.apart
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
    assert not held.deaths.apart
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
    _suspects(house, 4 * PARTS)
    assert len(house.worker().take(2).tasks) == 2


@case("claim")
def a_partial_commit_of_a_suspect_carries_nothing_new(house: House) -> None:
    run = _suspects(house, 2 * PARTS)
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
    assert [claim.deaths.apart for claim in claimed.claims] == [True]


@case("claim")
def a_task_is_known_to_have_been_alone_once_its_worker_died_with_it_apart(house: House) -> None:
    """Until then there were always others that could have done it."""
    guilty, other = house.tasks(), house.tasks()
    house.any_run(guilty, other)
    for _ in range(2):
        victim = house.worker()
        assert len(victim.claim()) == 2
        house.kill(victim, Death({guilty.first: 5, other.first: 5}, evidence=True))
    for alone in (False, True, True):
        worker, claim = _take_suspect(house, guilty.first)
        assert claim.deaths.alone is alone
        house.kill(worker, Death({guilty.first: 5}, evidence=True))


@case("claim")
def a_row_of_several_tasks_was_never_alone(house: House) -> None:
    _suspects(house, 3 * PARTS)
    second = house.worker()
    dead = second.take()
    assert len(dead.tasks) == 3
    house.kill(second, Death(dict.fromkeys(dead.tasks, 5), evidence=True))
    _, claim = _take_suspect(house, dead.tasks[0])
    assert claim.deaths == Deaths(ran=3, apart=True)


@case("claim")
def a_suspect_that_comes_back_later_is_still_a_suspect(house: House) -> None:
    """Otherwise a task that raises and kills by turns would never be found."""
    _suspects(house, 1)
    worker = house.worker()
    claim = worker.take()
    due = house.clock.now() + SECOND
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, due)])
    house.clock.advance(2)
    assert worker.take().deaths == claim.deaths


def _suspects(house: House, count: int) -> int:
    """A run with `count` tasks in rows that must run apart, of one task each as long as there are few."""
    run = house.any_run(house.tasks(count))
    for _ in range(2):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take().tasks, 5), evidence=True))
    assert len(house.live(run)) == min(count, PARTS)
    assert {row.deaths for row in house.live(run)} == {Deaths(ran=2, apart=True)}
    return run


def _take_suspect(house: House, task: int) -> tuple[Worker, Claim]:
    """A process that holds the suspect row of `task`; others that come first are finished."""
    worker = house.worker()
    while True:
        claim = worker.take()
        if task in claim.tasks:
            return worker, claim
        worker.done(claim)
