"""A lock as programs use it: `with`, `async with`, a decorator, and tries that do not wait.

Promises: at most `holders` hold a name at a time, in all threads, coroutines and processes of the store. A lock is held
as long as its process is alive, or until its `ttl` is up. A blocking wait in a thread that runs an event loop is
refused.

A `Lock` keeps nothing of the store: it may be made at import, kept, and used by many at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing, suppress
from itertools import chain
from types import TracebackType
from typing import Any, TypeVar, cast

from ramify.coordination.held import Held
from ramify.coordination.locks import Doer, Locks, this_coroutine, this_thread
from ramify.coordination.naming import Name, namer, plain_name
from ramify.errors import ConfigError, LockTimeout
from ramify.kernel.attempts.values import lifetime
from ramify.model.lock import MOST_HOLDERS
from ramify.model.policy import Duration, seconds_in

#: Seconds that count as for ever.
FOR_EVER = 1e9
F = TypeVar("F", bound=Callable[..., Any])


class Lock:
    """A lock by its name: `with engine.lock("report") as held:`. All programs of the store share it."""

    def __init__(self, locks: Locks, name: Name, wait: float, most: int, ttl: int | None) -> None:
        self._locks, self._name = locks, name
        self._wait, self._most, self._ttl = wait, most, ttl
        #: What threads and coroutines hold by blocks of this value, the innermost last.
        self._blocks: list[tuple[Doer, Held]] = []

    def try_acquire(self) -> Held | None:
        """Acquire the lock if it is free, without waiting; None if it is not. Use what it returns in a `with`."""
        try:
            return self._locks.acquire(plain_name(self._name), self._most, self._ttl, 0)
        except LockTimeout:
            return None

    async def atry_acquire(self) -> Held | None:
        """Do `try_acquire` in a coroutine, without blocking the event loop. Use what it returns in an `async with`."""
        try:
            return await self._locks.acquire_async(plain_name(self._name), self._most, self._ttl, 0)
        except LockTimeout:
            return None

    def __enter__(self) -> Held:
        return self._entered(this_thread(), self._acquire(plain_name(self._name)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left(this_thread()).__exit__(kind, error, trace)

    async def __aenter__(self) -> Held:
        return self._entered(this_coroutine(), await self._acquire_async(plain_name(self._name)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._left(this_coroutine()).__aexit__(kind, error, trace)

    def __call__(self, fn: F) -> F:
        """Hold the lock while a function runs; `{customer}` in its name is the argument of that name."""
        if not inspect.isroutine(fn):
            raise ConfigError(
                f"lock({self._name!r}): expected a function to decorate, got {type(fn).__name__}. Put "
                "@engine.lock(...) below @engine.task."
            )
        return cast(F, functools.wraps(fn)(self._holding(fn, namer(self._name, fn))))

    def _holding(self, fn: Callable[..., Any], name_of: Callable[..., str]) -> Callable[..., Any]:
        if inspect.isasyncgenfunction(fn):

            async def each_async(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
                async with await self._acquire_async(name_of(*args, **kwargs)), aclosing(fn(*args, **kwargs)) as making:
                    async for made in making:
                        yield made

            return each_async
        if inspect.iscoroutinefunction(fn):

            async def call_async(*args: Any, **kwargs: Any) -> Any:
                async with await self._acquire_async(name_of(*args, **kwargs)):
                    return await fn(*args, **kwargs)

            return call_async
        if inspect.isgeneratorfunction(fn):

            def each(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                with self._acquire(name_of(*args, **kwargs)):
                    return (yield from fn(*args, **kwargs))

            return each

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._acquire(name_of(*args, **kwargs)):
                return fn(*args, **kwargs)

        return call

    def _acquire(self, name: str) -> Held:
        return self._locks.acquire(name, self._most, self._ttl, self._wait)

    async def _acquire_async(self, name: str) -> Held:
        return await self._locks.acquire_async(name, self._most, self._ttl, self._wait)

    def _entered(self, doer: Doer, held: Held) -> Held:
        self._blocks.append((doer, held))
        return held

    def _left(self, doer: Doer) -> Held:
        """Return what the block held that ends now. Mostly it began in this thread or coroutine; but others may close a
        generator, and what nobody refers to any more ends by itself.
        """
        while True:
            known = self._blocks[::-1]
            mine = (block for block in known if block[0] == doer)
            orphans = (block for block in known if block[0] is None or block[0]() is None)
            block = next(chain(mine, orphans, known))
            # Others may have ended it meanwhile.
            with suppress(ValueError):
                self._blocks.remove(block)
                return block[1]


def lock_of(locks: Locks, name: Name, wait: Duration | None, holders: int, ttl: Duration | None) -> Lock:
    """Return a lock with these options; ConfigError for one that can never work."""
    if not isinstance(name, str) and not callable(name):
        raise ConfigError(f'lock({name!r}): expected a name. Write engine.lock("report").')
    seconds = FOR_EVER if wait is None else seconds_in(wait)
    if seconds is None or seconds < 0:
        raise ConfigError(
            f"lock(wait={wait!r}): expected seconds, a timedelta, or None to wait for ever. Write wait=10."
        )
    if isinstance(holders, bool) or not isinstance(holders, int) or not 1 <= holders <= MOST_HOLDERS:
        raise ConfigError(f"lock(holders={holders!r}): expected a number from 1 to {MOST_HOLDERS}. Write holders=2.")
    return Lock(locks, name, min(seconds, FOR_EVER), holders, lifetime("lock", ttl))
