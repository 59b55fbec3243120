"""Sessions of other processes, as locks ask for them: which have ended, and which belong to the dead.

Promises: a session that is said to have ended has ended for good, so no number of it is accepted any more. To ask is
cheap: what has ended is remembered, and the list of processes is not read more often than it takes a share of the time.
"""

from __future__ import annotations

import threading
from collections.abc import Set
from typing import NamedTuple

from ramify.coordination.guest import Guest
from ramify.kernel.machine import HERE
from ramify.kernel.tuning import LOOK_PAUSE, SHORTEST_SESSION_LOOK
from ramify.model.process import Process

_NONE: frozenset[int] = frozenset()


class Gone(NamedTuple):
    """Sessions that have `ended`; the `dead`, which are those and the ones whose process is known to be gone."""

    ended: Set[int] = _NONE
    dead: Set[int] = _NONE


class Sessions:
    """The sessions of one store, seen by one of its guests."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._lock = threading.Lock()
        self._known = Gone()
        self._ended: Set[int] = _NONE
        self._next_look = 0.0

    def gone(self, processes: Set[int], own: int, *, may_reap: bool = False) -> Gone:
        """Return which of these have ended or are dead; `own` is alive. With `may_reap`, the dead are buried first."""
        if not processes - {own} - self._ended:
            return Gone(self._ended & processes, self._ended & processes)
        with self._lock:
            if HERE.clock() >= self._next_look:
                self._look(processes - {own}, may_reap)
            return Gone(self._known.ended & processes, self._known.dead & processes)

    def _look(self, processes: Set[int], may_reap: bool) -> None:
        began = HERE.clock()
        # Read after the state that names them: each of them has entered, so one that is not listed ended long ago.
        found = {each.id: each for each in self._guest.store.reads.processes()}
        if may_reap and any(self._is_to_be_buried(found.get(number)) for number in processes):
            self._guest.reap()
            found = {each.id: each for each in self._guest.store.reads.processes()}
        over = {each.id for each in found.values() if each.reaped}
        self._ended = over | {number for number in processes if number not in found}
        self._known = Gone(
            frozenset(self._ended), self._ended | {each.id for each in found.values() if not each.is_alive}
        )
        took = HERE.clock() - began
        self._next_look = began + max(SHORTEST_SESSION_LOOK, LOOK_PAUSE * took)

    def _is_to_be_buried(self, process: Process | None) -> bool:
        if process is None or process.reaped:
            return False
        return process.beat_age is None or process.beat_age > self._guest.dead_after
