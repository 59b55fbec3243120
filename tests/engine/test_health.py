"""The health of a store, from the engine."""

from datetime import timedelta

import pytest

from ramify import ConfigError
from tests.engine.conftest import Make
from tests.engine.sample_jobs import fragile, jobs
from tests.kernel.shop import wait_until


def test_an_engine_tells_the_health_of_its_store(make: Make) -> None:
    engine = make(jobs)
    with engine.working(threads=1):
        wait_until(lambda: len(engine.health().processes) == 1)
        assert not engine.health().unhealthy
    assert not engine.health().processes


def test_an_engine_tells_why_its_store_is_not_healthy(make: Make) -> None:
    engine = make(jobs)
    job = engine.enqueue(fragile.of("a"))
    (problem,) = engine.health().problems
    assert problem.text == f"run jobs/default is stuck: task {job.id} is ready, and no process works on this store"
    assert not engine.health().healthy
    about = [each.about for each in engine.health(max_age=timedelta(0), min_workers=1).problems]
    assert about == ["run", "age", "workers"]
    assert engine.health(max_age=3_600).problems == [problem]


@pytest.mark.parametrize("given", [-1, "60", float("nan"), float("inf"), True, timedelta(seconds=-1)])
def test_a_limit_of_age_is_a_time(make: Make, given: float) -> None:
    with pytest.raises(ConfigError, match=r"^health\(max_age=.*\): expected a time .* Give seconds or a timedelta\.$"):
        make(jobs).health(max_age=given)


def test_a_limit_of_workers_is_a_number(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"min_workers=-1: expected a whole number"):
        make(jobs).health(min_workers=-1)
