"""Exceptions of Ramify: one tree, so that `except RamifyError` catches every error of the engine.

    RamifyError
    ├── BadPayload (also a TypeError)
    │   └── NotKnownYet
    ├── ConfigError
    ├── GateClosed
    ├── JobFailed
    │   └── JobCancelled
    ├── NotInstalled
    ├── OutsideTask
    ├── OverwriteError
    ├── QueueFull
    ├── RunEnded
    ├── RunFailed
    │   └── RunCancelled
    ├── RunForgotten
    ├── RunNeeded
    ├── StaleClaim
    │   ├── Reaped
    │   └── StaleStamp
    ├── StoreError
    │   ├── SchemaTooNew
    │   ├── StoreBroken
    │   ├── StoreRefused
    │   └── StoreUnavailable
    ├── UnknownRun
    └── UnknownTask

Each class states one fact, and its text says what to do next. `Terminated` is no error but a SystemExit: SIGTERM asked
for a stop. An exception of the user's own code never appears here: it belongs to the attempt that raised it. The
exceptions that a task raises to direct its own fate (`Defer`, `Fatal`, `Skip`) are no errors either; import them from
`ramify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not bound when it runs, so that every public name of this module is an exception.
    from collections.abc import Iterable
    from typing import Any


class RamifyError(Exception):
    """Any error that Ramify itself raises."""


class BadPayload(RamifyError, TypeError):
    """Arguments or a result cannot be stored without a change, or a stored value no longer fits its function."""


class NotKnownYet(BadPayload):
    """The placeholder of a node's result or of a param was used as if it were the value. Use the value in a task."""


class ConfigError(RamifyError):
    """A declaration, a setting or an argument cannot work as it is written."""


class GateClosed(RamifyError):
    """The gate takes no answer: it is not open yet, it has been answered, or it has timed out."""


class NotInstalled(RamifyError):
    """The feature needs an optional dependency that is not installed."""


class OutsideTask(RamifyError):
    """`current()` was called outside a task."""


class OverwriteError(RamifyError):
    """The name has a value in the context of the run already. Set it with `overwrite=True` to replace it."""


class StaleClaim(RamifyError):
    """The claim's token is void: another process may hold these tasks. Nothing was changed."""


class Reaped(StaleClaim):
    """This process was declared dead, or has left: its claims are void, its verbs refused. Enter as a new process."""


class StaleStamp(StaleClaim):
    """The verb arrived after a later one of the same process, and was answered long ago. Nothing was changed."""


class JobFailed(RamifyError):
    """The job failed for good. `error` has the failure."""

    def __init__(self, text: str, error: Any = None) -> None:
        super().__init__(text)
        self.error = error


class JobCancelled(JobFailed):
    """The job was cancelled or expired, so it has no result. `error` has the reason."""


class QueueFull(RamifyError):
    """The queue has reached its limit of pending jobs; nothing was added."""


class RunEnded(RamifyError):
    """The run has ended or is being cancelled, and takes no more tasks. Start another one, or retry its tasks."""


class RunFailed(RamifyError):
    """Tasks of the run failed, so its results are incomplete. `groups` are the failures by cause, largest first;
    `complete` is False if only the newest of very many were read.
    """

    def __init__(self, text: str, groups: Iterable[Any] = (), complete: bool = True) -> None:
        super().__init__(text)
        self.groups: tuple[Any, ...] = tuple(groups)
        self.complete = complete


class RunCancelled(RunFailed):
    """The run was cancelled, so its results are incomplete. `groups` are the failures before that."""


class RunForgotten(RamifyError):
    """The run was forgotten: its tasks, results and logs are gone. Its name, counts and end state remain."""


class RunNeeded(RamifyError):
    """The run cannot be forgotten: it is open, or another run needs its results. Nothing was changed."""


class StoreError(RamifyError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store does not answer at the moment. Send the same verb again."""


class StoreBroken(StoreError):
    """The store is damaged or contradicts itself. Stop; it needs a person."""


class StoreRefused(StoreError):
    """The store cannot keep its promises in this place, such as a network file system, and was not opened."""


class SchemaTooNew(StoreError):
    """The store was written by a newer Ramify. Upgrade this process."""


class UnknownRun(RamifyError):
    """The store has no run of that name or id."""
