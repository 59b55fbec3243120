"""Engines on real stores for the engine's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify import Engine, Tasks

Make = Callable[..., Engine]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make an engine with these sets of tasks; on SQLite, all engines of a test share one file."""
    made: list[Engine] = []

    def engine(*sets: Tasks) -> Engine:
        url = "memory:" if request.param == "memory" else str(tmp_path / "test.db")
        made.append(Engine(url, include=sets))
        return made[-1]

    yield engine
    for each in made:
        each.close()
