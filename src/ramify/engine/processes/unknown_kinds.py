"""Unknown kinds: tasks that no live process can run, which a kernel cannot notice, because it never reads.

Promises: told within a second or two of when a kernel begins or finds nothing to do, and again each minute while it
lasts. A look reads sessions, and the counters of open runs, a page of them at a time where there are many. It comes at
most once a second and takes at most a thousandth of the time, so that neither busy nor idle programs feel it.

Does not say it to people; whoever listens to the signals does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from ramify.errors import RamifyError
from ramify.inspect.unknown import unknown_among
from ramify.kernel.signals import Listener, NobodyKnows, Saved, Signal, Took
from ramify.model.run import RunState, StoredRun
from ramify.store.contract import Store

#: Seconds between two looks: of a kernel that finds nothing to do, and of one that is busy.
IDLE, BUSY = 1.0, 60.0
#: After a look, so many times as long as it took.
REST = 1_000
#: How many runs are looked at in one look; the next goes on from there.
PAGE = 1_000
#: Seconds until the same is told again.
AGAIN = 60.0


class UnknownKinds:
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
        #: The run after which the next look goes on, and what was found before it.
        self._after = 0
        self._kinds: Counter[str] = Counter()
        self._said_at = -AGAIN
        self._said: frozenset[str] = frozenset()

    def __call__(self, signal: Signal) -> None:
        """Hear a signal; now and then it is a reason to look."""
        if isinstance(signal, Took | Saved):
            busy = isinstance(signal, Saved) or (isinstance(signal, Took) and signal.tasks > 0)
            if self._clock() - self._looked >= max(BUSY if busy else IDLE, REST * self._took):
                self._look()

    def _look(self) -> None:
        self._looked = self._clock()
        try:
            runs, after = self._page()
            found = unknown_among(self._store.reads, (run for run in runs if run.state is RunState.OPEN))
        except RamifyError:
            # The store is away, or a run is gone; the next look tells.
            return
        self._took = self._clock() - self._looked
        kinds = self._kinds + Counter(found)
        if kinds and (not self._said.issuperset(kinds) or self._looked - self._said_at >= AGAIN):
            self._said_at = self._looked
            self._send(NobodyKnows(tuple(kinds.most_common())))
        # What was said counts as said until all runs were looked at again.
        self._said = self._said.union(kinds) if after else frozenset(kinds)
        self._after, self._kinds = after, kinds if after else Counter()

    def _page(self) -> tuple[Iterable[StoredRun], int]:
        """The next runs to look at, and after which one the next look goes on; 0 when these were the last."""
        reads = self._store.reads
        if self._runs is not None:
            return map(reads.run, self._runs), 0
        page = reads.runs(state=RunState.OPEN, after=self._after, limit=PAGE)
        return page.rows, page.after if page.more else 0
