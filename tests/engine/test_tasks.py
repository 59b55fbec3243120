"""Sets of tasks: declared anywhere, included, and no name twice."""

import pytest

from ramify import ConfigError, Engine, Tasks


def first(x: int) -> int:
    return x


def second(x: int) -> int:
    return x


def test_an_engine_knows_what_it_includes_also_what_comes_later() -> None:
    jobs = Tasks()
    engine = Engine("memory:", include=[jobs])
    task = jobs.task(first)
    assert engine.table() == {"first": task}
    assert engine.handlers()["first"] is task.handler


def test_a_kind_twice_is_refused_with_both_places() -> None:
    jobs, others = Tasks(), Tasks()
    jobs.task(first)
    others.task(name="first")(second)
    engine = Engine("memory:", include=[jobs])
    with pytest.raises(ConfigError, match=r"test_tasks\.py:8.*test_tasks\.py:12"):
        engine.include(others)
    assert set(engine.table()) == {"first"}
    with pytest.raises(ConfigError, match="called 'first'"):
        engine.task(name="first")(second)
    with pytest.raises(ConfigError, match="called 'first'"):
        engine.task(aliases=["first"])(second)


def test_a_kind_twice_is_found_also_when_it_came_after_the_include() -> None:
    jobs, others = Tasks(), Tasks()
    engine = Engine("memory:", include=[jobs, others])
    jobs.task(first)
    others.task(name="first")(second)
    with pytest.raises(ConfigError, match="called 'first'"):
        engine.handlers()


def test_an_older_name_leads_to_the_same_function() -> None:
    jobs = Tasks()
    task = jobs.task(aliases=["ancient"])(first)
    assert jobs.table() == {"first": task, "ancient": task}


def test_a_set_may_be_included_twice_but_never_in_itself() -> None:
    jobs, outer = Tasks(), Tasks()
    jobs.task(first)
    outer.include(jobs)
    engine = Engine("memory:", include=[jobs, outer])
    assert set(engine.table()) == {"first"}
    with pytest.raises(ConfigError, match="itself"):
        jobs.include(outer)
    with pytest.raises(ConfigError, match=r"Tasks\(\)"):
        outer.include(first)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="list"):
        Engine("memory:", include=jobs)  # type: ignore[arg-type]


def test_the_same_function_decorated_again_is_a_module_loaded_again() -> None:
    jobs = Tasks()
    jobs.task(first)
    again = jobs.task(retries=0)(first)
    assert jobs.table() == {"first": again}
