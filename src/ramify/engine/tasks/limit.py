"""Limits as a program declares them: handles that tasks share, and all limits of a set of tasks.

Promises: a name means one limit in a set and everything it includes; one with other numbers is refused. A limit that is
defined again at a prompt or in a notebook changes for tasks that have it already.

Does not count anything, and knows no store: a worker stores what its program declares (`engine/limits.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NoReturn

from ramify.errors import BadPayload, ConfigError
from ramify.model.limit import Limit, Numbers, Pace
from ramify.model.policy import SECOND, Duration, Rate
from ramify.model.task import check_name

#: How a rate is written.
GivenRate = str | tuple[int, Duration] | Rate
Per = Literal["lane"]
#: How the names of limits begin that are those of queues.
QUEUE = "queue/"
#: The longest time of a rate, in seconds: the opening of a place is a moment that a store can keep.
LONGEST_PERIOD = 366 * 86_400


class TaskLimit:
    """The handle of a limit: `api = engine.limit("api", max_running=5)`, then `@engine.task(limit=api)`.

    All processes of a store keep to it together. `per="lane"` gives each lane these numbers for itself.
    """

    __slots__ = ("max_rate", "max_running", "name", "per")

    def __init__(self, name: str, max_running: int | None, max_rate: Rate | None, per: Per | None) -> None:
        self.name = name
        self.max_running = max_running
        self.max_rate = max_rate
        self.per: Per | None = per

    def __repr__(self) -> str:
        return f"<limit {self.name!r}: {self._in_words}>"

    @property
    def _in_words(self) -> str:
        """Its numbers."""
        given = {"max_running": self.max_running, "max_rate": self.max_rate and self.max_rate.of, "per": self.per}
        return ", ".join(f"{option}={value!r}" for option, value in given.items() if value is not None)

    def _same_as(self, other: TaskLimit) -> bool:
        """Return whether it says the same."""
        return self._said == other._said

    def _become(self, other: TaskLimit) -> None:
        """Say from now on what another one says."""
        self.max_running, self.max_rate, self.per = other.max_running, other.max_rate, other.per

    def _stored(self, kinds: Iterable[str] = (), queues: Iterable[str] = ()) -> Limit:
        """The limit as it is declared in a store, over these kinds and queues."""
        numbers = Numbers(self.max_running, None if self.max_rate is None else Pace.of(self.max_rate))
        return Limit(self.name, numbers, self.per is not None, tuple(sorted(kinds)), tuple(sorted(queues)))

    @property
    def _said(self) -> tuple[object, ...]:
        return self.max_running, self.max_rate, self.per


def limit_of(call: str, name: object, max_running: object, max_rate: object, per: object) -> TaskLimit:
    """A limit as somebody wrote it in a `call`; ConfigError says what to give."""
    try:
        known = check_name("a limit", name)
    except BadPayload as error:
        _refuse(call, f"{name!a:.40}", str(error))
    if max_running is None and max_rate is None:
        given = f"{name!r}" if per is None else f"per={per!r}"
        _refuse(call, given, "expected max_running, max_rate or both. Write max_running=5.")
    if max_running is not None and (
        isinstance(max_running, bool) or not isinstance(max_running, int) or max_running < 1
    ):
        text = "expected a whole number, 1 or more. To stop all of them, pause their run or queue."
        _refuse(call, f"max_running={max_running!r}", text)
    if per not in (None, "lane"):
        _refuse(call, f"per={per!r}", 'expected "lane", or nothing for all lanes together. Write per="lane".')
    return TaskLimit(known, max_running, _rate_of(call, max_rate), "lane" if per else None)


def _rate_of(call: str, given: Any) -> Rate | None:
    if given is None:
        return None
    try:
        rate = given if isinstance(given, Rate) else Rate(given)
    except ValueError as error:
        _refuse(call, f"max_rate={given!r}", f"{error}.".removeprefix(f"Rate({given!r}): "))
    if round(rate.seconds * SECOND) < 1 or rate.seconds > LONGEST_PERIOD:
        why = 'expected a time of a microsecond or more, and of a year at most. Write "100/s".'
        _refuse(call, f"max_rate={given!r}", why)
    return rate


def limits_given(call: str, given: object) -> tuple[TaskLimit, ...]:
    """The limits of a task as somebody wrote them: one, or one in all and one per lane."""
    if given is None:
        return ()
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    for each in found:
        if not isinstance(each, TaskLimit):
            what = 'expected a limit. Write limit=api, with api = engine.limit("api", max_running=5).'
            _refuse(call, f"limit={given!r}", what)
    return found


def check_together(call: str, limits: Sequence[TaskLimit]) -> None:
    """Refuse two limits of one task that count the same."""
    for per, what in ((None, "in all"), ("lane", "per lane")):
        same = [limit.name for limit in limits if limit.per == per]
        if len(same) > 1:
            names = ", ".join(map(repr, same))
            _refuse(call, f"limit=[{names}]", f"expected at most one limit {what}. Remove one.")


def _refuse(call: str, given: str, what_to_give: str) -> NoReturn:
    raise ConfigError(f"{call.format(given)}: {what_to_give}")


def noted(known: dict[str, TaskLimit], limit: TaskLimit) -> TaskLimit:
    """The limit that is known under a name, which is this one if none was; ConfigError if they differ."""
    found = known.setdefault(limit.name, limit)
    if not found._same_as(limit):
        raise ConfigError(
            f"two limits are called {limit.name!r}: {found._in_words} and {limit._in_words}. Give one another name, or "
            "make one and share it: limit=..."
        )
    return found
