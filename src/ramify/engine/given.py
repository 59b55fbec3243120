"""What users give an engine, checked. Each refusal says what was given and what to give instead."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ramify.errors import ConfigError
from ramify.model.call import Call


def roots_of(root: object) -> Sequence[Call[Any]]:
    """The calls a run begins with: one, or several in a list."""
    several: Iterable[object] = root if isinstance(root, Iterable) and not isinstance(root, Call | str) else (root,)
    roots: list[Call[Any]] = []
    for each in several:
        if not isinstance(each, Call):
            raise ConfigError(f"{each!r} is no call; give task.of(...), or several of them in a list")
        roots.append(each)
    return roots


def level_of(given: object) -> int:
    """A level of logging by its name or its number."""
    level = logging.getLevelNamesMapping().get(given.upper()) if isinstance(given, str) else given
    if isinstance(level, bool) or not isinstance(level, int):
        raise ConfigError(f'log_level={given!r}: give the name of a level, such as "DEBUG", or its number')
    return level


def check_count(option: str, value: object) -> None:
    """Refuse what is no number of things; None means that nothing was given."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ConfigError(f"{option}={value!r}: give a whole number, 0 or more")
