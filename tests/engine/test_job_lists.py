"""What somebody may ask for when jobs are listed; much of it comes from outside, as in the address of a request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine


@pytest.fixture(params=["memory:", "jobs.db"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    place = request.param
    made = Engine(place if place == "memory:" else tmp_path / place)

    @made.task
    def nothing() -> None: ...

    made.enqueue(nothing.of())
    yield made
    made.close()


@pytest.mark.parametrize("before", [2**62, 2**63, 2**80])
def test_all_jobs_are_before_one_that_cannot_be(engine: Engine, before: int) -> None:
    assert len(list(engine.jobs(before=before))) == 1


def test_no_job_is_before_all_that_can_be(engine: Engine) -> None:
    assert list(engine.jobs(before=-1)) == []


@pytest.mark.parametrize("wrong", [{"before": "x"}, {"kind": 5}, {"queue": 5}, {"key": 5}, {"headers": "x"}])
def test_what_cannot_be_asked_for_is_refused_by_name(engine: Engine, wrong: Any) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=rf"jobs\({name}="):
        engine.jobs(**wrong)


def test_the_states_of_what_is_no_id_are_refused(engine: Engine) -> None:
    wrong: Any = ["a"]
    with pytest.raises(ConfigError, match="job_states"):
        engine.job_states(wrong)
