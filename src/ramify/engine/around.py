"""Hooks: generators around every attempt, for connections, error reporters and context variables.

    @engine.around
    def reported(me: Current) -> Iterator[None]:
        try:
            yield                       # the task runs here
        except Exception as error:
            report(error, task=me.task)
            raise

Promises: what stands before the yield runs before the handler, in the same thread or coroutine and the same context;
what stands after it runs after the handler, and after the last child that it yields. The first hook is the outermost.
A hook does not change what came of an attempt: what the handler raised is thrown in at the yield, and counts whatever
the hook does about it. A hook that raises by itself fails the attempt, as if the handler had raised the same.

A plain hook is around all tasks; around async ones it runs on the event loop. An async hook is around async tasks only.

Does not see what is no call of the handler: arguments that do not fit, results that cannot be stored, children that are
no calls, and processes that die.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, assert_never

from ramify.errors import ConfigError
from ramify.kernel.attempts.current import Current, current
from ramify.kernel.attempts.forked import Home
from ramify.kernel.core.handler import Calling, Handler

Yields = Iterator[Any] | AsyncIterator[Any]
#: A hook takes the attempt that it is around, or nothing.
AnyHook = Callable[[], Yields] | Callable[[Current], Yields]
H = TypeVar("H", bound=AnyHook)

_Function = Callable[..., Any]

_log = logging.getLogger("ramify")


def check_hook(hook: Callable[..., object]) -> None:
    """Refuse what does not yield, or wants more than the attempt."""
    name = _name(hook)
    if not (inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook)):
        raise ConfigError(
            f"@around on {name}: expected a function that yields once, where the task runs. Use def or async def with "
            "one yield, without @contextmanager."
        )
    if len(needed := _needed(hook)) > 1:
        names = ", ".join(each.name for each in needed)
        raise ConfigError(
            f"@around on {name}(): expected one parameter or none, got {names}. Take the current attempt only."
        )
    if needed and needed[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ConfigError(
            f"@around on {name}(): `{needed[0].name}` is keyword-only. Take the current attempt by position."
        )


def within(handler: Handler, hooks: Iterable[_Function]) -> Handler:
    """The handler with those of the hooks that are for it around each call, the first one outermost."""
    is_async, fn = handler.calling.is_async, handler.fn
    for hook in reversed([each for each in hooks if is_async or not inspect.isasyncgenfunction(each)]):
        fn = _enclosed(fn, handler.calling, _Hook(hook, is_async))
    return handler if fn is handler.fn else replace(handler, fn=fn, around=())


class _Hook:
    """A hook as what is around attempts of one calling: called for each of them."""

    def __init__(self, hook: Callable[..., Any], is_async: bool) -> None:
        self._name = _name(hook)
        self._takes_current = bool(_needed(hook))
        if is_async:
            self._open: Any = asynccontextmanager(hook if inspect.isasyncgenfunction(hook) else _turned(hook))
        else:
            self._open = contextmanager(hook)

    def __call__(self) -> _Around:
        return _Around(self._name, self._open(current()) if self._takes_current else self._open())


class _Around:
    """A hook around one attempt; `async with` for one on the event loop."""

    __slots__ = ("_name", "_opened")

    def __init__(self, name: str, opened: Any) -> None:
        self._name = name
        self._opened = opened

    def __enter__(self) -> None:
        with _blaming(self._name, "before"):
            self._opened.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _blaming(self._name, "after", error):
            self._opened.__exit__(kind, error, trace)

    async def __aenter__(self) -> None:
        with _blaming(self._name, "before"):
            await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _blaming(self._name, "after", error):
            await self._opened.__aexit__(kind, error, trace)


@contextmanager
def _blaming(name: str, when: str, error: BaseException | None = None) -> Iterator[None]:
    """Let what a hook raises say whose it is; where the task raised an error before, that one counts."""
    try:
        yield
    except BaseException as raised:
        if error is not None and isinstance(raised, Exception):
            _log.warning("the hook %s() raised an error of its own, after that of the task", name, exc_info=raised)
            return
        raised.add_note(f"raised by the hook {name}() {when} the task")
        raise


def _enclosed(fn: _Function, calling: Calling, around: _Hook) -> _Function:
    """A function with a hook around it. A child that it forks ends before it meets the hook again."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        with around(), Home():
            return fn(*args, **kwargs)

    def generator(*args: Any, **kwargs: Any) -> Any:
        with around(), Home():
            return (yield from fn(*args, **kwargs))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        async with around():
            with Home():
                return await fn(*args, **kwargs)

    async def async_generator(*args: Any, **kwargs: Any) -> Any:
        async with around():
            with Home():
                stream = fn(*args, **kwargs)
                try:
                    async for each in stream:
                        yield each
                finally:
                    if inspect.isasyncgen(stream):
                        await stream.aclose()

    match calling:
        case Calling.PLAIN:
            return wraps(fn)(plain)
        case Calling.GENERATOR:
            return wraps(fn)(generator)
        case Calling.ASYNC:
            return wraps(fn)(coroutine)
        case Calling.ASYNC_GENERATOR:
            return wraps(fn)(async_generator)
        case _:
            assert_never(calling)


def _turned(hook: Callable[..., Any]) -> Callable[..., AsyncIterator[None]]:
    """A plain hook as one for coroutines."""
    opened = contextmanager(hook)

    async def turned(*given: Current) -> AsyncIterator[None]:
        with opened(*given):
            yield

    return turned


def _needed(hook: Callable[..., object]) -> list[inspect.Parameter]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(hook).parameters.values()
    return [each for each in parameters if each.default is each.empty and each.kind not in several]


def _name(hook: Callable[..., object]) -> str:
    return getattr(hook, "__name__", repr(hook))
