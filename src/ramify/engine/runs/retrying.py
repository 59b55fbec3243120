"""Trying ended tasks again: which ones, in which pages, and under whose name.

Promises: each chosen task begins one new life, and with it all that waited for it: a continuation runs again once its
members have. `reopening.py` sends it, and says what becomes of what they had made before.

A crash in between leaves some pages done and the others as they were; the same call continues with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ramify.engine.runs.keyed import check_in_place
from ramify.engine.runs.reading import Reading, closing_tasks
from ramify.engine.runs.reopening import reopen
from ramify.errors import ConfigError
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.run import RunState
from ramify.store.contract import Store
from ramify.store.here import person


class Retried(msgspec.Struct, frozen=True):
    """The effect of a retry: the number of tasks that run again, the tasks left alone because another task has their
    key, and the number of tasks replaced because the task that made them runs again.
    """

    tasks: int = 0
    superseded: tuple[tuple[int, int], ...] = ()
    replaced: int = 0


def retry(
    store: Store, reading: Reading, run: int, chosen: TasksToRetry, reason: str, by: str | None = None
) -> Retried:
    """Begin new lives for the chosen tasks of a run."""
    check_in_place(store.reads, chosen.tasks)
    said = Said(reason, person() if by is None else by)
    answer = reopen(store, run, chosen.of(reading, run), said)
    reopened, superseded = answer.tasks, answer.superseded
    if not reopened and not superseded and store.reads.run(run).fails_as is RunState.HALTED:
        if chosen.tasks:
            raise ConfigError(
                f"nothing of run {run} is retried, because these tasks have not ended. Wait for their end."
            )
        raise ConfigError(
            f"nothing of run {run} failed, so there is nothing to retry. Name its steps, or retry cancelled "
            "tasks too (cancelled=True, --cancelled)."
        )
    return Retried(len(reopened), superseded, answer.replaced)


class TasksToRetry(msgspec.Struct, frozen=True):
    """Which tasks: those named, or else those that failed, and with `quarantined` or `cancelled` those as well.

    Nothing goes on behind a step or node that was quarantined, so unless it is said (None) these are meant as well. Of
    a run without a closing task, where nobody waits for them, they are not: each may end processes again.
    """

    tasks: tuple[int, ...] = ()
    failed: bool = True
    quarantined: bool | None = None
    cancelled: bool = False

    def of(self, reading: Reading, run: int) -> Iterator[int]:
        """Return what to reopen, read as it is asked for."""
        if self.tasks:
            return iter(self.tasks)
        is_held_up = self.failed and bool(closing_tasks(reading.reads, run))
        quarantined = is_held_up if self.quarantined is None else self.quarantined
        return (task for status in self._statuses(quarantined) for task, _ in reading.ended(run, status))

    def _statuses(self, quarantined: bool) -> list[Status]:
        asked = {
            Status.FAILED: self.failed,
            Status.QUARANTINED: quarantined,
            Status.CANCELLED: self.cancelled,
        }
        return [status for status, wanted in asked.items() if wanted]
