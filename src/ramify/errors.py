"""Exceptions of Ramify: one tree, so that `except RamifyError` catches every error of the engine.

    RamifyError
    ├── BadPayload (also a TypeError)
    │   └── NotKnownYet
    ├── ConfigError
    ├── GateClosed
    ├── JobFailed
    │   └── JobCancelled
    ├── LockLost
    ├── LockReentered
    ├── LockTimeout
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
    ├── UnknownTask
    └── ValueContended

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
    """Base class: Ramify refused something, lost something or cannot reach something."""


class BadPayload(RamifyError, TypeError):
    """Arguments or a result would not come back equal, or a stored value no longer fits its function."""


class NotKnownYet(BadPayload):
    """A stand-in for a param or a node's result was used as if it were the value; use the value inside a task."""


class ConfigError(RamifyError):
    """A declaration, an argument or a setting can never work as it is written."""


class GateClosed(RamifyError):
    """The gate takes no answer: it is not open yet, it was answered, or its time is up."""


class NotInstalled(RamifyError):
    """The feature needs an optional dependency that is not installed."""


class OutsideTask(RamifyError):
    """`current()` was called outside a task."""


class OverwriteError(RamifyError):
    """The run's context already has a value under this name. Pass `overwrite=True` to replace it."""


class StaleClaim(RamifyError):
    """The claim's token is void: another process may hold these tasks, and nothing was changed."""


class Reaped(StaleClaim):
    """This process was declared dead, or has left: its claims are void, its verbs refused; enter as a new one."""


class StaleStamp(StaleClaim):
    """A verb arrived after a later one of the same process: it was answered long ago, and nothing was changed."""


class JobFailed(RamifyError):
    """The job failed for good. `error` is the failure."""

    def __init__(self, text: str, error: Any = None) -> None:
        super().__init__(text)
        self.error = error


class JobCancelled(JobFailed):
    """The job was cancelled or expired, so it has no result. `error` says why."""


class LockLost(RamifyError):
    """The lock is not held any more: others may hold it, so undo or repeat the work that it guarded."""


class LockReentered(RamifyError):
    """This thread or coroutine holds the lock already, and would wait for itself."""


class LockTimeout(RamifyError):
    """The lock was not free in time. `name` is its name, and `holders` are those who hold it."""

    def __init__(self, text: str, name: str = "", holders: Iterable[Any] = ()) -> None:
        super().__init__(text)
        self.name = name
        self.holders: tuple[Any, ...] = tuple(holders)


class QueueFull(RamifyError):
    """The queue holds as many pending jobs as it may; nothing was added."""


class RunEnded(RamifyError):
    """The run has ended or is being cancelled, and takes no more tasks; start another, or reopen its tasks."""


class RunFailed(RamifyError):
    """Tasks of the run failed, so its results are incomplete.

    `groups` holds the failures, those that look alike together, largest group first. `complete` is False when they are
    only the newest of very many.
    """

    def __init__(self, text: str, groups: Iterable[Any] = (), complete: bool = True) -> None:
        super().__init__(text)
        self.groups: tuple[Any, ...] = tuple(groups)
        self.complete = complete


class RunCancelled(RunFailed):
    """The run was cancelled, so its results are incomplete. `groups` holds the failures before that."""


class RunForgotten(RamifyError):
    """The run was forgotten: its tasks, results and logs are gone. How it ended is still known."""


class RunNeeded(RamifyError):
    """The run cannot be forgotten: it is unfinished, or other work needs its results. Nothing was changed."""


class StoreError(RamifyError):
    """The store could not do what it was asked to do."""


class StoreUnavailable(StoreError):
    """The store does not answer at the moment: retry."""


class StoreBroken(StoreError):
    """The store is damaged or contradicts itself: stop, and let a person look at it."""


class StoreRefused(StoreError):
    """The store was not opened: it cannot keep its promises in this place, such as a network file system."""


class SchemaTooNew(StoreError):
    """The store was written by a newer Ramify than this one: upgrade this process."""


class UnknownRun(RamifyError):
    """The store has no run of that name or id."""


class UnknownTask(RamifyError):
    """The store has no published task of that id, or the run has none under that key."""


class ValueContended(RamifyError):
    """Others changed the value each time between its read and its change; nothing was changed."""


class Terminated(SystemExit):
    """SIGTERM asked for a stop, and everything finished is saved."""
