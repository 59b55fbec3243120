"""The cap of a run: `max_tasks`, watched by every process that works on it.

Promises: once a run has as many tasks as it may have, it is stopped and ends as halted, with the reason. The counters
are looked at after each commit that added tasks, so a run passes its cap by what was in flight at that moment, and by
no more.

Does not refuse single tasks: what a commit added stays, and is swept when the run ends.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from ramify.errors import StoreError
from ramify.inspect.find import every_run
from ramify.kernel.signals import Saved, Signal
from ramify.model.event import Tally
from ramify.model.run import RunState
from ramify.shapes.frontier import Roots
from ramify.store.contract import Store

#: How often a process that serves all runs looks for new ones with a cap, in seconds.
_LOOK_EVERY = 1.0


class Cap:
    """A listener to a kernel's signals that stops runs at their cap. `runs` are those it watches; None means all."""

    def __init__(self, store: Store, runs: Collection[int] | None) -> None:
        self._store = store
        self._runs = runs
        self._caps: dict[int, int] = {}
        self._looked = 0.0

    def __call__(self, signal: Signal) -> None:
        """After a commit with children, see whether a run has enough."""
        if not isinstance(signal, Saved) or not signal.children:
            return
        try:
            self._look()
            for run, cap in list(self._caps.items()):
                added = sum(counters.get(Tally.ADDED, 0) for counters in self._store.reads.counts(run).values())
                if added >= cap:
                    reason = f"max_tasks={cap} reached ({added} tasks)"
                    self._store.cancel(run, reason=reason, into=RunState.HALTED)
                    del self._caps[run]
        except StoreError:
            # The store is away; the next commit that gets through is looked at again.
            return

    def _look(self) -> None:
        if self._looked and (self._runs is not None or time.monotonic() - self._looked < _LOOK_EVERY):
            return
        reads = self._store.reads
        found = every_run(reads, RunState.OPEN) if self._runs is None else map(reads.run, self._runs)
        caps = {run.id: Roots.of_run(run).max_tasks for run in found if run.shape == "frontier"}
        self._caps = {run: cap for run, cap in caps.items() if cap is not None}
        # Only now: a store that was away in between must be asked again.
        self._looked = time.monotonic()
