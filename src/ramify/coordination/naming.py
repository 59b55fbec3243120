"""Names of locks: as they are given, from the arguments of a function, and holders in words.

Promises: a name that can never be made of the arguments of its function is refused where the function is decorated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from string import Formatter
from typing import Any

from ramify.errors import ConfigError
from ramify.model.lock import Acquisition
from ramify.model.policy import SECOND
from ramify.model.task import name_given

#: The name of a lock, with {parameters} for a function that it decorates, or what makes one of its arguments.
Name = str | Callable[..., str]


def plain_name(name: Name) -> str:
    """Return a name that needs no arguments; ConfigError for one that does."""
    if not isinstance(name, str):
        raise ConfigError(f"lock({name!r}): expected a text. Only decorators take a function: @engine.lock(...)")
    if any(field is not None for _, field, _, _ in _parts(name)):
        raise ConfigError(
            f"lock({name!r}): expected a name without {{…}}, which stand for arguments of a decorated function. "
            f"Write f{name!r}."
        )
    return name_given("lock(): the name of a lock", name.format())


def namer(name: Name, fn: Callable[..., Any]) -> Callable[..., str]:
    """Return the function from the arguments of `fn` to the name of its lock."""
    signature = inspect.signature(fn)
    called = getattr(fn, "__qualname__", repr(fn))
    if isinstance(name, str):
        wanted = [_parameter(name, field) for _, field, _, _ in _parts(name) if field is not None]
        make: Callable[..., str] = name.format
    else:
        wanted, make = list(inspect.signature(name).parameters), name
    known = [
        each.name for each in signature.parameters.values() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    for each in wanted:
        if each not in known:
            raise ConfigError(
                f"lock({name!r}): {called}() has no parameter {each!r}. It has {', '.join(known) or 'none'}."
            )

    def name_of(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return name_given(
            f"lock({name!r}): the name of a lock", make(**{each: bound.arguments[each] for each in wanted})
        )

    return name_of


def _parts(name: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(name))
    except ValueError as error:
        raise ConfigError(f"lock({name!r}): {error}. Write {{{{ and }}}} for braces.") from None


def _parameter(name: str, field: str) -> str:
    """The parameter that a field of a name begins with."""
    first = field.replace("[", ".").partition(".")[0]
    if not first.isidentifier():
        raise ConfigError(f"lock({name!r}): expected the name of a parameter in {{{field}}}. Write {{customer}}.")
    return first


def in_words(each: Acquisition, now: int) -> str:
    """Say who holds a lock or waits for it, and since when."""
    task = "" if each.task is None else f" in task {each.task} ({each.kind})"
    at = datetime.fromtimestamp(each.since / SECOND).strftime("%Y-%m-%d %H:%M:%S")
    return f"process {each.pid} on {each.host}{task} since {at} ({max(0, now - each.since) / SECOND:.0f} s)"
