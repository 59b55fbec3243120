"""Limits as a program declares them: one by one, shared by tasks, of one name in several sets; and odd ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ramify import ConfigError, Defer, Engine, Rate, TaskLimit, Tasks
from ramify.engine.tasks.contents import limits_of
from ramify.model.limit import Limit, Numbers, Pace
from ramify.model.policy import SECOND


def work(host: str = "") -> None:
    """A function that tests never call."""


def rest(host: str = "") -> None:
    """Another one."""


def test_a_limit_that_several_tasks_share_covers_the_kinds_of_all_and_their_older_names() -> None:
    jobs, engine = Tasks(), Engine("memory:")
    api = engine.limit("api", max_running=5, max_rate=Rate("100/m", burst=20))
    engine.task(limit=api, aliases=["toil"])(work)
    jobs.task(limit=api)(rest)
    engine.include(jobs)
    numbers = Numbers(5, Pace(100, 60 * SECOND, 20))
    assert limits_of(engine) == [Limit("api", numbers, False, ("rest", "toil", "work"))]
    assert repr(api) == "<limit 'api': max_running=5, max_rate='100/m'>"


def test_a_task_with_numbers_of_its_own_has_a_limit_of_its_name() -> None:
    engine = Engine("memory:")
    task = engine.task(max_running=2, per="lane", lane="host")(work)
    assert limits_of(engine) == [Limit("work", Numbers(2), True, ("work",))]
    assert (task.handler.policy.per_lane, task.handler.policy.in_all) == (True, False)


def test_a_limit_in_all_and_one_per_lane_hold_together() -> None:
    engine = Engine("memory:")
    api = engine.limit("api", max_running=9)
    task = engine.task(limit=[api], max_rate=(3, 0.5), per="lane")(work)
    assert [limit.name for limit in task.limits] == ["api", "work"]
    assert (task.handler.policy.per_lane, task.handler.policy.in_all) == (True, True)


def test_a_task_without_limits_has_none() -> None:
    engine = Engine("memory:")
    task = engine.task(concurrency=1)(work)
    assert (limits_of(engine), task.limits, task.handler.policy.per_lane) == ([], (), False)


def test_a_limit_that_no_task_keeps_to_covers_nothing() -> None:
    engine = Engine("memory:")
    engine.limit("api", max_running=9)
    assert limits_of(engine) == [Limit("api", Numbers(9))]


API = Tasks().limit("api", max_running=1)
HOST = Tasks().limit("host", max_running=1, per="lane")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_running": 0}, "expected a whole number, 1 or more"),
        ({"max_running": True}, "expected a whole number, 1 or more"),
        ({"max_running": 1.5}, "expected a whole number, 1 or more"),
        ({"max_rate": "often"}, 'Write "10/s"'),
        ({"max_rate": "0/m"}, "expected a whole number of starts, 1 or more"),
        ({"max_rate": (1, float("nan"))}, "expected a finite time above 0"),
        ({"max_rate": float("nan")}, "expected a number of starts in a time"),
        ({"max_rate": (1, 1e-9)}, "expected a time of a microsecond or more"),
        ({"max_rate": (1, timedelta.max)}, "and of a year at most"),
        ({"per": "lane"}, "expected max_running, max_rate or both"),
        ({"max_running": 1, "per": "host"}, 'Write per="lane"'),
        ({"limit": 5}, 'api = engine.limit("api", max_running=5)'),
        ({"limit": [API, 5]}, 'api = engine.limit("api", max_running=5)'),
        ({"limit": [API, API]}, "expected at most one limit in all"),
        ({"limit": API, "max_running": 2}, "expected at most one limit in all"),
        ({"limit": [API, HOST], "max_running": 2, "per": "lane"}, "expected at most one limit per lane"),
    ],
)
def test_odd_options_are_refused_with_what_to_write(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Tasks().task(**options)(work)
    assert said in str(refused.value)
    assert "on work()" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "options"), [("", {"max_running": 1}), (5, {"max_running": 1}), ("api", {}), ("api", {"max_running": -1})]
)
def test_odd_limits_are_refused(name: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^limit\("):
        Tasks().limit(name, **options)


def declared_twice() -> list[Tasks]:
    one, other = Tasks(), Tasks()
    one.limit("api", max_running=1)
    other.limit("api", max_running=2)
    return [one, other]


def test_two_limits_of_one_name_that_differ_are_refused_wherever_they_meet() -> None:
    one, other = declared_twice()
    with pytest.raises(ConfigError, match="two limits are called 'api': max_running=1 and max_running=2"):
        one.limit("api", max_running=2)
    with pytest.raises(ConfigError, match="two limits are called 'api'"):
        one.limit("api", max_running=1, per="lane")
    with pytest.raises(ConfigError, match="two limits are called 'api'"):
        one.include(other)
    with pytest.raises(ConfigError, match="two limits are called 'api'"):
        one.task(name="api", max_running=3)(work)
    with pytest.raises(ConfigError, match="two limits are called 'api'"):
        one.task(limit=TaskLimit("api", 7, None, None))(work)


def test_the_same_limit_may_be_made_again() -> None:
    one = Tasks()
    assert one.limit("api", max_running=1) is one.limit("api", max_running=1)


def test_what_is_typed_again_in_a_notebook_changes_the_limit_of_tasks_that_have_it() -> None:
    notebook = {"__name__": "__main__", "tasks": (tasks := Tasks()), "work": work}
    exec(compile("api = tasks.limit('api', max_running=1)\ntasks.task(limit=api)(work)", "<cell 1>", "exec"), notebook)
    exec(compile("api = tasks.limit('api', max_running=2)", "<cell 2>", "exec"), notebook)
    assert limits_of(tasks) == [Limit("api", Numbers(2), False, ("work",))]


@pytest.mark.parametrize("given", [0, -1, True, "5", 1.5])
def test_odd_limits_of_queues_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^queue\(max_running="):
        Engine("memory:").queue("mail", max_running=given)


@pytest.mark.parametrize("closes", ["other", "", 1])
def test_what_cannot_be_closed_is_refused_with_what_to_write(closes: Any) -> None:
    with pytest.raises(
        ValueError, match=r'^Defer\(closes=.*expected "lane" or "limit", or nothing\. Write closes="lane"'
    ):
        Defer(30, closes=closes)
