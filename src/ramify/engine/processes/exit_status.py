"""The exit status: what a parent knows about the end of its child, and others do not.

Its exit status tells a process that died of its own doing (it ended itself, or a fatal signal did) from one that
somebody killed. A plain SIGKILL is no evidence, unless the kernel of the machine ran out of memory at that time. Which
tasks the child was running is read from its record.

It decides nothing: the store does, when the child is buried.
"""

from __future__ import annotations

import signal
from pathlib import Path

from ramify.kernel.core.pressure import out_of_memory_kills
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.store.record import death_of, excuse, overdue

#: Signals that a process brings on itself.
OWN_DOING = frozenset(getattr(signal, name) for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGSYS"))
#: How far beyond its time limit a task must be before its process is killed for it, in seconds.
OVERDUE_AFTER = 1.0


class ExitStatus:
    """The known end of one child. `records` is where its record lies."""

    def __init__(self, records: Path | None) -> None:
        self._records = records
        self._kills = out_of_memory_kills()
        self._killed = False
        self._late: int | None = None

    def beat(self) -> None:
        """It lives."""
        self._kills = out_of_memory_kills()

    def was_killed(self) -> None:
        """We kill it."""
        self._killed = True

    def excuse(self, process: int | None) -> None:
        """It is about to be ended because the whole program is."""
        if self._records is not None and process is not None:
            excuse(self._records, process)

    def find_late(self, process: int) -> int | None:
        """A task over whose time limit it must be killed, which is then what it died of."""
        if self._records is not None:
            self._late = overdue(self._records, process, OVERDUE_AFTER)
        return self._late

    def is_out_of_memory(self, code: int) -> bool:
        """Return whether it was killed because the machine, or its share of it, ran out of memory."""
        kills = out_of_memory_kills()
        is_ours = self._killed or self._late is not None
        return code == -signal.SIGKILL and not is_ours and self._kills is not None and (kills or 0) > self._kills

    def death(self, process: int, code: int) -> Death:
        """How it died; `code` is its exit status, or minus the signal that ended it."""
        if self._records is None:
            return NOBODYS_FAULT
        own = code >= 0 or -code in OWN_DOING or self.is_out_of_memory(code)
        death = death_of(self._records, process, evidence=own)
        if self._late is None:
            return death
        ran = {task: most for task, most in death.ran.items() if task != self._late}
        return Death(ran, late=frozenset({self._late}))
