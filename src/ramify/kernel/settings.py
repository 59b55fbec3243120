"""Settings of one kernel: what it works on, with how much, and how patient it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ramify.kernel.core.queues import Queues
from ramify.kernel.tuning import CHOSEN_COROUTINES, CHOSEN_THREADS

#: More than any machine has use for; a number beyond is a slip of the finger.
MOST_PROCESSES, MOST_THREADS = 1_000, 10_000
#: How long tasks that run may take to finish at a stop.
GRACE = 25.0


class LaunchedRuns:
    """Runs that were started by tasks of those which a kernel works on, and that it works on as well."""

    def __init__(self) -> None:
        #: Replaced as a whole: one thread adds to it while others look.
        self.runs: frozenset[int] = frozenset()

    def add(self, run: int) -> None:
        """One more."""
        self.runs |= {run}


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a kernel can be told. Times are seconds.

    `runs` limits the work to these runs, and those `launched` by them; with `until_ended` the kernel stops by itself
    when all of the former have ended.
    With `until_idle` it stops when nothing is left that it could do right now; `exact_waits` keeps waits that leave
    memory from being rounded, so that a test can step over them. `threads=None` adapts; 0 runs plain handlers in the
    calling thread. `supervisor` is the number of the process that replaces this one when it ends, so that it may end
    itself to be rid of a task that cannot be stopped. `on_beat` is called by the heartbeat's thread, so that a
    supervisor hears whether this process still turns; `on_idle` by the loop when it holds nothing and finds nothing.
    `log_to` gets all that attempts log from `log_level` on, besides the store.
    With `learns` it does not tell which kinds it knows, because more may come.
    `limited_queues` are those for which the program declares a limit of the store.
    With `most_tasks` the kernel takes no more than so many in its life; what it puts back does not count.
    """

    runs: frozenset[int] | None = None
    launched: LaunchedRuns = field(default_factory=LaunchedRuns)
    until_ended: bool = False
    until_idle: bool = False
    exact_waits: bool = False
    queues: Queues | None = None
    threads: int | None = None
    coroutines: int | None = None
    grace: float = GRACE
    beat_every: float = 1.0
    dead_after: float = 60.0
    flush_after: float = 0.1
    flush_at: int = 5_000
    claim_at_most: int = 10_000
    memory_wait: float = 0.5
    most_tasks: int | None = None
    supervisor: int | None = None
    version: str = ""
    learns: bool = False
    log_level: int = 20
    log_lines: int = 1_000
    log_to: logging.Handler | None = None
    limited_queues: frozenset[str] = frozenset()
    on_beat: Callable[[], None] | None = None
    on_idle: Callable[[], None] | None = None

    @property
    def slots(self) -> int:
        """How many tasks can run at a time, threads that were given up included: more of those are not told about."""
        threads = CHOSEN_THREADS if self.threads is None else self.threads + 1
        return 2 * threads + (CHOSEN_COROUTINES if self.coroutines is None else self.coroutines)
