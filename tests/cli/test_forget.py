"""`ramify forget`: whole runs, runs of an age, and what it says about those that stay."""

from __future__ import annotations

import re

import pytest

from ramify.model.join import NewJoins, NewWaiters
from ramify.model.run import NewRun, Order, RunState
from ramify.store.here import person
from ramify.store.sqlite.store import SqliteStore
from ramify.testing import oracle
from ramify.testing.clock import SECOND, FakeClock
from tests.cli.conftest import Desk


def ended(desk: Desk, name: str, count: int = 3) -> int:
    run = desk.house.any_run(desk.house.tasks(count), name=name)
    assert desk.house.finish(run).state is RunState.DONE
    return run


def test_a_run_is_forgotten_and_everybody_says_so(desk: Desk) -> None:
    run = ended(desk, "walk")
    told = desk.out("forget", "walk", "--reason", "old")
    assert told.startswith("run walk is forgotten: 3 tasks removed\n")
    assert "ramify vacuum" in told
    assert desk.house.store.reads.run(run).state is RunState.FORGOTTEN
    assert "run walk was forgotten on" in (said := desk.err("tasks", "walk", code=3))
    assert f"by {person()}: old" in said
    assert desk.json("runs")[0]["state"] == "forgotten"
    status = desk.out("status", "walk")
    assert "it had ended as done" in status
    assert re.search(rf"forgotten by {person()}, \S+ \S+: old\n", status)
    assert desk.json("forget", "walk") == [{"run": run, "name": "walk", "removed": 0, "whole": True}]
    assert oracle.check(desk.house.store) == []


def test_without_a_run_those_of_an_age_go(desk: Desk) -> None:
    ended(desk, "walk")
    ended(desk, "copy", 1)
    going = desk.house.run(desk.house.tasks(), name="going")
    assert desk.out("forget", "--older", "1d") == "nothing was forgotten\n"
    would = desk.out("forget", "--older", "0s", "--dry-run")
    assert "would forget run walk: done, ended" in would
    assert "3 tasks" in would
    assert desk.house.store.reads.run(going).state is RunState.OPEN
    assert [row["removed"] for row in desk.json("forget", "--older", "0s")] == [3, 1]
    assert desk.out("forget", "--older", "0s", "--dry-run") == "nothing would be forgotten\n"
    assert desk.json("forget", "--older", "0s") == []
    assert desk.house.store.reads.run(going).state is RunState.OPEN


def test_a_dry_run_counts_the_old_tasks_of_a_run_that_goes_on(desk: Desk) -> None:
    run = desk.house.queue(desk.house.tasks(3))
    desk.house.finish(run)
    # The store's time is that of its newest run, if that is ahead of the clock.
    later = SqliteStore(desk.folder / "walk.db", clock=FakeClock(desk.house.store.now() + 2 * 86_400 * SECOND))
    later.start(NewRun(later.reserve(1)))
    later.close()
    would = f"would forget 3 old tasks of run #{run}, which continues\n"
    assert desk.out("forget", str(run), "--older", "1d", "--dry-run") == would
    assert desk.json("forget", str(run), "--older", "1d", "--dry-run") == [
        {"run": run, "name": None, "would_remove": 3}
    ]
    told = desk.out("forget", str(run), "--older", "1h", "--dry-run")
    assert told == f"{would}tasks of a run that continues stay for at least a day after they ended\n"
    assert desk.json("forget", str(run), "--older", "1d")[0]["removed"] == 3


def test_what_somebody_began_to_forget_is_gone_on_with(desk: Desk) -> None:
    run = ended(desk, "walk", 10)
    desk.house.store.forget(run, limit=4)
    assert desk.json("forget", "--older", "1w")[0]["removed"] == 6


def test_it_says_why_a_run_stays(desk: Desk) -> None:
    ended(desk, "walk")
    desk.house.run(desk.house.tasks(), name="going")
    assert "run going is open, and only a run that has ended" in desk.err("forget", "going", code=2)
    assert "Give a shorter --older" in desk.err("forget", "walk", "--older", "1h", code=2)
    assert "no run 'nobody'" in desk.err("forget", "nobody", code=2)
    assert "--older AGE" in desk.err("forget", code=2)
    assert "expected a number with s, m, h, d or w, got 'soon'. Write 30d" in desk.err(
        "forget", "--older", "soon", code=2
    )
    assert desk.out("forget", "going", "--older", "0s").startswith("run going continues without 0 old tasks")


@pytest.mark.parametrize("is_over", [True, False])
def test_a_run_whose_results_another_one_has_goes_after_that_one(desk: Desk, is_over: bool) -> None:
    house = desk.house
    run = ended(desk, "walk", 1)
    (member,) = desk.ids(run)
    reader = house.tasks(kind="sum", waits=True)
    other = house.store.reserve(1)
    house.store.start(
        NewRun(other, name="other", order=Order.ANY),
        [reader],
        [NewJoins([reader.first], [1])],
        [NewWaiters.one(member, reader.first, 0)],
    )
    assert f"forget run {other} first" in desk.err("forget", "walk", code=3)
    if is_over:
        house.finish(other)
        assert [row["name"] for row in desk.json("forget", "--older", "0s")] == ["other", "walk"]
    else:
        assert f"forget run {other} first" in desk.json("forget", "--older", "0s")[0]["stays"]
