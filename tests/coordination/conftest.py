"""Programs on one store, as several processes have it: each with a session of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ramify import Engine
from ramify.kernel.settings import Settings
from ramify.testing import oracle

#: A process that is silent for so long counts as dead; long enough for a slow machine.
DEAD_AFTER = 1.5
Programs = Callable[[], Engine]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Makes engines on one store; each is a program of its own to it."""
    made: list[Engine] = []

    def program() -> Engine:
        engine = Engine(tmp_path / "test.db", durability="process")
        engine._runtime.guest_settings = Settings(beat_every=0.1, dead_after=DEAD_AFTER)
        made.append(engine)
        return engine

    yield program
    assert not made or oracle.check(made[0]._runtime.store) == []
    for engine in made:
        engine.close()
