"""Limits of a whole store: how many tasks are claimed at a time, how many start in a while, in all or per lane.

A row that may not start waits in a line and costs claims nothing; whoever makes room readies the next in the same
transaction. Nothing is ever taken beyond a limit, no place is lost, and no row waits in front of a free place.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.commit import Later, Part
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.limit import (
    LIMITS,
    Limit,
    Numbers,
    Pace,
    SetLimit,
    StoredLimit,
    line_of,
    write_limit,
)
from ramify.model.policy import SECOND
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.model.value import Swap
from ramify.testing.conformance.house import House, tasks_of, want
from ramify.testing.conformance.registry import case

LIMITED, READY = SegmentState.LIMITED, SegmentState.READY


def declare(
    house: House,
    name: str = "api",
    most: int | None = None,
    *,
    pace: Pace | None = None,
    per_lane: bool = False,
    kinds: Sequence[str] = ("walk",),
    queues: Sequence[str] = (),
    fixed: SetLimit | None = None,
) -> None:
    """Store a limit, as a process does when it starts."""
    limit = Limit(name, Numbers(most, pace), per_lane, tuple(kinds), tuple(queues))
    value = write_limit(StoredLimit(limit, fixed=fixed))
    worker = house.worker()
    assert worker.store.swap(worker.stamp(), [Swap(LIMITS, name, None, house.store.reserve(1), value)])


def remove(house: House, name: str = "api") -> None:
    """Remove a limit."""
    worker = house.worker()
    assert worker.store.swap(worker.stamp(), [Swap(LIMITS, name, None, house.store.reserve(1))])


def states(house: House, run: int | None = None) -> list[SegmentState]:
    """The states of the live rows, by their first task."""
    return [row.state for row in house.live(run)]


def of_lanes(house: House, *lanes: str) -> list[NewTasks]:
    """One task for each of these lanes, a row each."""
    return [house.tasks(1, lane=lane) for lane in lanes]


@case("claim")
def no_more_tasks_are_claimed_at_a_time_than_a_limit_allows(house: House) -> None:
    declare(house, most=4)
    house.any_run(house.tasks(10))
    house.queue(house.tasks(5))
    first, second = house.worker(), house.worker()
    assert len(tasks_of(first.claim(3))) == 3
    assert len(tasks_of(second.claim(100))) == 1
    assert house.worker().claim() == ()


@case("claim")
def a_limit_covers_its_kinds_together_and_no_others(house: House) -> None:
    declare(house, most=3, kinds=("walk", "copy"))
    house.any_run(house.tasks(5), house.tasks(5, kind="copy"), house.tasks(5, kind="sum"))
    claims = house.worker().claim()
    assert len(tasks_of(claim for claim in claims if claim.kind != "sum")) == 3
    assert len(tasks_of(claim for claim in claims if claim.kind == "sum")) == 5
    assert {claim.kind: claim.limited for claim in claims} == {"walk": True, "sum": False}


@case("claim")
def a_limit_of_a_queue_covers_all_kinds_in_it(house: House) -> None:
    declare(house, "mail", most=3, kinds=(), queues=("mail",))
    mail = [house.tasks(2, queue="mail"), house.tasks(2, kind="copy", queue="mail")]
    house.any_run(*mail, house.tasks(4))
    claims = house.worker().claim()
    assert len(tasks_of(claim for claim in claims if claim.queue == "mail")) == 3
    assert len(tasks_of(claims)) == 7


@case("claim")
def a_row_over_its_limit_waits_in_line_and_is_not_looked_at_again(house: House) -> None:
    declare(house, most=1)
    run = house.any_run(*[house.tasks(1) for _ in range(4)])
    worker = house.worker()
    worker.take()
    assert worker.claim() == ()
    assert states(house, run) == [SegmentState.CLAIMED, LIMITED, LIMITED, LIMITED]
    assert {row.line for row in house.live(run)[1:]} == {line_of("api")}
    with house.nothing_changes():
        assert worker.claim() == house.worker().claim() == ()


@case("claim")
def the_rest_of_a_row_waits_in_line_as_soon_as_the_limit_is_reached(house: House) -> None:
    declare(house, most=4)
    run = house.any_run(house.tasks(20_000))
    assert len(tasks_of(house.worker().claim(9_000))) == 4
    assert states(house, run) == [SegmentState.CLAIMED, LIMITED]


@case("claim")
def of_a_kind_under_a_limit_no_more_is_taken_than_the_process_can_run(house: House) -> None:
    declare(house, most=50)
    house.any_run(house.tasks(30), house.tasks(30, kind="copy"))
    worker = house.worker()
    claims = worker.store.claim(worker.stamp(), want(40, few={"walk": 3, "copy": 100})).claims
    assert {claim.kind: len(claim.tasks) for claim in claims} == {"walk": 3, "copy": 30}
    assert not any(row.state is LIMITED for row in house.live())


@case("claim")
def lanes_have_places_of_their_own_where_a_limit_is_per_lane(house: House) -> None:
    declare(house, most=1, per_lane=True)
    run = house.any_run(*of_lanes(house, "a", "a", "b", "a", "b", "c"))
    claims = house.worker().claim()
    assert sorted(claim.lane or "" for claim in claims) == ["a", "b", "c"]
    waiting = [row for row in house.live(run) if row.state is LIMITED]
    assert [row.line for row in waiting] == [line_of("api", lane) for lane in ("a", "a", "b")]


@case("claim")
def tasks_without_a_lane_share_one(house: House) -> None:
    declare(house, most=2, per_lane=True)
    house.any_run(*[house.tasks(1) for _ in range(4)], *of_lanes(house, "a"))
    assert len(tasks_of(house.worker().claim())) == 3


@case("claim")
def a_row_of_several_lanes_comes_apart_when_a_limit_is_per_lane(house: House) -> None:
    tasks = house.tasks(6, lanes=["a", "b", "a", "c", "b", "a"])
    run = house.any_run(tasks)
    assert len(house.live(run)) == 1
    declare(house, most=1, per_lane=True)
    claims = house.worker().claim()
    assert sorted(claim.lane or "" for claim in claims) == ["a", "b", "c"]
    assert tasks_of(claims) == [tasks.first, tasks.first + 1, tasks.first + 3]
    assert sum(len(row.tasks) for row in house.live(run)) == 6


@case("claim")
def a_new_task_of_another_lane_starts_although_one_lane_is_full(house: House) -> None:
    declare(house, most=1, per_lane=True)
    house.any_run(house.tasks(20_000, lane="long"), *of_lanes(house, *["long"] * 20))
    worker = house.worker()
    assert len(tasks_of(worker.claim(10_000))) == 1
    other = house.tasks(1, lane="short")
    house.any_run(other)
    assert tasks_of(worker.claim()) == [other.first]


@case("claim")
def a_total_and_a_limit_per_lane_hold_together(house: House) -> None:
    declare(house, "host", most=2, per_lane=True)
    declare(house, "api", most=3)
    house.any_run(*of_lanes(house, *"aaabbb"))
    worker = house.worker()
    claims = worker.claim()
    assert sorted(claim.lane or "" for claim in claims) == ["a", "a", "b"]
    worker.done(next(claim for claim in claims if claim.lane == "b"))
    assert [claim.lane for claim in worker.claim()] == ["b"]


@case("claim")
def a_row_that_moves_to_the_line_of_its_lane_leaves_the_place_to_the_next(house: House) -> None:
    """Both wait for the total; when it has room, the lane of the first is full by then."""
    declare(house, "api", most=1)
    one, two = house.tasks(1, lane="a"), house.tasks(1, lane="b")
    house.any_run(house.tasks(1, lane="c"), one, two)
    worker = house.worker()
    holder = worker.take()
    assert worker.claim() == ()
    declare(house, "host", most=1, per_lane=True, kinds=("walk", "copy"))
    house.any_run(house.tasks(1, kind="copy", lane="a"))
    assert len(worker.claim()) == 1
    worker.done(holder)
    assert tasks_of(worker.claim()) == [two.first]
    assert house.row_of(one.first).line == line_of("host", "a")


@case("claim")
def a_kind_that_nobody_serves_blocks_no_other_in_the_line(house: House) -> None:
    declare(house, most=1, kinds=("strange", "walk"))
    walk = house.tasks(1)
    house.any_run(house.tasks(1), house.tasks(1, kind="strange"), walk)
    worker = house.worker()
    first = worker.take(kinds={"walk"})
    assert worker.claim(kinds={"walk", "strange"}) == ()
    worker.done(first)
    assert tasks_of(worker.claim(kinds={"walk"})) == [walk.first]


@case("claim")
def a_claim_that_only_puts_rows_in_line_uses_no_number_up(house: House) -> None:
    """Where a verb may be carried out late, it does: it would take what nobody asks about any more."""
    declare(house, most=1)
    house.any_run(house.tasks(1), house.tasks(1))
    worker, other = house.worker(), house.worker()
    held = worker.take(1)
    assert other.claim() == ()
    assert house.live()[1].state is LIMITED
    worker.done(held)
    again = other.store.claim(other.last, want()).claims
    assert len(again) == (0 if house.store.describe().delivers_late else 1)


@case("commit")
def a_task_that_ends_makes_room_for_the_next_in_line(house: House) -> None:
    declare(house, most=1)
    groups = [house.tasks(1) for _ in range(3)]
    run = house.any_run(*groups)
    worker = house.worker()
    first = worker.take()
    assert worker.claim() == ()
    worker.done(first)
    assert states(house, run) == [READY, LIMITED]
    assert tasks_of(house.worker().claim()) == [groups[1].first]


@case("commit")
def the_next_claim_of_a_commit_takes_the_place_that_the_commit_frees(house: House) -> None:
    declare(house, most=2)
    groups = [house.tasks(1) for _ in range(5)]
    run = house.any_run(*groups)
    worker = house.worker()
    claims = worker.claim()
    assert worker.claim() == ()
    parts = [Part(claim.token, claim.tasks) for claim in claims]
    answer = worker.commit(*parts, then=want())
    assert tasks_of(answer.claimed.claims) == [groups[2].first, groups[3].first]
    assert states(house, run)[2:] == [LIMITED]


@case("commit")
def tasks_that_fail_are_put_off_or_tried_later_make_room(house: House) -> None:
    for status in (Status.FAILED, Status.DEFERRED, Status.RETRYING):
        name = f"of {status.name}"
        declare(house, name, most=1, kinds=(name,))
        house.any_run(house.tasks(1, kind=name), house.tasks(1, kind=name))
        worker = house.worker()
        claim = worker.take(kinds={name})
        assert worker.claim(kinds={name}) == ()
        later = () if status is Status.FAILED else [Later(claim.tasks, house.store.now() + 60 * SECOND)]
        worker.commit(Part(claim.token, claim.tasks, status, later=later))
        assert len(worker.claim(kinds={name})) == 1


@case("release")
def a_claim_that_goes_back_makes_room(house: House) -> None:
    declare(house, most=1, kinds=("walk", "copy"))
    house.any_run(house.tasks(1), house.tasks(1, kind="copy"))
    worker = house.worker()
    claim = worker.take()
    assert worker.claim(kinds={"copy"}) == ()
    worker.release(claim)
    assert len(worker.claim(kinds={"copy"})) == 1


@case("release")
def a_process_that_leaves_makes_room(house: House) -> None:
    declare(house, most=1, kinds=("walk", "copy"))
    house.any_run(house.tasks(1), house.tasks(1, kind="copy"))
    worker, other = house.worker(), house.worker()
    worker.take()
    assert other.claim(kinds={"copy"}) == ()
    worker.store.leave(worker.process)
    house.workers.remove(worker)
    assert len(other.claim(kinds={"copy"})) == 1


@case("bury")
def a_process_that_is_buried_makes_room(house: House) -> None:
    declare(house, most=1, kinds=("walk", "copy"))
    house.any_run(house.tasks(1), house.tasks(1, kind="copy"))
    worker, other = house.worker(), house.worker()
    worker.take()
    assert other.claim(kinds={"copy"}) == ()
    house.kill(worker, Death())
    assert len(other.claim(kinds={"copy"})) == 1


@case("reap")
def a_process_that_is_reaped_makes_room_and_its_late_commit_takes_none(house: House) -> None:
    declare(house, most=1, kinds=("walk", "copy"))
    run = house.any_run(house.tasks(1), house.tasks(1, kind="copy"))
    frozen, other = house.worker(), house.worker()
    frozen.take()
    assert other.claim(kinds={"copy"}) == ()
    house.write_off(frozen, other)
    copy = other.take(kinds={"copy"})
    assert other.claim() == ()
    other.done(copy)
    assert len(other.claim()) == 1
    assert len(house.live(run)) == 1


@case("pause")
def rows_of_a_paused_run_are_passed_over_in_line(house: House) -> None:
    declare(house, most=1)
    paused = house.any_run(house.tasks(1), house.tasks(1))
    other = house.tasks(1)
    house.any_run(other)
    worker = house.worker()
    first = worker.take(1)
    assert worker.claim() == ()
    house.store.pause(paused)
    worker.done(first)
    assert tasks_of(worker.claim()) == [other.first]
    house.store.resume(paused)
    assert worker.claim() == ()


@case("pause")
def the_next_row_follows_when_the_run_of_the_first_is_paused(house: House) -> None:
    declare(house, most=1)
    paused, other = house.any_run(house.tasks(1), house.tasks(1)), house.tasks(1)
    house.any_run(other)
    worker = house.worker()
    first = worker.take(1)
    assert worker.claim() == ()
    worker.done(first)
    house.store.pause(paused)
    assert tasks_of(worker.claim()) == [other.first]


@case("cancel")
def the_next_row_follows_when_the_run_of_the_first_is_cancelled(house: House) -> None:
    declare(house, most=1)
    gone, other = house.any_run(house.tasks(1), house.tasks(1), house.tasks(1)), house.tasks(1)
    house.any_run(other)
    worker = house.worker()
    first = worker.take(1)
    assert worker.claim() == ()
    worker.done(first)
    house.store.cancel(gone)
    assert house.store.reads.run(gone).state.is_end
    assert tasks_of(worker.claim()) == [other.first]


@case("cancel")
def a_run_of_which_all_waits_in_line_ends_when_it_is_cancelled(house: House) -> None:
    declare(house, most=1)
    house.any_run(house.tasks(1))
    run = house.any_run(house.tasks(3))
    worker = house.worker()
    worker.take()
    assert worker.claim() == ()
    assert not house.settle(run).state.is_end
    house.store.cancel(run)
    assert house.store.reads.run(run).state.is_end
    assert house.live(run) == []


@case("settle")
def the_next_row_follows_when_the_first_is_settled(house: House) -> None:
    declare(house, most=1)
    one, two = house.tasks(1), house.tasks(1)
    run = house.any_run(house.tasks(1), one, two)
    worker = house.worker()
    first = worker.take()
    assert worker.claim() == ()
    worker.done(first)
    house.store.settle(run, one.first, Status.SKIPPED)
    assert tasks_of(worker.claim()) == [two.first]


@case("reopen")
def rows_in_line_count_as_work_that_is_left(house: House) -> None:
    declare(house, most=1)
    run = house.run(house.tasks(1), house.tasks(1))
    worker = house.worker()
    first = worker.take()
    assert worker.claim() == ()
    worker.done(first)
    assert not house.settle(run).state.is_end
    worker.done(worker.take())
    assert house.settle(run).state.is_end
    worker.reopen(run, first.tasks)
    house.settle(run)
    assert tasks_of(worker.claim()) == list(first.tasks)
