"""Staging: children of a task that has very many of them, written to the store before the task ends.

Rows go under staged segments, guarded by the claim's token, and nobody sees them until the task's own commit publishes
them. CRASH: at any point in between they become garbage that is listed and that vacuum removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ramify.errors import StaleClaim, StoreError
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.core.work import Chunk
from ramify.kernel.faults import reach
from ramify.kernel.outgoing.offspring import Brood, Offspring, in_order, new_tasks, sorted_out
from ramify.model.call import Call, Group
from ramify.model.task import NewTasks
from ramify.store import forks


class Void(BaseException):
    """The claim was taken away while its task staged children: nothing of this attempt counts."""


class Staging:
    """The staged children of one attempt: how many, and their ranges, named by their first ids.

    With a `join` they are its members, each in the slot that follows the one before.
    """

    def __init__(self, chunk: Chunk, task: int, attempt_env: AttemptEnv, join: int | None = None) -> None:
        self._join = join
        self._chunk = chunk
        self.handler = chunk.handler
        self._task = task
        self._sender = attempt_env.sender
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
        sender, token, now = self._sender, self._chunk.claim.token, self._sender.now()
        tasks: list[NewTasks] = []
        slot = self.count
        for group, brood in self._rows(calls):
            links = {} if self._join is None else {"join": self._join, "slot": slot}
            # One id more than needed: a store takes ranges that follow on for one, and each of these has its own name.
            tasks.append(new_tasks(group, sender.reserve(len(brood.bodies) + 1), brood, now, **links))
            slot += len(brood.bodies)
        reach("before-stage")
        if not sender.send(lambda stamp: sender.store.stage(stamp, token, tasks)):
            return False
        reach("after-stage")
        self.ranges += [group.first for group in tasks]
        self.count += len(calls)
        return True

    def _rows(self, calls: Sequence[Call[Any]]) -> Iterable[tuple[Group, Brood]]:
        if self._join is not None:
            return in_order(self._task, calls)
        offspring = Offspring()
        offspring.add(self._task, calls)
        return sorted_out(offspring.broods)
