"""A bid: one acquisition of a lock, from the moment it asks until it has left, in the words of the ledger.

Promises: each step may be made again, whatever became of the one before. After `leave` nothing of it is left in the
store: neither a waiter nor a grant that nobody knows of. While it is there, the session of its process lives on.

Steps of one bid come one after the other; they block for a commit at most. Waiting between them is the caller's.
"""

from __future__ import annotations

import os

from ramify.coordination.ledger import Ledger
from ramify.errors import Reaped
from ramify.kernel.attempts.current import current_or_none
from ramify.kernel.tuning import LOCK_LOOK, LONGEST_LOCK_LOOK
from ramify.model.lock import Acquisition, LockState
from ramify.model.policy import SECOND
from ramify.model.process import new_process_id
from ramify.store import here

_DEAD = "its process was silent for too long and was declared dead, or its engine was closed"


class Bid:
    """One acquisition of the lock `name`, of which at most `most` hold it at once; it ends `ttl` after its grant."""

    def __init__(self, ledger: Ledger, name: str, most: int, ttl: int | None) -> None:
        self.name, self.most = name, most
        self._ledger, self._ttl = ledger, ttl
        self.id = new_process_id()
        attempt = current_or_none()
        self._task = (None, "") if attempt is None else (attempt.task, attempt.kind)
        #: The session that asked; None when nothing was asked yet.
        self._process: int | None = None
        self._is_kept = False
        #: Whether the last thing that it sent was answered.
        self._is_sure = True
        #: The state as this bid saw it last.
        self.state = LockState()
        #: What was granted to it.
        self.granted: Acquisition | None = None

    def ask(self, *, waits: bool = True) -> bool:
        """Join the queue if it is not there, take out the dead, and return whether the lock was granted.

        Without `waits` it joins only if it is granted at once.
        """
        while True:
            process = self._enter()

            def asked(state: LockState, now: int, process: int = process) -> LockState:
                new = self._acquisition(process, now)
                after = state.asked(new)
                return after if waits or after.is_next(new.id) else state

            self._is_sure = False
            try:
                # CRASH: a waiter or a holder of a session that ends -> whoever changes the lock next takes it out.
                self.state = self._ledger.change(self.name, process, asked, may_reap=True)
            except Reaped:
                # What this process waited for as an earlier session is void: it was declared dead.
                continue
            self._is_sure = True
            self.granted = self.state.holder(self.id)
            return self.granted is not None

    def is_news(self) -> bool:
        """Read the lock, and return whether there is anything to ask for: it was granted, or may join the line."""
        self.state = state = self._ledger.read(self.name).state
        return state.holder(self.id) is not None or (state.place(self.id) is None and state.has_room())

    @property
    def place(self) -> int:
        """How many wait before it, by the state that it saw last."""
        return self.state.place(self.id) or 0

    def look_after(self) -> float:
        """Seconds after which it should ask again though nothing was heard: somebody may have died, or expired."""
        look = min(LOCK_LOOK * (1 + self.place), LONGEST_LOCK_LOOK)
        if (end := self.state.ends_at) is not None:
            look = min(look, max(0.0, (end - self._ledger.guest.store.now()) / SECOND))
        return look

    def why_not(self) -> str:
        """Return why the lock is not held, though it was granted; empty while it is held."""
        granted, guest = self.granted, self._ledger.guest
        if granted is None or not guest.is_alive(granted.process):
            return _DEAD
        self.state = self._ledger.read(self.name).state
        return self._lost(self.state, guest.store.now())

    def leave(self) -> str:
        """Leave the lock or its queue; why it had been lost before, or nothing."""
        why = ""

        def gone(state: LockState, now: int) -> LockState:
            nonlocal why
            why = self._lost(state, now)
            return state.left(self.id)

        if self._process is not None:
            try:
                self.state = self._ledger.change(self.name, self._process, gone, is_sure=self._is_sure)
            except Reaped:
                why = self.why_not()
            self._process = None
        if self._is_kept:
            self._is_kept = False
            self._ledger.guest.let_go()
        return why if self.granted is not None else ""

    def withdraw(self) -> bool:
        """Leave the queue, unless the lock was granted by now; whether it was."""
        process = self._process
        if process is None:
            return False
        try:
            self.state = self._ledger.change(
                self.name, process, lambda state, _: state if state.holder(self.id) else state.left(self.id)
            )
        except Reaped:
            return False
        self.granted = self.state.holder(self.id)
        return self.granted is not None

    def _enter(self) -> int:
        guest = self._ledger.guest
        if not self._is_kept:
            guest.keep()
            self._is_kept = True
        # Before anything is sent: whoever is interrupted then leaves what may be there.
        self._process = guest.enter()
        return self._process

    def _acquisition(self, process: int, now: int) -> Acquisition:
        task, kind = self._task
        return Acquisition(self.id, process, os.getpid(), here.host(), now, self.most, self._ttl, task, kind).cut()

    def _lost(self, state: LockState, now: int) -> str:
        """Why it does not hold the lock by this state; empty if it does."""
        granted = self.granted
        if granted is None:
            return "it was never granted"
        if granted.is_over(now):
            return f"its ttl of {(granted.ttl or 0) / SECOND:g} s was up"
        if state.holder(self.id) is not None:
            return ""
        if (said := state.unlocked) is not None and granted.fence <= said.fence and said.at >= granted.since:
            return f"{said.by} unlocked it" + (f": {said.reason}" if said.reason else "")
        return _DEAD
