"""Lost tasks: others changed a value that one had read before it was committed, so nothing of its attempt counts.

The same attempt is made again, at once if it took longer than commits are apart. Quick tasks would lose to each other
within the next commit, all but one: they are handed out a few at a time, as many as won the last time, or twice as many
when nobody lost. In a commit those that lost most often come first, so they lose to other processes only.

Part of the core: no threads, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from ramify.kernel.core.holding import Holding
from ramify.kernel.core.leases import Leases
from ramify.kernel.outgoing.outbox import Finished
from ramify.kernel.tuning import QUICK_LOSS
from ramify.model.policy import SECOND
from ramify.model.value import MOST_TRIES


class LostTasks:
    """The lost tasks of one process: those that wait to be handed out again, and those that were and are not back."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._waiting: deque[tuple[Holding, int]] = deque()
        #: Since when they may be handed out.
        self._out: dict[tuple[Holding, int], float] = {}
        self._at_a_time = 1

    def add(self, holding: Holding, finished: Finished) -> bool:
        """Let a task be tried again; False if it lost too often in a row."""
        (task,) = finished.tasks
        position = holding.position_of(task)
        self._out.pop((holding, position), None)
        losses = holding.losses[position] = holding.losses.get(position, 0) + 1
        if losses > MOST_TRIES:
            return False
        if finished.took.get(task, 0) > QUICK_LOSS * SECOND:
            self._leases.give_back(holding, position)
        else:
            holding.waiting += 1
            self._waiting.append((holding, position))
        return True

    def committed(self, saved: Sequence[Finished], lost: Sequence[Finished], holdings: Mapping[bytes, Holding]) -> None:
        """A commit was answered, of which these parts were saved, and these lost. Only who had lost before tells."""
        won = 0
        for finished in saved:
            if _losses(finished, holdings):
                holding = holdings[finished.claim.token]
                position = holding.position_of(finished.tasks[0])
                won += 1
                del holding.losses[position]
                self._out.pop((holding, position), None)
        if any(_losses(finished, holdings) > 1 for finished in lost):
            self._at_a_time = max(1, won)
        elif won:
            self._at_a_time = 2 * won

    def let_out(self, now: float) -> None:
        """Hand some of them out again: no more at a time than can win, and not long after the others."""
        if not self._waiting:
            return
        self._out = {
            (holding, position): since
            for (holding, position), since in self._out.items()
            if position in holding.losses and not holding.closing and now - since < QUICK_LOSS
        }
        while self._waiting and len(self._out) < self._at_a_time:
            holding, position = self._waiting.popleft()
            holding.waiting -= 1
            self._leases.give_back(holding, position)
            if not holding.closing:
                self._out[holding, position] = now

    def next_moment(self) -> float | None:
        """When the next one is handed out although others are not back."""
        return min(self._out.values()) + QUICK_LOSS if self._waiting and self._out else None


def in_order(batch: Sequence[Finished], holdings: Mapping[bytes, Holding]) -> tuple[Finished, ...]:
    """The parts of a commit: of those that swap values, who lost more often comes sooner.

    The others come first: a part that discards something must not follow the one that ends the last task of its claim.
    """
    return tuple(sorted(batch, key=lambda each: (bool(each.offspring.swaps), -_losses(each, holdings))))


def _losses(finished: Finished, holdings: Mapping[bytes, Holding]) -> int:
    """How often in a row the task of a part has lost; 0 for a part that swaps nothing."""
    holding = holdings.get(finished.claim.token) if finished.offspring.swaps else None
    if holding is None or not holding.losses:
        return 0
    return holding.losses.get(holding.position_of(finished.tasks[0]), 0)


def sorted_out(batch: Sequence[Finished], tasks: Collection[int]) -> tuple[Sequence[Finished], Sequence[Finished]]:
    """The parts of a commit that were saved, and those that lost: they swapped values with the ends of these tasks."""
    if not tasks:
        return batch, ()
    lost = frozenset(tasks)
    parts: tuple[list[Finished], list[Finished]] = ([], [])
    for finished in batch:
        parts[bool(finished.offspring.swaps) and finished.tasks[0] in lost].append(finished)
    return parts
