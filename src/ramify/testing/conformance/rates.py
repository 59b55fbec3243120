"""Limits that change while work goes on, rates, and places that tasks close: what time and people decide."""

from __future__ import annotations

from ramify.model.commit import Later, Part
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.limit import OPENINGS, Numbers, Pace, SetLimit, line_of
from ramify.model.policy import SECOND
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, only, tasks_of, want
from ramify.testing.conformance.limits import declare, of_lanes, remove
from ramify.testing.conformance.registry import case

LIMITED, READY = SegmentState.LIMITED, SegmentState.READY


@case("swap")
def a_limit_that_is_raised_or_removed_lets_rows_in(house: House) -> None:
    declare(house, most=1)
    run = house.any_run(*[house.tasks(1) for _ in range(6)])
    worker = house.worker()
    worker.take()
    assert worker.claim() == ()
    declare(house, most=3)
    assert len(worker.claim()) == 2
    assert worker.claim() == ()
    remove(house)
    assert not any(row.line for row in house.live(run))
    assert len(worker.claim()) == 3


@case("swap")
def a_limit_that_is_lowered_lets_nobody_in_until_enough_has_ended(house: House) -> None:
    declare(house, most=3)
    house.any_run(*[house.tasks(1) for _ in range(5)])
    worker = house.worker()
    claims = worker.claim()
    declare(house, most=1)
    assert worker.claim() == ()
    worker.done(claims[0])
    worker.done(claims[1])
    assert worker.claim() == ()
    worker.done(claims[2])
    assert len(worker.claim()) == 1


@case("swap")
def numbers_that_a_person_has_set_hold_in_place_of_the_declared_ones(house: House) -> None:
    declare(house, most=1, fixed=SetLimit(Numbers(2), "ann", "more", 1))
    house.any_run(house.tasks(5))
    assert len(tasks_of(house.worker().claim())) == 2


@case("claim")
def starts_keep_to_a_rate(house: House) -> None:
    declare(house, pace=Pace(2, 10 * SECOND))
    house.any_run(*[house.tasks(1) for _ in range(6)])
    worker, started = house.worker(), list[float]()
    for tick in range(30):
        started += [tick] * len(tasks_of(worker.claim()))
        house.clock.advance(1)
    assert started == [0, 5, 10, 15, 20, 25]


@case("swap")
def a_rate_that_is_changed_holds_at_once(house: House) -> None:
    declare(house, pace=Pace(1, 86_400 * SECOND))
    house.any_run(*[house.tasks(1) for _ in range(6)])
    worker = house.worker()
    worker.take()
    assert worker.claim() == ()
    declare(house, pace=Pace(1, 10 * SECOND))
    worker.take()
    assert worker.claim() == ()
    declare(house, pace=Pace(1, 10 * SECOND, 1))
    worker.take()
    assert worker.claim() == (), "the same pace with a burst knows what was started"
    house.clock.advance(10)
    worker.take()


@case("swap")
def a_place_that_is_closed_stays_closed_when_its_rate_is_changed(house: House) -> None:
    declare(house, pace=Pace(1, SECOND))
    house.any_run(*[house.tasks(1) for _ in range(3)])
    worker = house.worker()
    claim = worker.take()
    later = Later(claim.tasks, house.store.now() + 60 * SECOND, closes="limit")
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=[later]))
    declare(house, pace=Pace(100, SECOND))
    assert worker.claim() == ()
    house.clock.advance(61)
    assert worker.claim() != ()


@case("claim")
def a_burst_may_start_at_once_after_a_pause(house: House) -> None:
    declare(house, pace=Pace(1, 10 * SECOND, 3))
    house.any_run(house.tasks(10))
    worker = house.worker()
    assert len(tasks_of(worker.claim())) == 4
    house.clock.advance(10)
    assert len(tasks_of(worker.claim())) == 1


@case("claim")
def a_used_up_rate_is_no_due_time_of_each_row(house: House) -> None:
    """The head of the line waits for the opening; the others have no time of their own."""
    declare(house, pace=Pace(1, 10 * SECOND))
    run = house.any_run(*[house.tasks(1) for _ in range(4)])
    worker = house.worker()
    claim = worker.take()
    answer = worker.ask(want())
    assert answer.claims == ()
    assert answer.next_due is not None
    assert 0 < answer.next_due <= 10
    rows = house.live(run)[1:]
    assert [row.state for row in rows] == [READY, LIMITED, LIMITED]
    assert [row.due is None for row in rows] == [False, True, True]
    assert [value.name for value in house.store.reads.values(space=OPENINGS)] == [line_of("api")]
    worker.done(claim)
    house.clock.advance(10)
    assert len(worker.claim()) == 1


@case("claim")
def a_rate_per_lane_holds_no_other_lane_up(house: House) -> None:
    declare(house, pace=Pace(1, 60 * SECOND), per_lane=True)
    house.any_run(*of_lanes(house, *"aabbcc"))
    worker = house.worker()
    assert sorted(claim.lane or "" for claim in worker.claim()) == ["a", "b", "c"]
    assert worker.claim() == ()
    house.clock.advance(60)
    assert sorted(claim.lane or "" for claim in worker.claim()) == ["a", "b", "c"]


@case("commit")
def a_task_that_is_throttled_closes_its_lane_for_everybody(house: House) -> None:
    declare(house, most=5, per_lane=True)
    house.any_run(*of_lanes(house, *"aab"))
    worker = house.worker()
    claim = only(worker.claim(1))
    until = house.store.now() + 30 * SECOND
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=[Later(claim.tasks, until, closes="lane")]))
    assert [each.lane for each in house.worker().claim()] == ["b"]
    house.clock.advance(31)
    assert [each.lane for each in house.worker().claim()] == ["a", "a"]


@case("commit")
def a_task_that_is_throttled_may_close_the_whole_limit(house: House) -> None:
    declare(house, "api", most=5)
    declare(house, "host", most=5, per_lane=True)
    house.any_run(*of_lanes(house, *"aab"))
    worker = house.worker()
    claim = only(worker.claim(1))
    until = house.store.now() + 30 * SECOND
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=[Later(claim.tasks, until, closes="limit")]))
    assert house.worker().claim() == ()
    house.clock.advance(31)
    assert len(house.worker().claim()) == 3


@case("append")
def tasks_of_single_appends_join_the_row_that_waits_in_line(house: House) -> None:
    declare(house, most=1)
    queue = house.queue(house.tasks(1))
    worker = house.worker()
    held = worker.take()
    ids = house.store.reserve(4)
    house.add(queue, NewTasks(ids, "walk", [b"1"]))
    assert worker.claim() == ()
    house.add(queue, NewTasks(ids + 1, "walk", [b"2"]))
    assert house.row_of(ids).id == house.row_of(ids + 1).id
    worker.done(held)
    assert tasks_of(worker.claim()) == [ids]


@case("claim")
def suspects_keep_to_limits_as_well(house: House) -> None:
    declare(house, most=1, kinds=("walk", "copy"))
    house.any_run(house.tasks(1))
    doomed = house.worker()
    claim = doomed.take()
    house.kill(doomed, Death(dict.fromkeys(claim.tasks)))
    house.any_run(house.tasks(1, kind="copy"))
    busy, worker = house.worker(), house.worker()
    copy = busy.take(kinds={"copy"})
    assert worker.claim() == ()
    busy.done(copy)
    assert tasks_of(worker.claim()) == list(claim.tasks)
