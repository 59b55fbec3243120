"""Houses to look at: the conformance suite's, on each of our stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify.store.memory import MemoryStore, MemoryTables
from ramify.store.sqlite import SqliteStore
from ramify.testing.conformance import House


@pytest.fixture(params=["memory", "sqlite"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """An empty place with a clock that stands still."""
    if request.param == "memory":
        place = MemoryTables()
        house = House(lambda clock: MemoryStore(place, clock), lambda store: None)
    else:
        house = House(lambda clock: SqliteStore(tmp_path / "house.db", clock=clock), lambda store: store.close())
    yield house
    house.close()
