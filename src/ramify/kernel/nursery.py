"""The nursery: children of a task that has very many of them, written to the store before the task ends.

Rows go under staged segments, guarded by the claim's token, and nobody sees them until the task's own commit publishes
them. CRASH: at any point in between they become garbage that is listed and that vacuum removes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ramify.errors import StaleClaim, StoreError
from ramify.kernel.faults import reach
from ramify.kernel.offspring import Offspring, new_tasks, sorted_out
from ramify.kernel.work import Chunk
from ramify.kernel.workplace import Workplace
from ramify.model.call import Call
from ramify.store import forks

#: A task with fewer children than this commits them with its end; one with more streams them in pieces of it.
PIECE = 8_192


class Nursery:
    """The staged children of one attempt: how many, and their ranges, named by their first ids."""

    def __init__(self, chunk: Chunk, task: int, workplace: Workplace) -> None:
        self._chunk = chunk
        self._task = task
        self._session = workplace.session
        self.ranges: list[int] = []
        self.count = 0

    def stage(self, calls: Sequence[Call[Any]]) -> bool:
        """Write one piece; False when the claim was taken away, or the store is in trouble.

        Trouble is no outcome of the task: the loop meets it too, and waits it out or stops with it.
        """
        if self._chunk.depth != forks.depth:
            # A forked child goes on to the end of its handler, and what it yields until then goes nowhere.
            return True
        if self._chunk.lost:
            # Its time is up: whatever it writes now is only garbage.
            return False
        try:
            return self._stage(calls)
        except (StaleClaim, StoreError):
            return False

    def _stage(self, calls: Sequence[Call[Any]]) -> bool:
        offspring = Offspring()
        offspring.add(self._task, calls)
        session, token, now = self._session, self._chunk.claim.token, self._session.now()
        # One id more than needed: a store takes ranges that follow on for one, and each of these has its own name.
        tasks = [
            new_tasks(group, session.take(len(brood.bodies) + 1), brood, now)
            for group, brood in sorted_out(offspring.broods)
        ]
        reach("before-stage")
        if not session.send(lambda stamp: session.store.stage(stamp, token, tasks)):
            return False
        reach("after-stage")
        self.ranges += [group.first for group in tasks]
        self.count += len(calls)
        return True
