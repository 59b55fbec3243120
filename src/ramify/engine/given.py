"""What users give an engine, checked. Each refusal says what was given and what to give instead."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Container, Iterable, Sequence
from types import CodeType
from typing import Any

from ramify.errors import ConfigError
from ramify.model.call import Call
from ramify.model.stray import instead_of_call


def roots_of(root: object, functions: Container[CodeType] = ()) -> Sequence[Call[Any]]:
    """The calls a run begins with: one, or several in a list. `functions` are those of tasks, which are not called."""
    several: Iterable[object] = (root,)
    if isinstance(root, Iterable) and not isinstance(root, Call | str):
        is_called = inspect.isgenerator(root) and root.gi_code in functions
        several = (root,) if is_called else root
    roots: list[Call[Any]] = []
    for each in several:
        if not isinstance(each, Call):
            raise ConfigError(f"a run begins with a call, or several in a list, and was given {instead_of_call(each)}")
        roots.append(each)
    return roots


def level_of(given: object) -> int:
    """A level of logging by its name or its number."""
    level = logging.getLevelNamesMapping().get(given.upper()) if isinstance(given, str) else given
    if isinstance(level, bool) or not isinstance(level, int):
        raise ConfigError(f'log_level={given!r}: give the name of a level, such as "DEBUG", or its number')
    return level


def check_count(option: str, value: object, most: int | None = None) -> None:
    """Refuse what is no number of things, or too many of them."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{option}={value!r}: give a whole number, 0 or more")
    if most is not None and value > most:
        raise ConfigError(f"{option}={value!r}: give at most {most:,}")
