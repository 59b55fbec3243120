"""Many small runs: what a start asks of the store does not grow with the runs that are there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, Tasks
from ramify.store.open import open_store

STARTS = 60

jobs = Tasks()


@jobs.task
def small(n: int) -> int:
    return n


class Counting:
    """A store, or its reads, that counts what it is asked."""

    def __init__(self, of: Any, asked: Counter[str]) -> None:
        self._of, self._asked = of, asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name == "reads":
            return Counting(found, self._asked)
        if not callable(found):
            return found
        self._asked[name] += 1
        return found


@pytest.fixture(params=["memory:", "starts.db"])
def counted(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    asked: Counter[str] = Counter()
    engine = Engine(include=[jobs])
    engine._runtime.say = lambda text: None
    store: Any = Counting(open_store(request.param, folder=str(tmp_path)), asked)
    engine._runtime.use(store)
    engine.start(small.of(0))
    asked.clear()
    yield engine, asked
    engine.close()


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_a_start_is_one_transaction_and_one_read(counted: Any, alike: bool, named: bool) -> None:
    engine, asked = counted
    for n in range(1, STARTS):
        engine.start(small.of(0 if alike else n), name=f"run {n}" if named else None)
    assert asked["start"] == STARTS - 1
    assert asked["reserve"] < STARTS / 4, "ids come from a block"
    reads = {
        name: many for name, many in asked.items() if name in ("find_run", "owners", "unnamed", "runs", "processes")
    }
    assert reads == {"find_run" if named else "owners": STARTS - 1}
