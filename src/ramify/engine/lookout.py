"""The lookout: notices what a kernel cannot, because it never reads: tasks of kinds that no live process knows.

Promises: told when the work begins, at once when a kernel finds nothing to do, and again each minute while it lasts. A
look reads sessions, and the counters of open runs, which may be many. It comes at most once a second and takes at most
a hundredth of the time, so that neither busy nor idle programs feel it.

Does not say it to people; whoever listens to the signals does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ramify.errors import RamifyError
from ramify.inspect.find import every_run
from ramify.inspect.unknown import unknown_among
from ramify.kernel.signals import Entered, Listener, NobodyKnows, Saved, Signal, Took
from ramify.model.run import RunState
from ramify.store.contract import Store

#: Seconds between two looks: of a kernel that finds nothing to do, and of one that is busy.
IDLE, BUSY = 1.0, 60.0
#: After a look, so many times as long as it took.
REST = 100
#: Seconds until the same is told again.
AGAIN = 60.0


class Lookout:
    """A listener to a kernel's signals that sends one more. `runs` are those it watches; None means all open ones."""

    def __init__(
        self,
        store: Store,
        runs: Collection[int] | None,
        send: Listener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._runs = runs
        self._send = send
        self._clock = clock
        self._looked = -BUSY
        self._took = 0.0
        self._said_at = -AGAIN
        self._said: frozenset[str] = frozenset()

    def __call__(self, signal: Signal) -> None:
        """Hear a signal; now and then it is a reason to look."""
        if isinstance(signal, Took | Saved | Entered):
            busy = isinstance(signal, Saved) or (isinstance(signal, Took) and signal.tasks > 0)
            if self._clock() - self._looked >= max(BUSY if busy else IDLE, REST * self._took):
                self._look()

    def _look(self) -> None:
        self._looked = self._clock()
        reads = self._store.reads
        try:
            found = every_run(reads, RunState.OPEN) if self._runs is None else map(reads.run, self._runs)
            kinds = unknown_among(reads, (run for run in found if run.state is RunState.OPEN))
        except RamifyError:
            # The store is away, or a run is gone; the next look tells.
            return
        self._took = self._clock() - self._looked
        if kinds and (not self._said.issuperset(kinds) or self._looked - self._said_at >= AGAIN):
            self._said_at = self._looked
            self._send(NobodyKnows(tuple(kinds.items())))
        self._said = frozenset(kinds)
