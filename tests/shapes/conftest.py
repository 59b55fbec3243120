"""Engines on each store for the tests of shapes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify import Engine
from tests.shapes import dags


@pytest.fixture(params=["memory", "sqlite"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine with the tasks of `dags`, on one store and on the other."""
    made = Engine("memory:" if request.param == "memory" else tmp_path / "dag.db", include=[dags.tasks])
    yield made
    made.close()
