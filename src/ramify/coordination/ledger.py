"""The ledger of locks: their states as values of the store, read and changed by swaps of one session.

Promises: a change is made to the state that it was decided on, or not at all; whoever changes a state takes out the
dead and grants to those in line in the same swap. A free lock that nobody changes costs nothing, and its value expires.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ramify.coordination.guest import Guest
from ramify.coordination.host import Reserve
from ramify.coordination.sessions import Sessions
from ramify.kernel.machine import HERE
from ramify.kernel.tuning import LONGEST_TRY_PAUSE, TRY_PAUSE
from ramify.model.lock import FENCES, LOCKS, LockState, decode, encode
from ramify.model.value import Swap

#: States that are remembered as they were read last.
_READ_KEPT = 256
#: From the state as it is, without the dead, to the one that somebody wants; the same for no change.
Change = Callable[[LockState, int], LockState]


class Found(NamedTuple):
    """The state of a lock, and its version; 0 for a lock without a value."""

    version: int
    state: LockState


class Ledger:
    """The states of all locks of one store, changed by the sessions of one guest."""

    def __init__(self, guest: Guest, reserve_ids: Reserve) -> None:
        self.guest = guest
        self._store = guest.store
        self._reserve_ids = reserve_ids
        self._sessions = Sessions(guest)
        #: The state that was read last of each name, so that many who wait decode it once.
        self._read: dict[str, Found] = {}

    def read(self, name: str) -> Found:
        """Return the state of a lock as it is stored."""
        found = self._store.reads.value(LOCKS, name)
        if found is None or not found.is_live(self._store.now()):
            return Found(0, LockState())
        known = self._read.get(name)
        if known is None or known.version != found.version:
            known = Found(found.version, decode(found.value))
            if len(self._read) >= _READ_KEPT:
                self._read.clear()
            self._read[name] = known
        return known

    def change(
        self, name: str, process: int, wanted: Change, *, may_reap: bool = False, is_sure: bool = True
    ) -> LockState:
        """Make a change as one session, until nobody else changes the state meanwhile; the state by then.

        Reaped if the session has ended: then nothing that it holds or waits for counts. With `may_reap`, processes that
        are dead and hold the lock, or wait for it, are buried first. Unless it `is_sure` that every verb before was
        answered, it does not believe a read: a verb that is under way still comes too late after this one.
        """
        tries = 0
        while True:
            self.guest.check_lives_as(process)
            version, state = self.read(name)
            now = self._store.now()
            gone = self._sessions.gone(state.processes, process, may_reap=may_reap)
            after = wanted(state.without(*gone, now), now)
            if after is state:
                if is_sure or self._still_stands(name, process, version):
                    return state
                continue
            if not version:
                # A value without fences first: those that it gets are reserved when it is there, and go with it.
                self._swap(name, process, 0, LockState(), now)
                continue
            if not after.has_fences():
                after = after.numbered(self._reserve_ids(FENCES, younger=0), FENCES)
            after = after.granted(now)
            if self._swap(name, process, version, after, now):
                return after
            # Longer and longer, by chance: of many who do this at once, a few come at a time.
            time.sleep(HERE.chance() * min(TRY_PAUSE * tries, LONGEST_TRY_PAUSE))
            tries += 1

    def _still_stands(self, name: str, process: int, version: int) -> bool:
        look = Swap(LOCKS, name, version, 0)
        return self.guest.send_as(process, lambda stamp: self._store.swap(stamp, [look]))

    def _swap(self, name: str, process: int, version: int, state: LockState, now: int) -> bool:
        swap = Swap(LOCKS, name, version, self._reserve_ids(1), encode(state), state.kept_until(now))
        is_made = self.guest.send_as(process, lambda stamp: self._store.swap(stamp, [swap]))
        if is_made:
            self._read[name] = Found(swap.version, state)
        return is_made
