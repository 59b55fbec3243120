"""The watch: which runs this process should ask to move on, and at which round they are.

A run is asked when the last of its tasks left this process, together with others of which the same is true. Whoever has
nothing to do *looks*: a process that serves every run asks the store which ones can be moved, in one question however
many there are; one that was given its runs asks those. It looks when something changed, but never for more than a
twentieth of its time, and now and then in any case, because whoever should have asked may be gone: the more runs wait,
the more rarely. A run is not asked while this process holds tasks of it, except at its deadline. Part of the core: no
threads, no clock.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from ramify.kernel.core.steps import Look, Move
from ramify.kernel.settings import LaunchedRuns
from ramify.kernel.tuning import IDLE_LOOK_PAUSE, LONGEST_LOOK_PAUSE, LOOK_EVERY, LOOK_PAUSE, MOST_ASKED
from ramify.model.run import Advanced, RunState


class Watch:
    """Runs: those given, or None for every one. `awaited` are those whose end is waited for; None when nobody waits.

    Those `launched` by the ones given are asked too, also if this process never held a task of them.
    """

    def __init__(self, runs: Iterable[int] | None, *, awaits: bool, launched: LaunchedRuns | None = None) -> None:
        self._serves_all = runs is None
        #: Of every run that may have to be asked. Where those given stand is not known yet; the first answer tells.
        self.rounds = dict.fromkeys(runs or (), -1)
        self.awaited = set(self.rounds) if awaits else None
        #: As what awaited runs ended.
        self.ended: dict[int, RunState] = {}
        self._launched = LaunchedRuns() if launched is None else launched
        self._known_launched: frozenset[int] = frozenset()
        self._held: Counter[int] = Counter()
        self._to_move: deque[int] = deque()
        #: The runs that were held back by another one, and by which.
        self._leaders: dict[int, int] = {}
        #: When runs are out of time, by the clock of this process.
        self._deadlines: dict[int, float] = {}
        #: Before this none of them is; looked for again when it has come.
        self.next_deadline = math.inf
        self._looked_at: float | None = None
        self._is_stirred = True
        #: Before this it does not look again, whatever stirs.
        self._rests_until = -math.inf
        #: Before this it does not look again while nothing stirs.
        self._looks_at = math.inf

    @property
    def is_over(self) -> bool:
        """True if every awaited run has ended."""
        return self.awaited is not None and not self.awaited

    @property
    def is_through(self) -> bool:
        """True if every awaited run has ended, and none was launched that may need this process."""
        return self.is_over and not self._launched.runs

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

    def found(self, runs: Sequence[tuple[int, int]], now: float) -> None:
        """A look was answered: these runs can be moved, each at its round."""
        for run, round in runs:
            self.rounds[run] = max(self.rounds.get(run, -1), round)
            self._to_move.append(run)
        if len(runs) >= MOST_ASKED:
            self._is_stirred = True
        elif self._looked_at is not None:
            took = now - self._looked_at
            self._rests_until = now + min(LOOK_PAUSE * took, LOOK_EVERY)
            self._looks_at = max(self._looks_at, now + min(IDLE_LOOK_PAUSE * took, LONGEST_LOOK_PAUSE))

    def stirred(self) -> None:
        """Any run may be able to go on."""
        self._is_stirred = True

    def look(self, now: float, *, idle: bool) -> Look | Move | None:
        """Return what to ask to find runs that can be moved; None when it is too early for that."""
        if self._looked_at is None:
            self._looked_at, self._looks_at = now, now + LOOK_EVERY
        if now < (self._rests_until if idle and self._is_stirred else self._looks_at):
            return None
        self._looked_at, self._looks_at, self._is_stirred = now, now + LOOK_EVERY, False
        if self._serves_all:
            return Look(MOST_ASKED)
        launched = self._launched.runs
        for run in launched - self._known_launched:
            self.rounds.setdefault(run, -1)
        self._known_launched = launched
        self._to_move.extend(self.rounds)
        return self.next()

    @property
    def next_look(self) -> float | None:
        """When something that stirred is looked at."""
        return self._rests_until if self._is_stirred else None

    def note_time_left(self, time_left: Iterable[tuple[int, float]], now: float) -> None:
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
        return Move(((run, self.rounds.get(run, -1)),))

    def advanced(self, run: int, answer: Advanced, now: float) -> None:
        """A run was asked."""
        self._deadlines.pop(run, None)
        if answer.time_left is not None and answer.state is RunState.OPEN:
            self.note_time_left([(run, answer.time_left)], now)
        self._leaders.pop(run, None)
        if answer.gated_by is not None:
            self._leaders[run] = answer.gated_by
        if answer.state.is_end:
            self.rounds.pop(run, None)
            if self.awaited is not None and run in self.awaited:
                self.awaited.discard(run)
                self.ended[run] = answer.state
        elif not answer.moved and self.rounds.get(run) != answer.round:
            self.rounds[run] = answer.round
            self._to_move.append(run)
        elif self._serves_all and answer.gated_by is None and not self._held[run]:
            # Whoever takes of it next asks again, or a look finds it: those that wait for long are not kept.
            self.rounds.pop(run, None)
        else:
            self.rounds[run] = answer.round
        if answer.moved:
            # Whoever follows this run may move now too; asking all of them each time would cost their square.
            self._is_stirred |= self._serves_all
            self._to_move.extend(each for each, leader in self._leaders.items() if leader == run)

    def next(self) -> Move | None:
        """The next runs to ask."""
        asked: dict[int, int] = {}
        while self._to_move and len(asked) < MOST_ASKED:
            run = self._to_move.popleft()
            if run in self.rounds and not self._held[run]:
                asked[run] = self.rounds[run]
        return Move(tuple(asked.items())) if asked else None
