"""The exceptions of Ramify: one tree, so that `except RamifyError` means "anything this engine says is wrong".

    RamifyError
    ├── BadPayload (also a TypeError)
    │   └── NotKnownYet
    ├── ConfigError
    ├── GateClosed
    ├── NotInstalled
    ├── OutsideTask
    ├── OverwriteError
    ├── RunEnded
    ├── RunFailed
    │   └── RunCancelled
    ├── RunForgotten
    ├── RunNeeded
    ├── StaleClaim
    │   ├── Reaped
    │   └── StaleStamp
    ├── StoreError
    │   ├── StoreUnavailable
    │   ├── StoreBroken
    │   ├── StoreRefused
    │   └── SchemaTooNew
    └── UnknownRun

Each class states one fact, and its text says what to do next. An exception of the user's own code never appears here:
it belongs to the attempt that raised it.
"""

from collections.abc import Iterable
from typing import Any


class RamifyError(Exception):
    """Something Ramify itself refuses, has lost or cannot reach."""


class BadPayload(RamifyError, TypeError):
    """Arguments or a result that would not come back equal, or a stored one that no longer fits its function."""


class NotKnownYet(BadPayload):
    """What stands for the result of a node, or for a param, was used as if it were the value; do that in a task."""


class ConfigError(RamifyError):
    """A declaration or a setting that can never work as it is written."""


class GateClosed(RamifyError):
    """The gate takes no answer: it is not open yet, or somebody has answered, or its time is up."""


class NotInstalled(RamifyError):
    """A feature was asked for whose optional dependency is not installed."""


class OutsideTask(RamifyError):
    """`current()` was called where no attempt runs."""


class OverwriteError(RamifyError):
    """The name has a value in the context of the run already, and a name is set once unless one says otherwise."""


class StaleClaim(RamifyError):
    """The claim's token is void: another process may hold these tasks, and nothing was changed."""


class Reaped(StaleClaim):
    """This process was declared dead, or has left: its claims are void, its verbs refused; enter as a new one."""


class StaleStamp(StaleClaim):
    """A verb arrived after a later one of the same process: it was answered long ago, and nothing was changed."""


class JobFailed(RamifyError):
    """The job failed for good. `error` says how."""

    def __init__(self, text: str, error: Any = None) -> None:
        super().__init__(text)
        self.error = error


class JobCancelled(JobFailed):
    """The job was cancelled, or expired, so it has no result. `error` says why."""


class QueueFull(RamifyError):
    """The queue has as many jobs waiting as it may have; nothing was added."""


class RunEnded(RamifyError):
    """The run has ended or is being cancelled, and takes no more tasks; start another, or reopen its tasks."""


class RunFailed(RamifyError):
    """Tasks of a run failed, so its results are not whole. `groups` are the failures that look alike, largest first;
    `complete` is False when these are only the newest of very many.
    """

    def __init__(self, text: str, groups: Iterable[Any] = (), complete: bool = True) -> None:
        super().__init__(text)
        self.groups: tuple[Any, ...] = tuple(groups)
        self.complete = complete


class RunCancelled(RunFailed):
    """The run was cancelled, so its results are not whole. `groups` are what failed before that."""


class RunForgotten(RamifyError):
    """The run was forgotten: its tasks, results and logs are gone; only how it ended is still known."""


class RunNeeded(RamifyError):
    """The run cannot be forgotten: it goes on, or somebody works with its results; nothing was changed."""


class StoreError(RamifyError):
    """The store could not do what was asked of it."""


class StoreUnavailable(StoreError):
    """The store does not answer at the moment: retry the same verb."""


class StoreBroken(StoreError):
    """The store is damaged, or contradicts itself: stop; it needs a person."""


class StoreRefused(StoreError):
    """The store cannot keep its promises in this place, such as on a network file system, so it was not opened."""


class SchemaTooNew(StoreError):
    """The store was written by a newer Ramify than this one: upgrade this process."""


class UnknownRun(RamifyError):
    """No run of that name or id is in the store."""
