"""Room: how many jobs of a queue may be there for more to be added from here.

Promises: jobs that are added together, by however many threads and coroutines, are counted together, so they never are
more than there was room for. Other processes count for themselves, and may add a few at the same moment. A call whose
key is held by a job that is there takes no room, however full the queue is: it is answered with that job.

Does not wait for room, and keeps none free: who waits asks, and is counted again when it adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ramify.errors import QueueFull
from ramify.inspect.jobs import JobStanding, Standings, queues
from ramify.inspect.status import Counts, counts_of
from ramify.model.call import Call
from ramify.model.job import QUEUES, JobState
from ramify.model.key import Hold
from ramify.model.task import check_name
from ramify.shapes.jobs import NewJobs, queue_called
from ramify.shapes.start import until_answered
from ramify.store.reads import PAGE_LIMIT

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

OnFull = Literal["refuse", "block"]
#: What tells the key of a call from others, wherever it excludes them.
_Key = tuple[Hold, str | None, str, bytes]


@dataclass(frozen=True, slots=True)
class Bound:
    """So many jobs of a queue may not have ended, and what becomes of more."""

    most: int
    on_full: OnFull


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The queue has no room for so many jobs now, and who wants to add them is to wait."""

    queue: str
    many: int


class Room:
    """The bounds of the queues of one engine."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._bounds: dict[str, Bound] = {}

    def bound(self, queue: str, bound: Bound | None) -> None:
        """Bound a queue from now on, or lift its bound."""
        self._bounds.pop(check_name("queue", queue), None)
        if bound is not None:
            self._bounds[queue] = bound

    def pending(self, queue: str) -> int:
        """How many jobs of a queue have not ended, with what grew out of them."""
        run = queue_called(self._runtime.store, queue)
        if run is None or run.state.is_end:
            return 0
        return sum(counts_of(self._runtime.store.reads, run.id).values(), Counts()).pending

    def is_there_for(self, full: NoRoom) -> bool:
        """Return whether it is worth to try again: there is room now, or there will never be any, or the bound was
        lifted.
        """
        bound = self._bounds.get(full.queue)
        return bound is None or full.many > bound.most or self.pending(full.queue) + full.many <= bound.most

    def refusals(self, new: Sequence[NewJobs]) -> list[QueueFull | NoRoom | None]:
        """Return what keeps each of them out, if anything does; those that come first have their room first."""
        if not self._bounds:
            return [None] * len(new)
        left: dict[str, int] = {}
        coming: set[_Key] = set()
        return [self._refusal(each, left, coming) for each in new]

    def _refusal(self, new: NewJobs, left: dict[str, int], coming: set[_Key]) -> QueueFull | NoRoom | None:
        keys: set[_Key] = set()
        calls = [call for call in new.all if call.group.queue in self._bounds and _is_first(call, coming, keys)]
        needs = Counter(call.group.queue for call in calls)
        for queue, many in needs.items():
            bound = self._bounds[queue]
            if queue not in left:
                left[queue] = bound.most - until_answered(partial(self.pending, queue))
            if many > left[queue]:
                needs[queue] = many = sum(
                    not self._is_held(call, again=new.again) for call in calls if call.group.queue == queue
                )
            if many > left[queue]:
                return _refused(queue, bound, many, left[queue])
        left.update({queue: left[queue] - many for queue, many in needs.items()})
        coming |= keys
        return None

    def _is_held(self, call: Call[Any], *, again: bool) -> bool:
        """Return whether a job has its key, as far as its queue and the others tell."""
        group, reads = call.group, self._runtime.store.reads
        if call.label is None or group.hold is Hold.LABEL:
            return False
        runs = [run for run in queues(reads) if group.hold is Hold.UNIQUE or run.name == QUEUES + group.queue]
        found = (reads.find_tasks(run.id, call.kind, call.label, limit=PAGE_LIMIT) for run in runs)
        standings = Standings(reads, self._runtime.store.now())
        there = standings.of([task for tasks in found for task in tasks]).values()
        return any(group.hold is Hold.ONCE or self._holds(each, group.keep or 0, again, standings) for each in there)

    def _holds(self, job: JobStanding, keep: int, again: bool, standings: Standings) -> bool:
        """Return whether a job has its key still, which is kept for so many microseconds after it was done."""
        if not job.state.is_end:
            return True
        is_kept = job.state is JobState.DONE and not again
        return is_kept and (standings.when(job) or 0) + keep > self._runtime.store.now()


def _refused(queue: str, bound: Bound, many: int, left: int) -> QueueFull | NoRoom:
    if many > bound.most:
        # First: no waiting would help.
        return QueueFull(f"queue {queue!r} takes at most {bound.most:,} jobs, got {many:,} at once. Add fewer.")
    if bound.on_full == "refuse":
        return QueueFull(
            f"queue {queue!r} has {bound.most - left:,} jobs that have not ended, and takes {bound.most:,}. Nothing "
            'was added. Try again later, or let enqueue wait: queue(..., on_full="block").'
        )
    return NoRoom(queue, many)


def _is_first(call: Call[Any], coming: set[_Key], keys: set[_Key]) -> bool:
    """Return whether no call before this one has its key; the keys of `coming` and of these calls are known."""
    for key in _keys(call):
        if key in coming or key in keys:
            return False
        keys.add(key)
    return True


def _keys(call: Call[Any]) -> Iterator[_Key]:
    """Its key, if it has one that excludes others."""
    group = call.group
    if call.label is not None and group.hold is not Hold.LABEL:
        yield group.hold, group.queue if group.hold is Hold.ONCE else None, call.kind, call.label
