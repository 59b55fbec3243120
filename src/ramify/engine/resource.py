"""Resources: what handlers share within a process, such as a connection or a client.

A resource is a generator function that yields the value once; what stands after the yield closes it. A handler asks
for the value by calling the resource: `db()`, or `await client()` for an async one.

Promises: opened on first use, once per process (an async one once per event loop), also when many threads or
coroutines ask at the same moment. Where opening fails, it fails in the task that asked, and the next one tries again.
Closed when the engine stops, last opened first; one that fails to close does not keep the others open.

Does not travel between processes, and is no argument of a task: each process opens its own.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from ramify.errors import ConfigError

T = TypeVar("T")

_log = logging.getLogger("ramify")
#: Numbers every opening, so that closing can go backwards across all resources.
_openings = itertools.count(1)


class Resource(Generic[T]):
    """A value shared by the tasks of a process: `db()` returns it, and opens it on first use."""

    def __init__(self, open: Callable[[], Iterator[T]]) -> None:
        check_opener(open)
        self.name = open.__name__
        #: When it was opened, counted over all resources; 0 while it is closed.
        self.opened = 0
        self._open = open
        self._lock = threading.RLock()
        self._generator: Iterator[T] | None = None
        self._value: list[T] = []
        self._overrides: list[T] = []

    def __call__(self) -> T:
        """The value, in a plain handler or anywhere else."""
        if self._overrides:
            return self._overrides[-1]
        value = self._value
        if value:
            return value[0]
        with self._lock:
            if not self._value:
                generator = self._open()
                self._value = [_first(self.name, generator)]
                self._generator = generator
                self.opened = next(_openings)
            return self._value[0]

    @contextmanager
    def override(self, value: T) -> Iterator[T]:
        """Use `value` instead until the block ends, without opening anything; for tests."""
        self._overrides.append(value)
        try:
            yield value
        finally:
            self._overrides.pop()

    def close(self) -> None:
        """Close it if it is open. The next use opens it again."""
        with self._lock:
            generator, self._generator = self._generator, None
            self._value, self.opened = [], 0
            if generator is not None:
                _last(self.name, generator)


class AsyncResource(Generic[T]):
    """A resource of async task functions: `await client()`. It lives on the event loop that opened it."""

    def __init__(self, open: Callable[[], AsyncIterator[T]]) -> None:
        check_opener(open)
        self.name = open.__name__
        self._open = open
        # More than one loop may ask: one that a task blocks is left behind and another takes its place.
        self._lock = threading.Lock()
        self._opened: dict[asyncio.AbstractEventLoop, _Opened[T]] = {}
        self._overrides: list[T] = []

    async def __call__(self) -> T:
        """The value, in an async handler."""
        if self._overrides:
            return self._overrides[-1]
        here = self._here()
        if not here.value:
            async with here.lock:
                if not here.value:
                    generator = self._open()
                    here.value = [await _afirst(self.name, generator)]
                    here.generator = generator
                    here.number = next(_openings)
        return here.value[0]

    @property
    def opened(self) -> int:
        """When it was opened on this event loop, as a count over all resources; 0 while it is closed."""
        return self._here().number

    @contextmanager
    def override(self, value: T) -> Iterator[T]:
        """Use `value` instead until the block ends, without opening anything; for tests."""
        self._overrides.append(value)
        try:
            yield value
        finally:
            self._overrides.pop()

    async def close(self) -> None:
        """Close the instance that is open on this event loop."""
        here = self._here()
        async with here.lock:
            generator, here.generator = here.generator, None
            here.value, here.number = [], 0
            if generator is not None:
                await _alast(self.name, generator)

    def _here(self) -> _Opened[T]:
        loop = asyncio.get_running_loop()
        found = self._opened.get(loop)
        if found is None:
            with self._lock:
                # Loops that are gone took with them whatever was open there.
                self._opened = {each: opened for each, opened in self._opened.items() if not each.is_closed()}
                found = self._opened[loop] = _Opened()
        return found


class _Opened(Generic[T]):
    """An async resource on one event loop."""

    __slots__ = ("generator", "lock", "number", "value")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.value: list[T] = []
        self.generator: AsyncIterator[T] | None = None
        self.number = 0


AnyResource = Resource[Any] | AsyncResource[Any]


def close_all(resources: Iterable[AnyResource]) -> None:
    """Close the open plain ones, last opened first. Trouble with one is logged, and the others are closed as well."""
    found = [each for each in resources if isinstance(each, Resource) and each.opened]
    for resource in sorted(found, key=lambda each: -each.opened):
        try:
            resource.close()
        except Exception:  # noqa: BLE001  users' code may raise anything, and the others must be closed all the same
            _log.exception("resource %s() failed to close", resource.name)


async def close_all_async(resources: Iterable[AnyResource]) -> None:
    """The same for async ones that are open on this event loop."""
    found = [each for each in resources if isinstance(each, AsyncResource) and each.opened]
    for resource in sorted(found, key=lambda each: -each.opened):
        try:
            await resource.close()
        except Exception:  # noqa: BLE001  users' code may raise anything, and the others must be closed all the same
            _log.exception("resource %s() failed to close", resource.name)


def check_opener(open: Callable[[], object]) -> None:
    """Refuse what cannot be opened without arguments, or does not yield."""
    name = getattr(open, "__name__", repr(open))
    if not (inspect.isgeneratorfunction(open) or inspect.isasyncgenfunction(open)):
        raise ConfigError(f"@resource on {name}: expected a generator function. Yield the value once, then close it.")
    needed = [each.name for each in inspect.signature(open).parameters.values() if each.default is each.empty]
    if needed:
        raise ConfigError(
            f"@resource on {name}(): expected no parameters, got {', '.join(needed)}. Give them defaults."
        )


def _first(name: str, generator: Iterator[T]) -> T:
    try:
        return next(generator)
    except StopIteration:
        raise ConfigError(f"resource {name}() ended without a value. Yield the value once.") from None


def _last(name: str, generator: Iterator[T]) -> None:
    try:
        next(generator)
    except StopIteration:
        return
    if isinstance(generator, Generator):
        generator.close()
    raise ConfigError(f"resource {name}() yielded twice. Yield the value once, then close it.")


async def _afirst(name: str, generator: AsyncIterator[T]) -> T:
    try:
        return await anext(generator)
    except StopAsyncIteration:
        raise ConfigError(f"resource {name}() ended without a value. Yield the value once.") from None


async def _alast(name: str, generator: AsyncIterator[T]) -> None:
    try:
        await anext(generator)
    except StopAsyncIteration:
        return
    if isinstance(generator, AsyncGenerator):
        await generator.aclose()
    raise ConfigError(f"resource {name}() yielded twice. Yield the value once, then close it.")
