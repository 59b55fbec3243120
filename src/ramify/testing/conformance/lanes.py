"""Lanes: tasks of one row may have a lane each, and such a row comes apart when it is put back."""

from __future__ import annotations

from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.model.policy import SECOND
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.registry import case

LANES = ["a", "b", "d", "a", "c"]


@case("claim")
def a_row_of_several_lanes_says_the_lane_of_each_task(house: House) -> None:
    run = house.run(tasks := house.tasks(5, lanes=LANES))
    claim = house.worker().take(3)
    assert (claim.lane, list(claim.lanes or ())) == (None, LANES[:3])
    rest = house.worker().take()
    assert (rest.lane, list(rest.lanes or ()), list(rest.tasks)) == (None, LANES[3:], [*tasks.ids][3:])
    assert [row.lane for row in house.store.reads.tasks(run).rows] == LANES


@case("claim")
def a_row_of_several_lanes_is_given_although_one_of_them_is_busy(house: House) -> None:
    house.run(tasks := house.tasks(2, lanes=["a", "b"]))
    claim = house.worker().ask(want(busy_lanes=["a"])).claims[0]
    assert list(claim.tasks) == list(tasks.ids)


@case("release")
def a_row_of_several_lanes_comes_apart(house: House) -> None:
    run = house.run(tasks := house.tasks(5, lanes=LANES))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, [claim.tasks[1]])
    worker.release(claim)
    first = tasks.first
    rows = [(row.lane, list(row.tasks), row.attempt) for row in house.live(run)]
    assert sorted(rows, key=lambda row: row[1]) == [
        ("a", [first, first + 3], 0),
        ("d", [first + 2], 0),
        ("c", [first + 4], 0),
    ]
    assert house.offered(want(busy_lanes=["a"])) == [first + 2, first + 4]
    again = worker.ask(want(busy_lanes=["c"])).claims
    assert [(each.lane, each.lanes) for each in again] == [("a", None), ("d", None)]


@case("release")
def what_came_apart_of_a_paused_run_stays_behind_the_gate(house: House) -> None:
    house.put_back_while_paused(house.run(house.tasks(2, lanes=["a", "b"])))
    assert len(house.offered()) == 2


@case("release")
def a_row_of_one_lane_stays_whole(house: House) -> None:
    run = house.run(house.tasks(3, lane="a"))
    worker = house.worker()
    worker.release(worker.take())
    assert [row.lane for row in house.live(run)] == ["a"]


@case("commit")
def tasks_that_come_back_keep_their_lanes(house: House) -> None:
    house.run(tasks := house.tasks(3, lanes=["a", "b", "c"]))
    worker = house.worker()
    claim = worker.take()
    later = Later([claim.tasks[1], claim.tasks[2]], house.clock.now() + SECOND)
    worker.commit(Part(claim.token, claim.tasks, [Status.DONE, Status.RETRYING, Status.DEFERRED], later=[later]))
    house.clock.advance(2.0)
    back = worker.take()
    assert (list(back.tasks), list(back.lanes or ())) == ([*tasks.ids][1:], ["b", "c"])


@case("reap")
def a_row_of_several_lanes_of_the_dead_keeps_them(house: House) -> None:
    house.run(house.tasks(3, lanes=["a", "b", "c"]))
    worker = house.worker()
    worker.take()
    house.bury(worker)
    assert list(house.worker().take().lanes or ()) == ["a", "b", "c"]


@case("reopen")
def a_reopened_task_keeps_its_lane(house: House) -> None:
    run = house.run(tasks := house.tasks(2, lanes=["a", "b"]))
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    worker.reopen(run, [tasks.first + 1])
    house.advance(run, house.store.reads.run(run).round)
    claim = worker.take()
    assert (list(claim.tasks), list(claim.lanes or ())) == ([tasks.first + 1], ["b"])


@case("stage")
def staged_tasks_have_lanes_too(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = [house.tasks(2, lanes=["a", "b"], parents=claim.tasks[0]), house.tasks(2, parents=claim.tasks[0])]
    worker.stage(claim, *staged)
    worker.commit(Part(claim.token, claim.tasks, publish=[group.first for group in staged]))
    assert [list(each.lanes) if each.lanes is not None else None for each in worker.claim(9)] == [["a", "b"], None]
    assert [row.lane for row in house.store.reads.tasks(run).rows][1:] == ["a", "b", None, None]


@case("append")
def kept_tasks_keep_their_lanes_when_others_lose_their_keys(house: House) -> None:
    run = house.queue(house.tasks(1, keys=[b"k"], hold=Hold.ONCE))
    house.worker().take()
    house.add(run, house.tasks(3, lanes=["a", "b", "c"], keys=[b"l", b"k", b"m"], hold=Hold.ONCE))
    claim = house.worker().take()
    assert list(claim.lanes or ()) == ["a", "c"]


@case("append")
def a_single_task_with_a_lane_in_a_column_follows_on_nothing(house: House) -> None:
    run = house.queue()
    first = house.store.reserve(2)
    one = house.tasks(1, lanes=["a"])
    house.add(run, type(one)(first, "walk", [b"1"], lanes=["a"]))
    house.add(run, type(one)(first + 1, "walk", [b"2"], lanes=["b"]))
    assert [list(claim.lanes or ()) for claim in house.worker().claim(9)] == [["a"], ["b"]]
