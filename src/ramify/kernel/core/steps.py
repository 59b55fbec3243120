"""Kernel steps: what the core decides that the loop should do next. Values only; the loop carries them out in turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ramify.kernel.core.lost import sorted_out
from ramify.kernel.outgoing.outbox import Finished
from ramify.model.claim import Want

#: The exit code of a process that ended itself to be replaced.
REPLACE_ME = 75


@dataclass(frozen=True, slots=True)
class Enter:
    """Open a session: at the start, or anew after this process was declared dead."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Commit these outcomes, and take the next claim with it if something is wanted."""

    batch: tuple[Finished, ...]
    want: Want | None

    @property
    def outcomes(self) -> int:
        """How many outcomes it saves."""
        return sum(len(finished.tasks) for finished in self.batch)

    @property
    def children(self) -> int:
        """How many children it adds."""
        return sum(finished.offspring.count for finished in self.batch if finished.offspring)

    def without(self, lost: Collection[int]) -> Flush:
        """The same without the parts that swapped values with the ends of these tasks."""
        return Flush(tuple(sorted_out(self.batch, lost)[0]), self.want)


@dataclass(frozen=True, slots=True)
class ClaimWork:
    """Claim."""

    want: Want


@dataclass(frozen=True, slots=True)
class PutBack:
    """Release claims of which nothing runs and nothing is unsent."""

    tokens: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Ask whether runs can go on to their next rounds, or have ended; `asked` are `(run, round)` each."""

    asked: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Find out which runs can be moved on, at most so many."""

    limit: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do for so long, or until something happens. `idle`: nothing is held; only the store brings news."""

    seconds: float
    idle: bool


@dataclass(frozen=True, slots=True)
class Die:
    """End this process to be rid of a thread that cannot be stopped; whoever supervises it starts another."""

    task: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Everything is saved: end the session."""


Step = Enter | Flush | ClaimWork | PutBack | Move | Look | Rest | Die | Leave
