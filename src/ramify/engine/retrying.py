"""Trying ended tasks again: which ones, in which pages, and under whose name.

Promises: each chosen task begins one new life, and with it all that waited for it: a continuation runs again once its
members have. Everything is sent under the numbers of a brief process of its own, so that a lost answer is asked for
again and not guessed.

A crash in between leaves some pages done and the others as they were; the same call goes on with the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import msgspec

from ramify.engine.reading import Reading, closing_tasks
from ramify.errors import ConfigError
from ramify.kernel.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.process import Stamp
from ramify.model.reopening import REOPEN_LIMIT
from ramify.model.run import RunState
from ramify.store.contract import Reopened, Store
from ramify.store.here import person


class Retried(msgspec.Struct, frozen=True):
    """What a retry did: how many tasks begin a new life, and those whose key another task has taken since."""

    tasks: int = 0
    superseded: tuple[tuple[int, int], ...] = ()


def retry(
    store: Store, reading: Reading, run: int, chosen: TasksToRetry, reason: str, by: str | None = None
) -> Retried:
    """Begin new lives for the chosen tasks of a run."""
    said = Said(reason, person() if by is None else by)
    sender = Sender(store, Settings(), Signals(), threading.Event(), kinds=())
    sender.enter()
    reopened: set[int] = set()
    superseded: list[tuple[int, int]] = []
    try:
        tasks = chosen.of(reading, run)
        # One that was taken along with others may have ended again by now.
        while page := list(islice((task for task in tasks if task not in reopened), REOPEN_LIMIT)):
            answer = sender.send(partial(_reopen, store, run, page, said))
            reopened.update(answer.tasks)
            superseded += answer.superseded
    finally:
        store.leave(sender.process)
    if not reopened and not superseded and store.reads.run(run).fails_as is RunState.HALTED:
        if chosen.tasks:
            raise ConfigError(
                f"nothing of run {run} is tried again: what was named has not ended, and only what has can be"
            )
        raise ConfigError(
            f"nothing of run {run} failed, so there is nothing to try again; name its steps, or take what was "
            "cancelled as well (cancelled=True, --cancelled)"
        )
    return Retried(len(reopened), tuple(superseded))


def _reopen(store: Store, run: int, page: Sequence[int], said: Said, stamp: Stamp) -> Reopened:
    return store.reopen(stamp, run, page, following=True, said=said)


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
        """What to reopen, read as it is asked for."""
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
