"""Beliefs: what an append has left in the store, for the next one of the same client.

A client that adds job after job to a queue knows the run of the queue, and the row that its last job lies in. It need
not load them again: it writes at once, and the write itself checks that they are as they were (`Tables.write_if`). A
belief that does not hold costs the check; the append then loads as if there had been none.

Both ways leave the same rows. Where that is not certain, nothing is believed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.addition import Addition
from ramify.model.run import StoredRun
from ramify.store.changes import Believed, Changes, TailRow
from ramify.store.verbs.adding import is_single

#: The most queues that are remembered.
MOST = 1_000


class Beliefs:
    """The runs that this client has added to by their names, each with the row of its last task."""

    def __init__(self) -> None:
        self._runs: dict[str | None, StoredRun] = {}
        self._tails: dict[int, TailRow] = {}

    def about(self, additions: Sequence[Addition]) -> Believed | None:
        """Return what is believed of the one run that all of these go into; None where it is not enough."""
        opens = additions[0].opens if additions else None
        run = None if opens is None else self._runs.get(opens.name)
        if run is None or not all(_goes_into(run, each) for each in additions):
            return None
        groups = [tasks for each in additions for tasks in each.tasks]
        if not groups:
            return None
        first, last = min(tasks.first for tasks in groups), max(tasks.last for tasks in groups)
        if len(groups) != 1 or not is_single(groups[0]):
            return Believed(run, first, last)
        tail = self._tails.get(run.id)
        if tail is None or tail.span.last != first - 1:
            # Who comes right before it is not known: perhaps a row that it must extend.
            return None
        return Believed(run, first, last, tail)

    def learn(self, runs: Sequence[StoredRun], changes: Changes) -> None:
        """Remember the runs that tasks went into, once that is written."""
        if len(self._runs) + len(runs) > MOST:
            self.__init__()  # type: ignore[misc]
        for run in runs:
            self._runs[run.name] = run
            self._tails.pop(run.id, None)
        if len(runs) == 1:
            self.follow(runs[0], changes)

    def follow(self, run: StoredRun, changes: Changes) -> None:
        """Remember the row in which the last task lies now, if these changes have touched only one."""
        if len(changes.spans) == len(changes.segments) == 1:
            self._tails[run.id] = TailRow(changes.spans[0], changes.segments[0])
        elif len(changes.longer) == len(changes.grown) == 1:
            self._tails[run.id] = TailRow(changes.longer[0], changes.grown[0])

    def forget(self, believed: Believed) -> None:
        """It was not so."""
        self._runs.pop(believed.run.name, None)
        self._tails.pop(believed.run.id, None)


def _goes_into(run: StoredRun, new: Addition) -> bool:
    """Return whether it goes into that run by its name, and neither waits nor is waited for: a belief knows no more."""
    if new.opens is None or new.opens.name != run.name or new.opens.shape != run.shape or new.joins or new.waiters:
        return False
    return not any(tasks.waits or tasks.join is not None for tasks in new.tasks)
