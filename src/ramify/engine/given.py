"""What users give an engine, checked. Each refusal says what was given and what to give instead."""

from __future__ import annotations

import logging

from ramify.errors import ConfigError


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
