"""Lines in front of limits: whenever a place has room, the first row of each kind and queue that waits for it is ready.

The cases are the shortest traces by which shortcuts of the protocol model lose a place.
"""

from __future__ import annotations

from ramify.model.commit import Later, Part
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.limit import Pace, line_of
from ramify.model.policy import SECOND
from ramify.model.segment import SegmentState
from ramify.testing.conformance.house import House, Worker, only, tasks_of, want
from ramify.testing.conformance.limits import declare, of_lanes, remove, states
from ramify.testing.conformance.registry import case

LIMITED, READY, WAITING = SegmentState.LIMITED, SegmentState.READY, SegmentState.WAITING


def throttle(house: House, worker: Worker, seconds: int) -> None:
    """Claim a task, which closes the limits without lanes that it meets."""
    claim = worker.take(1)
    later = Later(claim.tasks, house.store.now() + seconds * SECOND, closes="limit")
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=[later]))


def suspect(house: House, run: int, task: int) -> None:
    """Let a process die over a task, until it must run apart."""
    while not house.row_of(task).deaths.apart:
        victim = house.worker()
        assert tasks_of(victim.ask(want(1, runs={run})).claims) == [task]
        house.kill(victim, Death({task: 5}, evidence=True))


@case("claim")
def of_two_free_places_a_claim_leaves_a_head_for_the_second(house: House) -> None:
    declare(house, most=2)
    run = house.any_run(*[house.tasks(1) for _ in range(4)])
    worker = house.worker()
    claims = worker.claim()
    assert worker.claim() == ()
    for claim in claims:
        worker.done(claim)
    worker.take(1)
    assert states(house, run)[1:] == [READY]
    assert len(house.worker().claim()) == 1


@case("claim")
def a_claim_counts_the_places_that_it_takes_itself(house: House) -> None:
    declare(house, most=2)
    house.any_run(*[house.tasks(1) for _ in range(3)])
    house.queue(*[house.tasks(1) for _ in range(3)])
    assert len(tasks_of(house.worker().claim())) == 2


@case("claim")
def a_row_that_comes_too_soon_waits_for_time_although_the_claim_took_the_head(house: House) -> None:
    declare(house, pace=Pace(1, 10 * SECOND))
    queue = house.queue(house.tasks(1), house.tasks(1))
    worker = house.worker()
    assert len(worker.claim()) == 1
    house.clock.advance(10)
    late = house.tasks(1, lane="late")
    house.add(queue, late)
    assert len(worker.claim()) == 1
    assert house.row_of(late.first).state is READY
    house.clock.advance(10)
    assert tasks_of(worker.claim()) == [late.first]


@case("claim")
def a_row_that_comes_too_soon_waits_for_time_although_the_head_has_moved(house: House) -> None:
    """The head of the total meets a full lane; the total is closed, and the next row finds the line without a head."""
    declare(house, "api", most=5)
    declare(house, "host", most=1, per_lane=True, kinds=("walk", "copy"))
    house.any_run(*of_lanes(house, "x"))
    worker, other = house.worker(), house.worker()
    claim = worker.take(1)
    house.any_run(*of_lanes(house, "y"))
    throttle(house, other, 10)
    (head,) = of_lanes(house, "a")
    house.any_run(head)
    assert worker.claim() == ()
    assert house.row_of(head.first).line == line_of("api")
    house.any_run(house.tasks(1, kind="copy", lane="a"))
    worker.take()
    later = Later(claim.tasks, house.store.now() + 30 * SECOND, closes="limit")
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=[later]))
    house.clock.advance(10)
    (late,) = of_lanes(house, "b")
    house.any_run(late)
    assert worker.claim() == ()
    house.clock.advance(30)
    assert late.first in tasks_of(worker.claim())


@case("claim")
def each_kind_and_queue_in_a_line_has_a_head(house: House) -> None:
    declare(house, most=1, kinds=("walk", "copy"))
    kinds = [house.tasks(1, kind="copy"), house.tasks(1, queue="mail"), house.tasks(1)]
    run = house.any_run(house.tasks(1), *kinds, house.tasks(1))
    worker = house.worker()
    first = worker.take(1)
    assert worker.claim() == ()
    worker.done(first)
    assert states(house, run) == [READY, READY, READY, LIMITED]


@case("release")
def a_part_of_a_head_that_goes_back_is_no_head(house: House) -> None:
    declare(house, most=2)
    run = house.any_run(house.tasks(10))
    worker = house.worker()
    one, _ = only(worker.claim(1)), only(worker.claim(1))
    assert worker.claim() == ()
    worker.done(one)
    worker.release(only(worker.claim(1)))
    free = [row for row in house.live(run) if row.state is READY]
    assert [row.line for row in free] == [None, line_of("api")]
    assert len(tasks_of(worker.claim())) == 1


@case("commit")
def the_next_in_line_is_ready_although_the_place_is_closed(house: House) -> None:
    """Nobody frees a place when time opens it, so that its head must be there by then."""
    declare(house, most=1)
    run = house.any_run(*[house.tasks(1) for _ in range(3)])
    worker, other = house.worker(), house.worker()
    claim = worker.take(1)
    assert other.claim() == ()
    until = house.store.now() + 10 * SECOND
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=[Later(claim.tasks, until, closes="limit")]))
    head = house.live(run)[1]
    assert (head.state, head.due) == (READY, until)
    assert other.claim() == ()
    house.clock.advance(10)
    ended = [claim for claim in (other.take() for _ in range(3)) if other.done(claim)]
    assert ended[0].tasks[0] == head.first
    assert house.live(run) == []


@case("pause")
def a_head_that_was_paused_forgets_when_its_place_opens(house: House) -> None:
    declare(house, pace=Pace(1, 3600 * SECOND))
    run = house.any_run(house.tasks(1), house.tasks(1))
    worker = house.worker()
    worker.take(1)
    assert worker.claim() == ()
    house.store.pause(run)
    remove(house)
    house.store.resume(run)
    house.settle(run)
    assert len(worker.claim()) == 1


@case("advance")
def the_next_row_follows_when_the_run_of_the_first_fails_at_its_deadline(house: House) -> None:
    declare(house, most=1)
    first = house.tasks(1)
    house.any_run(first)
    late = house.any_run(house.tasks(1), deadline=house.store.now() + 5 * SECOND)
    other = house.tasks(1)
    house.any_run(other)
    worker = house.worker()
    held = only(worker.store.claim(worker.stamp(), want(1)).claims)
    assert tasks_of([held]) == [first.first]
    assert worker.claim() == ()
    worker.done(held)
    house.clock.advance(10)
    assert house.settle(late).state.is_end
    assert tasks_of(worker.claim()) == [other.first]


@case("swap")
def what_was_claimed_before_a_limit_covered_it_counts(house: House) -> None:
    house.any_run(*[house.tasks(1) for _ in range(4)])
    worker = house.worker()
    claims = worker.claim(2)
    declare(house, most=2)
    assert worker.claim() == ()
    worker.done(claims[0])
    assert len(worker.claim()) == 1


@case("claim")
def a_row_of_a_run_that_nobody_works_for_keeps_no_others_waiting(house: House) -> None:
    declare(house, most=1)
    left, first, second = house.tasks(1), house.tasks(1), house.tasks(1)
    deserted = house.any_run(left)
    run = house.any_run(first, second)
    old, new = house.worker(), house.worker()
    held = only(new.ask(want(1, runs={run})).claims)
    assert old.ask(want(runs={deserted})).claims == new.ask(want(runs={run})).claims == ()
    new.done(held)
    assert house.row_of(left.first).state is READY
    assert tasks_of(new.ask(want(runs={run})).claims) == [second.first]
    assert tasks_of(old.ask(want(runs={deserted})).claims) == []


@case("claim")
def a_suspect_of_a_run_that_nobody_works_for_keeps_no_others_waiting(house: House) -> None:
    declare(house, most=1)
    left, first, second = house.tasks(1), house.tasks(1), house.tasks(1)
    deserted = house.any_run(left)
    house.clock.advance(1)
    run = house.any_run(first, second)
    suspect(house, deserted, left.first)
    old, new = house.worker(), house.worker()
    held = only(new.ask(want(1, runs={run})).claims)
    assert old.ask(want(runs={deserted})).claims == new.ask(want(runs={run})).claims == ()
    new.done(held)
    assert house.row_of(left.first).state is READY
    assert tasks_of(new.ask(want(runs={run})).claims) == [second.first]


@case("claim")
def a_suspect_behind_a_row_of_a_run_that_nobody_works_for_is_given_alone(house: House) -> None:
    declare(house, most=3)
    left, guilty, fresh = house.tasks(1), house.tasks(1), house.tasks(1)
    deserted = house.any_run(left)
    house.clock.advance(1)
    run = house.any_run(guilty)
    suspect(house, run, guilty.first)
    house.clock.advance(1)
    house.add(run, fresh)
    other = house.any_run(*[house.tasks(1) for _ in range(4)])
    busy, old, new, last = (house.worker() for _ in range(4))
    claims = busy.ask(want(runs={other})).claims
    assert len(claims) == 3
    assert old.ask(want(runs={deserted})).claims == new.ask(want(runs={run})).claims == ()
    assert last.ask(want(runs={run})).claims == ()
    busy.done(claims[0])
    busy.done(claims[1])
    assert house.row_of(left.first).state is READY
    assert tasks_of(new.ask(want(runs={run})).claims) == [guilty.first], "by who holds nothing, and nothing with it"
    assert tasks_of(new.ask(want(runs={run})).claims) == []
    assert tasks_of(last.ask(want(runs={run})).claims) == [fresh.first]


@case("claim")
def a_row_of_a_run_without_room_keeps_no_others_waiting(house: House) -> None:
    declare(house, most=2)
    narrow = house.any_run(house.tasks(1), house.tasks(1), max_running=1)
    wide = house.any_run(*[house.tasks(1) for _ in range(4)])
    worker = house.worker()
    one, two = (only(worker.ask(want(1, runs={wide})).claims) for _ in range(2))
    assert worker.claim() == ()
    worker.done(one)
    assert only(worker.claim()).run == narrow
    worker.done(two)
    assert only(worker.claim()).run == wide


@case("claim")
def a_row_in_a_lane_that_a_process_leaves_alone_keeps_no_others_waiting(house: House) -> None:
    declare(house, most=2)
    house.any_run(*(house.tasks(1, lane=lane) for lane in "xyaab"))
    worker = house.worker()
    one, two = worker.claim(2)
    assert worker.claim() == ()
    worker.done(one)
    assert only(worker.claim()).lane == "a"
    worker.done(two)
    assert [claim.lane for claim in worker.ask(want(busy_lanes={"a"})).claims] == ["b"]


@case("claim")
def who_follows_the_head_whose_turn_it_was_is_next(house: House) -> None:
    """Also when its run has no room for more."""
    declare(house, most=2)
    house.any_run(house.tasks(2))
    busy = house.worker()
    claim = busy.take()
    turn, behind, aside = house.tasks(1), house.tasks(1), house.tasks(1, queue="slow")
    bounded = house.any_run(turn, max_running=1)
    house.clock.advance(1)
    other = house.any_run(aside, behind)
    assert house.worker().claim() == ()
    busy.done(claim)
    assert house.row_of(behind.first).state is LIMITED
    taken = house.worker().ask(want(runs={bounded, other})).claims
    assert tasks_of(taken) == [turn.first, behind.first]
