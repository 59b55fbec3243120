"""Queues: which are served, and which of them a process asks for next. Part of the core: no threads, no clock.

A process asks for one *choice* of queues at a time. Queues that are served together are one choice, and the store says
what comes first. In order, the first choice that may have something is asked, so a later one is served only while the
earlier ones are empty. By weight, each gets its share of the tasks that are taken; one that was empty for a while has
not saved anything up.

A choice that left nothing is *dry*: it is asked again when something stirred, or, while other tasks are held, after a
pause that grows. So a process that finds nothing asks once for each choice.

An answer that brought nothing says when the next row is due. The choice is asked again at that moment. Answers may be
too early, and another process may be faster, so moments in a row that bring nothing are kept apart by a pause that
grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import msgspec

from ramify.errors import ConfigError
from ramify.kernel.tuning import LONGEST_PAUSE, SHORTEST_PAUSE
from ramify.model.claim import Claimed
from ramify.model.task import name_given


class Queues(msgspec.Struct, frozen=True):
    """The queues that a process serves: in the order of the choices, or by their weights."""

    choices: tuple[frozenset[str], ...]
    weights: tuple[int, ...] | None = None

    @classmethod
    def of(cls, given: Iterable[str] | Mapping[str, int]) -> Queues:
        """A set of names is served together, a list in its order, a mapping by weight."""
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ConfigError(f"queues={given!r}: expected a list of names.")
        given = given if isinstance(given, Set | Mapping) else tuple(given)
        for name in given:
            name_given(f"queues={given!r}: a queue", name)
        if isinstance(given, Set):
            return cls((frozenset(given),))
        names = tuple(given)
        if len(set(names)) < len(names):
            raise ConfigError(f"queues={names!r}: expected each queue once.")
        choices = tuple(frozenset({name}) for name in names) or (frozenset(),)
        if not isinstance(given, Mapping):
            return cls(choices)
        weights = tuple(given.values())
        if not all(isinstance(weight, int) and not isinstance(weight, bool) and weight > 0 for weight in weights):
            raise ConfigError(f"queues={dict(given)!r}: expected weights as whole numbers, 1 or more.")
        return cls(choices, weights or None)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted(frozenset().union(*self.choices)))


@dataclass(slots=True)
class Choice:
    """Queues that are asked for together; None for all there are."""

    queues: frozenset[str] | None
    weight: int = 1
    is_dry: bool = False
    dry_until: float = 0.0
    pause: float = SHORTEST_PAUSE
    #: What the last answer said of it.
    ready: int = 0
    suspects: bool = False
    #: What it was given so far, by its weight.
    given: float = 0.0
    #: When the next row is due, as far as the last answer said.
    next_due: float = math.inf
    #: The shortest time from an answer to that moment.
    due_pause: float = SHORTEST_PAUSE


class Turns:
    """The order in which queues are served."""

    def __init__(self, queues: Queues | None) -> None:
        if queues is None:
            self._choices = [Choice(None)]
        else:
            weights = queues.weights or (1,) * len(queues.choices)
            self._choices = [Choice(*each) for each in zip(queues.choices, weights, strict=True)]
        self._by_weight = queues is not None and queues.weights is not None
        self._asked = self._choices[0]
        #: How far those that are not empty have come.
        self._given = 0.0

    @property
    def is_dry(self) -> bool:
        """True if nothing is left of any."""
        return all(choice.is_dry for choice in self._choices)

    @property
    def dry_until(self) -> float:
        """When the first of those that are dry may be asked again."""
        return min((choice.dry_until for choice in self._choices if choice.is_dry), default=0.0)

    @property
    def ready(self) -> int:
        """How many tasks are left in all of them, as far as is known."""
        return sum(choice.ready for choice in self._choices)

    @property
    def suspects(self) -> bool:
        """True if suspects wait in any of them."""
        return any(choice.suspects for choice in self._choices)

    @property
    def next_due(self) -> float:
        """When the next row of any is due, as far as answers said; infinity when none did."""
        return min(choice.next_due for choice in self._choices)

    def ripen(self, now: float) -> bool:
        """Ask again for choices of which a row is due by now; whether there are any."""
        ripe = [choice for choice in self._choices if choice.is_dry and choice.next_due <= now]
        for choice in ripe:
            choice.is_dry = False
        return bool(ripe)

    def next(self, now: float, *, asks_again: bool) -> Choice | None:
        """The choice to ask for; a dry one only if it `asks_again` after its pause. None when there is none to ask."""
        open_now = [each for each in self._choices if not each.is_dry or (asks_again and now >= each.dry_until)]
        if not open_now:
            return None
        self._asked = min(open_now, key=lambda each: each.given) if self._by_weight else open_now[0]
        return self._asked

    def fed(self, answer: Claimed, now: float) -> None:
        """The choice that was asked for last was answered."""
        asked, tasks = self._asked, sum(len(claim.tasks) for claim in answer.claims)
        if not asked.ready:
            asked.given = max(asked.given, self._given)
        asked.ready, asked.suspects, asked.is_dry = answer.ready, answer.suspects, not answer.ready
        if tasks:
            asked.pause = SHORTEST_PAUSE
            self._given = max(self._given, asked.given)
            asked.given += tasks / asked.weight
        asked.dry_until = now + asked.pause
        if not tasks:
            asked.pause = min(2 * asked.pause, LONGEST_PAUSE)
        # A rest may end a little early: such a claim, too, was made because of the moment.
        in_vain = not tasks and now + SHORTEST_PAUSE > asked.next_due
        asked.due_pause = min(2 * asked.due_pause, LONGEST_PAUSE) if in_vain else SHORTEST_PAUSE
        asked.next_due = math.inf if answer.next_due is None else now + max(answer.next_due, asked.due_pause)

    def stirred(self) -> None:
        """Something may be in any of them."""
        for choice in self._choices:
            choice.is_dry, choice.pause = False, SHORTEST_PAUSE
