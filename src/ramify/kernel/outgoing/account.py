"""The account: what a process does, counted as it commits and told with each beat, for metrics.

Promises: what is counted is in the store. It costs a few additions per claim of a commit, and one more for each attempt
that was not quick; how much is told depends on kinds, not on tasks. What was not told yet is lost with the process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable

from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.outbox import Finished
from ramify.kernel.signals import Attempts, Signals, Worked
from ramify.kernel.tuning import BOUNDS
from ramify.model.claim import Claim
from ramify.model.event import ATTEMPTED, Status
from ramify.model.policy import SECOND

_BOUNDS = [round(bound * SECOND) for bound in BOUNDS]

_DONE = int(Status.DONE)


class _Kind:
    """Attempts of one kind and queue since they were last told."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)

    def add(self, finished: Finished) -> None:
        tried, given = len(finished.tasks), finished.statuses
        if given is None:
            self.statuses[_DONE] += tried
        else:
            # Plain numbers count several times as fast.
            statuses = Counter(map(int, given))
            self.statuses.update(statuses)
            tried = sum(count for status, count in statuses.items() if status in ATTEMPTED)
        self.seconds += finished.seconds
        for time in finished.took.values():
            self.buckets[bisect_left(_BOUNDS, time)] += 1
        # Attempts that were quick are all within the first bound.
        self.buckets[0] += max(0, tried - len(finished.took))


class Account:
    """The work of one process. One thread commits, another one tells."""

    def __init__(self, signals: Signals, machine: Machine = HERE) -> None:
        self._signals = signals
        self._lock = machine.lock()
        self._clear()

    def _clear(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._claimed = self._commits = self._refused = 0
        self._seconds = 0.0

    def claimed(self, claims: Iterable[Claim]) -> int:
        """A verb brought claims; how many tasks these are."""
        tasks = sum(len(claim.tasks) for claim in claims)
        with self._lock:
            self._claimed += tasks
        return tasks

    def saved(self, batch: Iterable[Finished], refused: Collection[bytes], seconds: float) -> None:
        """A commit was answered, after so many seconds; parts with these tokens were refused."""
        with self._lock:
            self._commits += 1
            self._seconds += seconds
            self._refused += len(refused)
            for finished in batch:
                claim = finished.claim
                if claim.token not in refused:
                    self._kinds.setdefault((claim.kind, claim.queue), _Kind()).add(finished)

    def tell(self) -> None:
        """Send what was done since the last time, if anything was."""
        with self._lock:
            worked = Worked(
                self._claimed,
                self._commits,
                self._seconds,
                self._refused,
                tuple(
                    Attempts(
                        kind,
                        queue,
                        tuple((Status(status).name.lower(), count) for status, count in sorted(each.statuses.items())),
                        each.seconds,
                        tuple(each.buckets),
                    )
                    for (kind, queue), each in self._kinds.items()
                ),
            )
            self._clear()
        if worked.claimed or worked.commits:
            self._signals.send(worked)
