"""The weather of a seed: which faults there are, how many processes, and with which settings. Swarm testing.

Each sort of fault is on in about half of the seeds, so that rare meetings of two of them are not drowned by the rest.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from ramify.kernel.settings import Settings


class Fault(Enum):
    """What can go wrong."""

    CRASH = "crash"
    FREEZE = "freeze"
    ECHO = "an old verb is delivered again"
    LOST = "an answer is lost"
    AWAY = "the store is away"
    SLOW = "verbs are slow"
    SKEW = "clocks run at different speeds"
    LATE = "beats are answered late"
    CANCEL = "cancel"
    PAUSE = "pause"
    STOP = "stop"
    THREAD = "a worker thread dies"


#: Faults after which a process may be taken for dead although nobody meant to end it, or is.
DEADLY = frozenset({Fault.CRASH, Fault.FREEZE, Fault.LATE})
#: Those that happen at a moment, as opposed to with every verb.
SUDDEN = (Fault.CRASH, Fault.FREEZE, Fault.AWAY, Fault.CANCEL, Fault.PAUSE, Fault.STOP)


@dataclass(frozen=True)
class Weather:
    """What a seed decides before anything runs.

    `hiccups` is how often a thread loses its turn for no reason, `scarce` how often memory is found to be.
    """

    faults: frozenset[Fault]
    processes: int
    runs: int
    size: int
    killers: int
    until: float
    gap: float
    step: float
    dead_after: float
    until_ended: bool
    hiccups: float
    scarce: float

    @classmethod
    def of(cls, chance: random.Random) -> Weather:
        """Draw it."""
        faults = {fault for fault in Fault if chance.random() < 0.45}
        killers = chance.choice((1, 1, 2, 3)) if chance.random() < 0.15 else 0
        return cls(
            frozenset(faults),
            processes=chance.choice((1, 2, 2, 3, 3, 4)),
            runs=chance.choice((1, 1, 1, 1, 2)),
            size=60 if killers else chance.choice((4, 15, 25, 40)),
            killers=killers,
            until=chance.uniform(4.0, 12.0),
            gap=chance.choice((0.5, 1.5, 3.0)),
            step=chance.choice((0.0005, 0.01, 0.1)),
            dead_after=chance.choice((1.2, 3.0)),
            until_ended=chance.random() < 0.7,
            hiccups=chance.choice((0.0, 0.01, 0.1)),
            scarce=chance.choice((0.0, 0.0, 0.1)),
        )

    def settings(self, chance: random.Random, runs: frozenset[int]) -> Settings:
        """The settings of one process."""
        return Settings(
            runs=runs if self.until_ended else None,
            until_ended=self.until_ended,
            threads=chance.choice((None, None, 0, 1, 1, 2, 4)),
            coroutines=chance.choice((None, 1, 3)),
            grace=chance.choice((0.0, 0.5, 3.0)),
            beat_every=self.dead_after / 4,
            dead_after=self.dead_after,
            flush_after=chance.choice((0.01, 0.1, 1.0)),
            flush_at=chance.choice((1, 3, 10, 5_000)),
            claim_at_most=10_000 if self.killers else chance.choice((1, 2, 5, 10_000)),
            memory_wait=chance.choice((0.0, 1.0, 3.0)),
            supervisor=1 if chance.random() < 0.3 else None,
        )
