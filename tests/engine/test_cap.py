"""The cap of a run also holds when the store was away at the moment somebody looked for it."""

from __future__ import annotations

from typing import Any

from ramify import Engine, RunState
from ramify.engine.cap import Cap
from ramify.errors import StoreUnavailable
from ramify.kernel.signals import Saved
from tests.engine.jobs import endless, jobs


class AwayOnce:
    """Reads that fail the first time."""

    def __init__(self, reads: Any) -> None:
        self._reads = reads
        self._was_away = False

    def __getattr__(self, name: str) -> Any:
        if not self._was_away:
            self._was_away = True
            raise StoreUnavailable("away")
        return getattr(self._reads, name)


class Behind:
    """A store whose reads are away once."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.reads = AwayOnce(store.reads)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_cap_is_looked_for_again_when_the_store_was_away() -> None:
    engine = Engine("memory:", include=[jobs])
    run = engine.start(endless.of(0), max_tasks=1)
    cap: Any = Cap(Behind(engine.store), {run.id})
    for _ in range(2):
        cap(Saved(outcomes=1, children=1, refused=0, seconds=0.0))
    assert run.state is not RunState.OPEN
    engine.close()
