"""A holding: one claimed segment in memory, and where each of its tasks is.

Every unfinished task of the claim is in exactly one place: fresh (never handed out), back (to be handed out again),
leased, waiting (for a short back-off, or for others that lost their values too), aside (a limit keeps its lane from
starting), or unsent (its outcome is in the outbox). The counts here must add up to `left` at all times; the simulation
checks it after every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ramify.kernel.core.handler import Handler
from ramify.model.call import NO_EXTRA, Extra
from ramify.model.claim import Claim

#: Nothing came back: so it is with most of thousands, and the garbage collector would visit a list of each.
NOTHING: list[int] = ()  # type: ignore[assignment]  # nothing is added to it
#: Where tasks of several lanes wait together; no lane has this name.
SEVERAL = ""


class Holding:
    """One claim and the state of its tasks. `closing`: nothing more is handed out, and what is left goes back."""

    __slots__ = (
        "_positions",
        "aside",
        "attempts",
        "back",
        "claim",
        "closing",
        "extras",
        "fresh",
        "handler",
        "is_special",
        "leased",
        "left",
        "losses",
        "place",
        "unsent",
        "used",
        "waiting",
        "where",
    )

    def __init__(self, claim: Claim, handler: Handler) -> None:
        self.claim = claim
        self.handler = handler
        self.where = where_of(claim)
        self._positions: dict[int, int] | None = None
        self.fresh = 0
        self.back = NOTHING
        self.leased = 0
        self.waiting = 0
        self.aside = 0
        self.unsent = 0
        self.left = len(claim.tasks)
        #: When tasks of it were leased last.
        self.used = -math.inf
        #: What calls brought along for themselves, by position.
        self.extras: dict[int, Extra] = {}
        for task, more in claim.details.items():
            if more.extra is not None:
                self.extras[self.position_of(task)] = Extra.decode(more.extra)
        #: Whether tasks of it are alone in their chunks, for the time that their calls allow them.
        self.is_special = bool(self.extras) and any(
            extra.timeout is not None or extra.polls for extra in self.extras.values()
        )
        #: How often in a row a position lost the values that it swapped.
        self.losses: dict[int, int] = {}
        self.closing = False
        #: Its place in the line from which tasks are leased, if it stands there.
        self.place: int | None = None
        #: The number of the attempt a position is at, where it is not the first.
        self.attempts: dict[int, int] = {}
        for task, history in claim.history.items():
            if history.attempts:
                self.attempts[self.position_of(task)] = history.attempts + 1

    def saved(self, outcomes: int, again: int) -> int:
        """So many outcomes are saved, and of these tasks so many are tried again here; how many are not."""
        self.unsent -= outcomes
        self.left -= outcomes - again
        return outcomes - again

    @property
    def available(self) -> int:
        """How many tasks could be leased now."""
        return 0 if self.closing else len(self.claim.tasks) - self.fresh + len(self.back)

    @property
    def is_suspect(self) -> bool:
        """True if these tasks must run apart: processes died over them."""
        return self.claim.deaths.apart

    def settle(self, positions: frozenset[int]) -> None:
        """These positions need no attempt: their outcomes are known before anything is handed out."""
        self.back = [position for position in range(len(self.claim.tasks)) if position not in positions]
        self.fresh = len(self.claim.tasks)
        self.unsent += len(positions)

    def position_of(self, task: int) -> int:
        """The position of a task in the claim's columns."""
        if self._positions is None:
            if isinstance(self.claim.tasks, range):
                return self.claim.tasks.index(task)
            self._positions = {each: position for position, each in enumerate(self.claim.tasks)}
        return self._positions[task]

    def extra_of(self, task: int) -> Extra:
        """Return what the call of a task brought along for itself."""
        return self.extras.get(self.position_of(task), NO_EXTRA)

    def take(self, many: int) -> Sequence[int]:
        """Lease up to `many` positions: those that came back first."""
        if self.back:
            positions: Sequence[int] = self.back[:many]
            del self.back[:many]
        else:
            end = min(self.fresh + many, len(self.claim.tasks))
            positions = range(self.fresh, end)
            self.fresh = end
        self.leased += len(positions)
        return positions

    def give_back(self, position: int) -> None:
        """A position is to be handed out again, before those that are fresh."""
        if self.back:
            self.back.append(position)
        else:
            self.back = [position]

    def set_aside(self, many: int) -> None:
        """So many of those that were taken may not start, and are not handed out any more."""
        self.leased -= many
        self.aside += many

    def adds_up(self) -> bool:
        """Return whether every unfinished task is in exactly one place."""
        inside = len(self.claim.tasks) - self.fresh + len(self.back)
        return inside + self.leased + self.waiting + self.aside + self.unsent == self.left


def where_of(claim: Claim) -> tuple[str, str | None]:
    """The kind and lane under which its tasks wait for a worker."""
    return claim.kind, claim.lane if claim.lanes is None else SEVERAL
