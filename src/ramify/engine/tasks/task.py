"""Task functions: what `@engine.task` makes of a function.

A `Task` is still the function: called, it does what the function does, at once and without any engine. `task.of(...)`
makes a call of it instead, to be yielded, spawned or started. The four callings (plain, generator, async, async
generator) differ only in what a plain call gives.

Promises: making a call costs one encoding and one struct; a key, a lane or a hold costs only where it was asked for.
A function that no other process could find again (a lambda, a closure, a method) is refused when it is decorated.

Does not know engines or stores.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, get_args, get_origin, overload

from ramify.engine.tasks.maker import maker
from ramify.engine.tasks.options import Options, settle
from ramify.errors import ConfigError
from ramify.kernel.attempts.control import Return
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.core.handler import Calling, Handler
from ramify.model.call import Call, Group
from ramify.model.codec import Signature, annotations_of
from ramify.model.key import Hold

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
if TYPE_CHECKING:
    # Type checkers bring their own typing_extensions, so that `Task[[str], int]` needs no third parameter.
    from typing_extensions import TypeVar as DefaultedTypeVar

    C_co = DefaultedTypeVar("C_co", covariant=True, default=Any)
else:
    C_co = TypeVar("C_co", covariant=True)

Spawns = Generator[Call[Any], Any, R]
"""The annotation of a generator task: it yields calls, which are its children, and returns an R."""
AsyncSpawns = AsyncGenerator[Call[Any] | Return[R], Any]
"""The annotation of an async generator task: it yields calls, and `yield Return(value)` at the end."""
#: An async generator that yields children and no last word.
AsyncChildren = AsyncGenerator[Call[Any], Any]


_CALLINGS: Mapping[Any, Calling] = {
    Generator: Calling.GENERATOR,
    Iterator: Calling.GENERATOR,
    Coroutine: Calling.ASYNC,
    Awaitable: Calling.ASYNC,
    AsyncGenerator: Calling.ASYNC_GENERATOR,
    AsyncIterator: Calling.ASYNC_GENERATOR,
}


class Task(Generic[P, R_co, C_co]):
    """A task function: `measure.of("/usr")` makes a call of it, `measure("/usr")` calls the plain function.

    `Task[[str], int]` takes a str and gives an int, whether it is a function, a generator or a coroutine.
    """

    def __init__(self, fn: Callable[..., Any], options: Options, around: Sequence[Callable[..., Any]] = ()) -> None:
        check_function(fn)
        settled = settle(fn.__name__, options)
        streams = _find_streams(fn)
        stream = _left_out(fn, streams)
        signature = Signature.of(fn, streams, last_word=Return)
        calling = _calling(fn)
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.kind = settled.kind
        self.aliases = settled.aliases
        #: How long results of its jobs are kept, in seconds; None for as long as those of all.
        self.keep = settled.keep
        #: Limits of the whole store that it keeps to.
        self.limits = settled.limits
        self.defined_at = defined_at(fn)
        self.handler = Handler(settled.kind, fn, signature, calling, settled.policy, stream, streams, around)
        hold = Hold.ONCE if options.once else Hold.LABEL
        self.group = Group(settled.kind, signature, settled.queue, hold=hold, handler=self.handler)
        if options.key is None and not options.once and options.lane is None:
            self.group = replace(self.group, plain=True, varied=self.group)
        self._make = maker(fn, self.group, options, streams)
        self._make.__signature__ = _signature_of_calls(fn, stream)  # type: ignore[attr-defined]  # for help() and editors
        self._make.__doc__ = Task.of.__doc__
        # It stands before the method of the same name: calls are made by the million.
        vars(self)["of"] = self._make

    def of(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """Make a call of this task, to yield, spawn, enqueue or run: `measure.of("/usr")`. Nothing runs yet.

        The arguments are encoded now; values that cannot be stored are refused. A call without one argument can only
        follow a job, whose result it takes: `job.then(send.of(to="ann"))`.
        """
        return self._make(*args, **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C_co:
        """Call the plain function, here and now; nothing is stored."""
        result: C_co = self.fn(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<task {self.kind} ({self.defined_at})>"

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters):
            """Let the third parameter be left out, as type checkers do."""
            if isinstance(parameters, tuple) and len(parameters) == 2:
                parameters = (*parameters, Any)
            return super().__class_getitem__(parameters)


AnyTask = Task[..., Any, Any]


class TaskDecorator(Protocol):
    """The decorator that `@engine.task(...)` returns: it makes a `Task` of a function, generator or coroutine."""

    @overload
    def __call__(self, fn: Callable[P, Spawns[R]], /) -> Task[P, R, Spawns[R]]: ...
    @overload
    def __call__(self, fn: Callable[P, Iterator[Call[Any]]], /) -> Task[P, Any, Iterator[Call[Any]]]: ...
    @overload
    def __call__(self, fn: Callable[P, AsyncChildren], /) -> Task[P, Any, AsyncChildren]: ...
    @overload
    def __call__(self, fn: Callable[P, AsyncSpawns[R]], /) -> Task[P, R, AsyncSpawns[R]]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R, R]: ...


def check_function(fn: object) -> None:
    """Refuse what another process could not find again under a name."""
    if not inspect.isfunction(fn):
        raise ConfigError(
            f"@task on {fn!r}: expected a function. Define it with def or async def at the top of a module."
        )
    holder, _, name = fn.__qualname__.rpartition(".")
    if name == "<lambda>":
        raise ConfigError(f"@task on a lambda ({defined_at(fn)}): expected a function with a name. Define it with def.")
    if holder.endswith("<locals>") and fn.__closure__:
        captured = ", ".join(fn.__code__.co_freevars)
        raise ConfigError(
            f"@task on {name}() ({defined_at(fn)}): it captures {captured} from the function around it, which another "
            "process cannot find. Define it at the top of a module, and pass these values as arguments."
        )
    if holder and not holder.endswith("<locals>"):
        raise ConfigError(
            f"@task on {fn.__qualname__}() ({defined_at(fn)}): expected a function, got a method. "
            "Define it at the top of a module."
        )


def defined_at(fn: Callable[..., Any]) -> str:
    """Where a function is defined, as `file:line`."""
    code = getattr(inspect.unwrap(fn), "__code__", fn.__code__)
    return f"{code.co_filename}:{code.co_firstlineno}"


def redefines(fn: Callable[..., Any], before: Callable[..., Any]) -> bool:
    """Return whether `fn` was typed at a prompt or into a notebook, where a second definition changes `before`."""
    new, old = inspect.unwrap(fn), inspect.unwrap(before)
    is_typed = new.__module__ == "__main__" and new.__code__.co_filename != new.__globals__.get("__file__")
    return is_typed and (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _calling(fn: Callable[..., Any]) -> Calling:
    """The calling of a function; a plain one that is annotated to hand on a generator or a coroutine counts as that."""
    calling = Calling.of(fn)
    if calling is not Calling.PLAIN:
        return calling
    hint = annotations_of(fn).get("return")
    return _CALLINGS.get(get_origin(hint) or hint, Calling.PLAIN)


def _find_streams(fn: Callable[..., Any]) -> dict[str, Any]:
    """The parameters that take results of others as streams, and what these are."""
    found: dict[str, Any] = {}
    for name, hint in annotations_of(fn).items():
        if (get_origin(hint) or hint) is Stream and name != "return":
            found[name] = (*get_args(hint), Any)[0]
    return found


def _left_out(fn: Callable[..., Any], streams: Mapping[str, Any]) -> str | None:
    """The stream that calls need not pass: it takes the results of the join that a task waits for."""
    parameters = list(inspect.signature(fn).parameters.values())
    found = [each for each in parameters if each.name in streams and each.default is not inspect.Parameter.empty]
    if not found:
        return None
    stream = found[0]
    if len(found) > 1:
        raise ConfigError(
            f"{fn.__name__}(): `{found[1].name}` is a second Stream with a default. A task waits for one join. "
            "Remove the defaults, and pass references."
        )
    after = parameters[parameters.index(stream) + 1 :]
    if stream.kind is not inspect.Parameter.KEYWORD_ONLY and any(
        each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL) for each in after
    ):
        raise ConfigError(
            f"{fn.__name__}(): `{stream.name}` must be its last parameter, because calls need not pass it. Move it."
        )
    return stream.name


def _signature_of_calls(fn: Callable[..., Any], stream: str | None) -> inspect.Signature:
    """Return what `of` takes and gives: what the function takes, but for the stream, and a call."""
    known = inspect.signature(fn)
    taken = [each for each in known.parameters.values() if each.name != stream]
    return known.replace(parameters=taken, return_annotation=Call)


def kind_name(kind: object, call: str = "results({})") -> str | None:
    """The kind that was meant by a task function or a name; None for all of them. `call` is what was called."""
    if kind is None or isinstance(kind, str):
        return kind
    if isinstance(kind, Task):
        return kind.kind
    raise ConfigError(f"{call.format(repr(kind))}: expected a task function, or the name of a kind.")
