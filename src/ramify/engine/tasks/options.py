"""The options of `@task`: what they may be, and the policy they add up to.

Promises: a value that can never work is refused when the function is decorated, with the option's name, what was given
and what to give instead. Nothing here is looked at again while tasks run.

Does not look at the function itself, and keeps nothing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from ramify.engine.tasks.limit import GivenRate, Per, TaskLimit, check_together, limit_of, limits_given
from ramify.errors import BadPayload, ConfigError
from ramify.kernel.core.handler import Policy
from ramify.model.policy import Backoff, Duration, Rate, seconds_in
from ramify.model.task import OWN, check_name, is_own

#: How a key or a lane is chosen: the name of a parameter, or a function of the arguments.
Selector = str | Callable[..., str | None]


@dataclass(frozen=True, slots=True)
class Options:
    """Everything `@task(...)` can be told, as it was written."""

    name: str | None = None
    aliases: Iterable[str] = ()
    queue: str = "default"
    retries: int = 3
    backoff: Backoff = Backoff()
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,)
    give_up_on: type[BaseException] | tuple[type[BaseException], ...] = ()
    timeout: Duration | None = None
    key: Selector | None = None
    once: Selector | bool | None = None
    lane: Selector | None = None
    concurrency: int | None = None
    rate: str | tuple[int, float] | Rate | None = None
    max_running: int | None = None
    max_rate: GivenRate | None = None
    per: Per | None = None
    limit: TaskLimit | Sequence[TaskLimit] | None = None
    max_children: int | None = None
    max_crashes: int | None = 5
    keep: Duration | None = None


def options_of(given: Mapping[str, Any]) -> Options:
    """Options as they were written; ConfigError for one that does not exist, with the nearest that does."""
    known = [each.name for each in fields(Options)]
    for option, value in given.items():
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            instead = f"Did you mean `{near[0]}`?" if near else f"Options are {', '.join(known)}."
            raise ConfigError(f"@task({option}={value!r}): unknown option. {instead}")
    return Options(**given)


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """The options after they were checked. How keys and lanes are chosen is checked against the function."""

    kind: str
    aliases: tuple[str, ...]
    queue: str
    policy: Policy
    keep: float | None = None
    limits: tuple[TaskLimit, ...] = ()


def settle(function: str, options: Options) -> CheckedOptions:
    """Check every option of the task function called `function`; ConfigError says what to give."""
    return _Checking(function).settle(options)


class _Checking:
    """The checks of one function's options; each names the function when it refuses."""

    def __init__(self, function: str) -> None:
        self._function = function

    def settle(self, given: Options) -> CheckedOptions:
        kind = self._kind("name", self._function if given.name is None else given.name)
        if given.key is not None and given.once:
            self._refuse(
                "key", given.key, "expected `key` or `once`, not both. Leave `key` out: `once` sets the key too."
            )
        limits = self._limits(kind, given)
        policy = Policy(
            retries=self._whole("retries", given.retries, least=0),
            backoff=self._backoff(given.backoff),
            retry_on=self._errors("retry_on", given.retry_on),
            give_up_on=self._errors("give_up_on", given.give_up_on),
            timeout=None if given.timeout is None else self._seconds("timeout", given.timeout),
            concurrency=None if given.concurrency is None else self._whole("concurrency", given.concurrency, least=1),
            rate=None if given.rate is None else self._rate(given.rate),
            max_children=None if given.max_children is None else self._whole("max_children", given.max_children, 0),
            max_crashes=None if given.max_crashes is None else self._whole("max_crashes", given.max_crashes, least=1),
            per_lane=any(limit.per for limit in limits),
            in_all=any(limit.per is None for limit in limits),
        )
        return CheckedOptions(
            kind,
            self._aliases(kind, given.aliases),
            self._name("queue", given.queue),
            policy,
            None if given.keep is None else self._seconds("keep", given.keep),
            limits,
        )

    def _limits(self, kind: str, given: Options) -> tuple[TaskLimit, ...]:
        """The limits that it shares with other tasks, and its own, which has the name of the kind."""
        call = f"@task({{}}) on {self._function}()"
        limits = limits_given(call, given.limit)
        if (given.max_running, given.max_rate, given.per) != (None, None, None):
            limits = (*limits, limit_of(call, kind, given.max_running, given.max_rate, given.per))
        check_together(call, limits)
        return limits

    def _refuse(self, option: str, value: object, what_to_give: str) -> NoReturn:
        raise ConfigError(f"@task({option}={value!r}) on {self._function}(): {what_to_give}")

    def _name(self, option: str, value: object) -> str:
        try:
            return check_name(option, value)
        except BadPayload as error:
            self._refuse(option, value, str(error))

    def _kind(self, option: str, value: object) -> str:
        kind = self._name(option, value)
        if is_own(kind):
            self._refuse(option, kind, f"names that begin with {OWN!r} are reserved for DAGs. Choose another name.")
        return kind

    def _aliases(self, kind: str, value: object) -> tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            self._refuse("aliases", value, "expected a list of older names of this task.")
        names = tuple(self._kind("aliases", each) for each in value)
        if kind in names or len(set(names)) != len(names):
            self._refuse(
                "aliases", value, f"expected each older name once, and not {kind!r}, which is its present name."
            )
        return names

    def _whole(self, option: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._refuse(option, value, f"expected a whole number, {least} or more.")
        return value

    def _seconds(self, option: str, value: object) -> float:
        seconds = seconds_in(value)
        if seconds is None or not 0 < seconds < math.inf:
            self._refuse(option, value, "expected seconds or a timedelta, more than 0.")
        return seconds

    def _backoff(self, value: object) -> Backoff:
        if not isinstance(value, Backoff):
            self._refuse("backoff", value, "expected a Backoff. Write Backoff(first=1, factor=2, cap=300).")
        return value

    def _errors(self, option: str, value: object) -> tuple[type[BaseException], ...]:
        kinds = value if isinstance(value, tuple | list) else (value,)
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                self._refuse(option, value, "expected an exception class, or a tuple of them.")
        return tuple(kinds)

    def _rate(self, value: str | tuple[int, float] | Rate) -> Rate:
        try:
            return value if isinstance(value, Rate) else Rate(value)
        except ValueError as error:
            self._refuse("rate", value, str(error))
