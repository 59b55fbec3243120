"""The watch: which runs this process knows, at which round, and which of them should be asked to move on.

A run is asked when the last of its tasks left this process, when something changed that may let it go on, and now and
then, because whoever should have asked may be gone. It is not asked while this process holds tasks of it, except at
its deadline. Part of the core: no threads, no clock.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable

from ramify.kernel.steps import Move
from ramify.model.run import Advanced, RunState


class Watch:
    """Runs. `awaited` are those whose end is waited for; None when nobody waits."""

    def __init__(self, runs: Iterable[int], *, awaits: bool) -> None:
        # Where they stand is not known yet; the first answer tells.
        self.rounds = dict.fromkeys(runs, -1)
        self.awaited = set(self.rounds) if awaits else None
        self._held: Counter[int] = Counter()
        self._to_move: deque[int] = deque()
        #: The runs that were held back by another one, and by which.
        self._leaders: dict[int, int] = {}
        #: When runs are out of time, by the clock of this process.
        self._deadlines: dict[int, float] = {}
        #: Before this none of them is; looked for again when it has come.
        self.next_deadline = math.inf

    @property
    def is_over(self) -> bool:
        """Whether every awaited run has ended."""
        return self.awaited is not None and not self.awaited

    def took(self, run: int, round: int) -> None:
        """A claim of this run was granted."""
        self._held[run] += 1
        self.rounds[run] = max(self.rounds.get(run, -1), round)

    def dropped(self, run: int) -> None:
        """A claim of this run is no longer held."""
        self._held[run] -= 1
        if not self._held[run]:
            del self._held[run]
            self._to_move.append(run)

    def found(self, runs: Iterable[tuple[int, int]]) -> None:
        """These runs are open, each at its round."""
        for run, round in runs:
            self.rounds.setdefault(run, round)
        self.stirred()

    def stirred(self) -> None:
        """Any of them may be able to go on."""
        self._to_move = deque(self.rounds)

    def told(self, time_left: Iterable[tuple[int, float]], now: float) -> None:
        """These runs have so many seconds left."""
        for run, seconds in time_left:
            at = self._deadlines[run] = now + seconds
            self.next_deadline = min(self.next_deadline, at)

    def late(self, now: float) -> Move | None:
        """A run that is out of time; each is named once, and again when the answer says that it is still open."""
        if now < self.next_deadline:
            return None
        run = min(self._deadlines, key=self._deadlines.__getitem__, default=None)
        self.next_deadline = math.inf if run is None else self._deadlines[run]
        if run is None or now < self.next_deadline:
            return None
        del self._deadlines[run]
        return Move(run, self.rounds.get(run, -1))

    def advanced(self, run: int, answer: Advanced, now: float) -> None:
        """A run was asked."""
        self._deadlines.pop(run, None)
        if answer.time_left is not None and answer.state is RunState.OPEN:
            self.told([(run, answer.time_left)], now)
        if answer.gated_by is not None:
            self._leaders[run] = answer.gated_by
        if answer.state.is_end:
            self.rounds.pop(run, None)
            self._leaders.pop(run, None)
            if self.awaited is not None:
                self.awaited.discard(run)
        elif self.rounds.get(run) != answer.round:
            self.rounds[run] = answer.round
            self._to_move.append(run)
        if answer.moved:
            # Whoever follows this run may move now too; asking all of them each time would cost their square.
            self._to_move.extend(each for each, leader in self._leaders.items() if leader == run)

    def next(self) -> Move | None:
        """The next run to ask."""
        while self._to_move:
            run = self._to_move.popleft()
            if run in self.rounds and not self._held[run]:
                return Move(run, self.rounds[run])
        return None
