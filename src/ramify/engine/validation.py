"""Checks of the arguments that users give an engine. Each refusal says what was given and what to give instead."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from msgspec import UnsetType

from ramify.engine.jobs.queue_limit import Bound, OnFull
from ramify.errors import ConfigError
from ramify.inspect.jobs import JobFilter
from ramify.model.job import JobState
from ramify.model.policy import Duration, microseconds_in, seconds_in
from ramify.model.run import Order, RunState


def level_of(given: object) -> int:
    """A level of logging by its name or its number."""
    level = logging.getLevelNamesMapping().get(given.upper()) if isinstance(given, str) else given
    if isinstance(level, bool) or not isinstance(level, int):
        raise ConfigError(f'log_level={given!r}: expected the name or the number of a level. Write log_level="DEBUG".')
    return level


def order_of(given: str) -> Order:
    """The order of a run by its name."""
    try:
        return Order(given)
    except ValueError:
        raise ConfigError(f'order={given!r}: expected "rounds", "any" or "depth-first".') from None


def check_state(given: object) -> None:
    """Refuse what is no state of a run; None stands for all of them."""
    if given is not None and not isinstance(given, RunState):
        raise ConfigError(
            f"runs({given!r}): expected one of {', '.join(f'RunState.{each.name}' for each in RunState)}."
        )


def job_filter(
    now: int,
    kind: str | None,
    state: object,
    queue: str | None,
    key: str | None,
    headers: Mapping[str, str] | None,
    older: Duration | None,
    newer: Duration | None,
) -> JobFilter:
    """Which jobs somebody asked for, `now` by the store's clock."""
    for option, age in (("older", older), ("newer", newer)):
        if age is not None and microseconds_in(age) is None:
            raise ConfigError(
                f"jobs({option}={age!r}): expected seconds or a timedelta. Write {option}=timedelta(hours=1)."
            )
    for option, text in (("queue", queue), ("key", key)):
        if text is not None and not isinstance(text, str):
            raise ConfigError(f"jobs({option}={text!r}): expected text, got {type(text).__name__}.")
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigError(f"jobs(headers={headers!r}): expected a dict. Write headers={{'tenant': 'ann'}}.")
    try:
        wanted = None if state is None else JobState(str(state))
    except ValueError:
        raise ConfigError(f"jobs(state={state!r}): expected one of {', '.join(JobState)}.") from None
    return JobFilter(
        kind,
        wanted,
        queue,
        key,
        headers or {},
        None if older is None else now - (microseconds_in(older) or 0),
        None if newer is None else now - (microseconds_in(newer) or 0),
    )


def bound_of(most: int | UnsetType | None, on_full: OnFull | None) -> Bound | None:
    """The bound of a queue as somebody wrote it; None lifts it."""
    if most is None and on_full is None:
        return None
    if isinstance(most, bool) or not isinstance(most, int):
        given = f"on_full={on_full!r}" if most is None or isinstance(most, UnsetType) else f"max_pending={most!r}"
        raise ConfigError(f"queue({given}): expected max_pending as a whole number, 1 or more.")
    if most < 1:
        raise ConfigError(f"queue(max_pending={most!r}): expected a whole number, 1 or more.")
    if on_full not in (None, "refuse", "block"):
        raise ConfigError(f'queue(on_full={on_full!r}): expected "refuse" or "block".')
    return Bound(most, on_full or "refuse")


def check_task(call: str, given: object) -> None:
    """Refuse what is no id of a task; `call` is what was called, as it is written."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise ConfigError(
            f"{call.format(repr(given))}: expected the id of a task. Give one that errors() or `ramify tasks` shows."
        )


def check_count(option: str, value: object, most: int | None = None) -> None:
    """Refuse what is no number of things, or too many of them."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{option}={value!r}: expected a whole number, 0 or more.")
    if most is not None and value > most:
        raise ConfigError(f"{option}={value!r}: expected at most {most:,}.")


def seconds_of(call: str, given: object) -> float:
    """A length of time in seconds, from seconds or a timedelta; `call` is what was called, as it is written."""
    seconds = seconds_in(given)
    if seconds is None or not 0 <= seconds < math.inf:
        raise ConfigError(f"{call.format(given)}: expected a time of 0 or more. Give seconds or a timedelta.")
    return seconds
