"""`claim`, who comes first: a quarter (at least one row) by turns over the runs that have work, the rest by rank.

Equal ranks go by age. Rank is the time a task was added or is due, with a minute's head start for each level of
priority: nobody starves. In a depth-first run the deepest come first.
"""

from __future__ import annotations

from ramify.model.policy import PRIORITY_SECONDS
from ramify.model.run import Order
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, Worker, want
from ramify.testing.conformance.registry import case


@case("claim")
def among_equals_the_oldest_is_first(house: House) -> None:
    groups = [house.tasks() for _ in range(10)]
    run = house.queue()
    for tasks in groups:
        house.add(run, tasks)
        house.clock.advance(1)
    assert _one_by_one(house, 10) == [tasks.first for tasks in groups]


@case("claim")
def of_the_same_moment_the_smallest_id_is_first(house: House) -> None:
    groups = [house.tasks() for _ in range(10)]
    house.any_run(*groups)
    assert _one_by_one(house, 10) == [tasks.first for tasks in groups]


@case("claim")
def a_lower_priority_number_is_served_first(house: House) -> None:
    groups = {level: house.tasks(priority=level) for level in (3, -1000, 0, 1000, -2)}
    house.any_run(*groups.values())
    assert _one_by_one(house, 5) == [groups[level].first for level in sorted(groups)]


@case("claim")
def a_level_is_a_head_start_of_a_minute_and_no_more(house: House) -> None:
    run = house.queue()
    old = house.tasks(priority=1)
    house.add(run, old)
    house.clock.advance(PRIORITY_SECONDS - 1)
    soon = house.tasks(priority=0)
    house.add(run, soon)
    house.clock.advance(2)
    late = house.tasks(priority=0)
    house.add(run, late)
    assert _one_by_one(house, 3) == [soon.first, old.first, late.first]


@case("claim")
def due_and_undue_rows_are_merged_by_rank(house: House) -> None:
    run = house.queue()
    early = house.tasks(due=house.clock.now() + SECOND)
    house.add(run, early)
    house.clock.advance(0.5)
    late = house.tasks()
    house.add(run, late)
    house.clock.advance(10)
    assert _one_by_one(house, 2) == [early.first, late.first]


@case("claim")
def many_due_rows_that_are_not_wanted_hide_none_that_is(house: House) -> None:
    now = house.clock.now()
    house.any_run(*(house.tasks(due=now - 2, lane="a.org") for _ in range(600)))
    wanted = house.tasks(due=now - 1)
    run = house.any_run(wanted)
    assert house.offered(want(runs=[run])) == [wanted.first]
    assert house.offered(want(busy_lanes=["a.org"])) == [wanted.first]


@case("claim")
def what_is_put_back_keeps_its_place(house: House) -> None:
    groups = [house.tasks() for _ in range(3)]
    run = house.queue()
    for tasks in groups:
        house.add(run, tasks)
        house.clock.advance(1)
    worker = house.worker()
    claim = worker.take(1)
    worker.release(claim)
    assert list(worker.take(1).tasks) == list(claim.tasks) == [groups[0].first]


@case("claim")
def a_small_new_run_is_served_beside_a_large_old_one(house: House) -> None:
    """By rank alone the new task would wait for all the older ones."""
    house.any_run(*(house.tasks() for _ in range(100)))
    house.clock.advance(1)
    new = house.tasks()
    house.any_run(new)
    worker = house.worker()
    first = _claimed(worker, 8) + _claimed(worker, 8)
    assert new.first in first


@case("claim")
def a_small_new_run_whose_task_has_become_due_is_served_as_well(house: House) -> None:
    house.any_run(*(house.tasks() for _ in range(100)))
    house.clock.advance(1)
    new = house.tasks(due=house.clock.now())
    house.any_run(new)
    worker = house.worker()
    assert new.first in _claimed(worker, 8) + _claimed(worker, 8)


@case("claim")
def every_run_gets_its_turn(house: House) -> None:
    runs = {house.any_run(*(house.tasks() for _ in range(40))) for _ in range(4)}
    worker = house.worker()
    served = {claim.run for _ in range(4) for claim in worker.claim(4)}
    assert served == runs


@case("claim")
def a_run_that_comes_after_one_was_served_alone_is_next(house: House) -> None:
    house.any_run(*(house.tasks() for _ in range(4)))
    worker = house.worker()
    worker.claim(2)
    house.clock.advance(1)
    house.any_run(new := house.tasks())
    assert _claimed(worker, 1) == [new.first]


@case("claim")
def three_quarters_go_by_rank(house: House) -> None:
    old = house.any_run(*(house.tasks() for _ in range(40)))
    house.clock.advance(1)
    house.any_run(*(house.tasks() for _ in range(40)))
    worker = house.worker()
    for _ in range(3):
        claims = worker.claim(8)
        assert sum(len(claim.tasks) for claim in claims) == 8
        assert sum(len(claim.tasks) for claim in claims if claim.run == old) >= 6


@case("claim")
def in_a_depth_first_run_the_deepest_come_first(house: House) -> None:
    run = house.run(*(house.tasks() for _ in range(3)), order=Order.DEPTH_FIRST)
    worker = house.worker()
    depths = []
    for _ in range(5):
        claim = worker.take(1)
        depths.append(claim.round)
        children = [] if claim.round == 2 else [house.tasks(parents=claim.tasks[0])]
        worker.done(claim, children=children)
        house.clock.advance(5)
    assert depths == [0, 1, 2, 0, 1]
    assert house.finish(run).state.is_end


@case("claim")
def in_a_run_with_rounds_a_round_is_done_before_the_next_begins(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(1)
    child = house.tasks(parents=claim.tasks[0])
    worker.done(claim, children=[child])
    rounds = [worker.take(1).round, worker.take(1).round]
    assert rounds == [0, 0]
    assert worker.claim() == ()
    assert house.row_of(child.first).run == run


def _one_by_one(house: House, count: int) -> list[int]:
    worker = house.worker()
    return [worker.take(1).tasks[0] for _ in range(count)]


def _claimed(worker: Worker, limit: int) -> list[int]:
    return [task for claim in worker.claim(limit) for task in claim.tasks]
