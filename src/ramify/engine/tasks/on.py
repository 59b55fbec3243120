"""`@engine.on`: a function that handles each publication of a topic, as a task.

Promises: a function that could never handle one is refused where it is decorated. The reader has the name of its task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_origin, overload

from ramify.coordination.handling import Handling
from ramify.coordination.places import Since, check_since
from ramify.coordination.publishing import Published
from ramify.coordination.topic import Topic
from ramify.engine.tasks.task import AnyTask, AsyncSpawns, Spawns, Task, defined_at
from ramify.errors import BadPayload, ConfigError
from ramify.kernel.attempts.stream import Stream
from ramify.model.call import Call
from ramify.model.codec import annotations_of
from ramify.model.own_topics import FAILURES_TOPIC, RUN_ENDS_TOPIC
from ramify.model.reader import A_READER, check_short
from ramify.model.topic import A_TOPIC
from ramify.model.value import RESERVED

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")
_Of = Callable[[V], R]
_Yields = Iterator[Call[Any]]
_Awaits = Coroutine[Any, Any, R]

#: Topics that stores publish themselves.
_OWN = (FAILURES_TOPIC, RUN_ENDS_TOPIC)
#: Options of tasks that the publication decides.
_ITS_OWN = ("key", "once", "lane")


def source_of(source: object) -> str:
    """Return the name or pattern that a reader is for, as somebody gave it."""
    if isinstance(source, Topic):
        return source.name
    if not isinstance(source, str):
        raise ConfigError(f"@on({source!r}): expected a topic, its name, or a pattern. Write @engine.on(orders).")
    try:
        name = check_short(A_TOPIC, source)
    except BadPayload as error:
        raise ConfigError(f"@on({source!r}): {error}") from None
    if name.startswith(RESERVED) and name not in _OWN:
        raise ConfigError(f"@on({source!r}): the store publishes {_OWN[0]!r} and {_OWN[1]!r} only. Write one of them.")
    return name


def options_for(source: str, options: Mapping[str, Any], fn: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of the task that handles publications of a source."""
    for option in _ITS_OWN:
        if options.get(option):
            raise ConfigError(
                f"@on({source!r}, {option}={options[option]!r}): the key of a publication is the key of its task. "
                "Leave it out, and publish with key=...; ordered=True keeps the order of each."
            )
    if isinstance(fn, Task):
        raise ConfigError(
            f"@on({source!r}): expected a function, got {fn!r}. Write @engine.on in place of @engine.task."
        )
    return dict(options)


def handling_of(source: str, task: AnyTask, ordered: bool, since: object) -> Handling:
    """Return the reader that a task is; ConfigError for a function that cannot take a publication."""
    try:
        check_short(A_READER, task.kind)
    except BadPayload as error:
        raise ConfigError(f"@on({source!r}) on {task.kind}(): {error}") from None
    begin: Since = check_since("on", since)
    first = _first(source, task)
    hint = annotations_of(task.fn).get(first)
    whole = (get_origin(hint) or hint) is Published
    return Handling(task.kind, source, task.group, ordered, whole, begin, defined_at(task.fn))


def _first(source: str, task: AnyTask) -> str:
    """Return the one parameter that takes the publication."""
    parameters = list(inspect.signature(task.fn).parameters.values())
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _SEVERAL]
    streams = [name for name, hint in annotations_of(task.fn).items() if (get_origin(hint) or hint) is Stream]
    is_fit = len(needed) == 1 and needed[0] is parameters[0] and needed[0].kind is not inspect.Parameter.KEYWORD_ONLY
    if not is_fit or streams:
        names = ", ".join(each.name for each in parameters) or "none"
        raise ConfigError(
            f"@on({source!r}) on {task.kind}(): expected one parameter, which takes the value or a Published, got "
            f"{names}. Write def {task.kind}(value: ...), and give others a default."
        )
    return needed[0].name


_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class OnDecorator(Generic[T]):
    """The decorator that `engine.on(...)` returns: it makes a `Task` of a function of a value, or of a `Published`."""

    def __init__(self, make: Callable[[Callable[..., Any]], AnyTask]) -> None:
        self._make = make

    # A value may itself be a Published, so overloads of the two overlap; the first one that fits is meant.
    @overload
    def __call__(self, fn: _Of[Published[T], Spawns[R]], /) -> Task[[Published[T]], R, Spawns[R]]: ...  # type: ignore[overload-overlap]  # see above
    @overload
    def __call__(self, fn: _Of[Published[T], _Yields], /) -> Task[[Published[T]], Any, _Yields]: ...  # type: ignore[overload-overlap]  # see above
    @overload
    def __call__(self, fn: _Of[Published[T], AsyncSpawns[R]], /) -> Task[[Published[T]], R, AsyncSpawns[R]]: ...  # type: ignore[overload-overlap]  # see above
    @overload
    def __call__(self, fn: _Of[Published[T], _Awaits[R]], /) -> Task[[Published[T]], R, _Awaits[R]]: ...  # type: ignore[overload-overlap]  # see above
    @overload
    def __call__(self, fn: _Of[Published[T], R], /) -> Task[[Published[T]], R, R]: ...
    @overload
    def __call__(self, fn: _Of[T, Spawns[R]], /) -> Task[[T], R, Spawns[R]]: ...
    @overload
    def __call__(self, fn: _Of[T, _Yields], /) -> Task[[T], Any, _Yields]: ...
    @overload
    def __call__(self, fn: _Of[T, AsyncSpawns[R]], /) -> Task[[T], R, AsyncSpawns[R]]: ...
    @overload
    def __call__(self, fn: _Of[T, _Awaits[R]], /) -> Task[[T], R, _Awaits[R]]: ...
    @overload
    def __call__(self, fn: _Of[T, R], /) -> Task[[T], R, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> AnyTask:
        """Make the task, and let it be the reader."""
        return self._make(fn)
