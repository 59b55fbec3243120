"""Handlers: the functions behind kinds, how they are called, and the policy under which they are tried.

A handler is made once, when a function is decorated. The kernel gets a table from kind to handler and knows nothing of
decorators, engines or modules. A kind that is not in the table is never claimed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ramify.model.codec import Signature
from ramify.model.policy import Backoff, Rate


class Calling(Enum):
    """How a handler is called: in a thread or on the event loop, and whether it yields children."""

    PLAIN = "plain"
    GENERATOR = "generator"
    ASYNC = "async"
    ASYNC_GENERATOR = "async generator"

    @property
    def is_async(self) -> bool:
        """True if it runs on the event loop."""
        return self in (Calling.ASYNC, Calling.ASYNC_GENERATOR)

    @classmethod
    def of(cls, fn: Callable[..., object]) -> Calling:
        """The calling of a function."""
        if inspect.isasyncgenfunction(fn):
            return cls.ASYNC_GENERATOR
        if asyncio.iscoroutinefunction(fn):
            return cls.ASYNC
        return cls.GENERATOR if inspect.isgeneratorfunction(fn) else cls.PLAIN


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for tasks of a kind. `retries=3` is up to four attempts; `concurrency` and `rate` are per process.

    With `max_crashes=None` a task is never quarantined.
    With `per_lane` a limit of the store counts each lane by itself, with `in_all` one counts all of them.
    """

    retries: int = 3
    backoff: Backoff = Backoff()
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()
    timeout: float | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    max_children: int | None = None
    max_crashes: int | None = 5
    per_lane: bool = False
    in_all: bool = False

    def is_last(self, attempt: int, retries: int | None) -> bool:
        """Return whether no attempt follows a failure of this one; `retries` are those that its call was given."""
        return attempt > (self.retries if retries is None else retries)

    def retries_after(self, error: type[BaseException]) -> bool:
        """Return whether an error of this type may be tried again at all."""
        return issubclass(error, self.retry_on) and not issubclass(error, self.give_up_on)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function, how its arguments cross, and its policy.

    `streams` are its parameters that take streams of results, and what each result is. The one named by `stream` may be
    left out of a call, and then takes the results of all members of the join that the task waited for. `around` are the
    hooks that were declared where it was, for who calls it without an engine; whoever has one puts them around `fn`.
    """

    kind: str
    fn: Callable[..., Any]
    signature: Signature
    calling: Calling
    policy: Policy = Policy()
    stream: str | None = None
    streams: Mapping[str, Any] = field(default_factory=dict, compare=False)
    around: Sequence[Callable[..., Any]] = field(default=(), compare=False)
