"""A guest: the session of a program that changes values or holds locks and takes no work.

Promises: a verb that returned was applied once. The session is opened for the first verb, says that it lives while it
is used, and ends a few seconds after the last one, or when the engine is closed: so a change costs one commit, and a
program that seldom makes one is no process that others look after. While somebody *keeps* it, for a lock that is held
or waited for, it does not end by itself; whoever declared it dead has ended all that was its own.

A crash leaves a session that the next worker ends, or the next program that waits for one of its locks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ramify.errors import RamifyError, Reaped, StoreUnavailable
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.kernel.tuning import GUEST_PATIENCE, GUEST_STAYS
from ramify.model.process import Stamp
from ramify.store.contract import Store

T = TypeVar("T")


class Guest:
    """The sessions of one client of a store, one after the other."""

    def __init__(self, store: Store, machine: Machine = HERE, settings: Settings | None = None) -> None:
        self.store = store
        self._machine = machine
        self._settings = Settings() if settings is None else settings
        self._changed = machine.lock()
        #: Ends the pause between two signs of life.
        self._over = machine.event()
        self._sender: Sender | None = None
        self._used = 0.0
        self._kept = 0

    def send(self, verb: Callable[[Stamp], T]) -> T:
        """Send a verb until it is answered; StoreUnavailable if the store is away for long."""
        sent = 0

        def counted(stamp: Stamp) -> T:
            nonlocal sent
            sent += 1
            return verb(stamp)

        with self._changed:
            while True:
                try:
                    return self._send(self._entered(), counted)
                except Reaped:
                    # This program stood still, and was declared dead meanwhile.
                    if sent > 1:
                        raise StoreUnavailable(
                            f"{self.store.describe().location}: the store did not answer, and what was sent may be "
                            "there or not. Read it, and try again"
                        ) from None
                    sent = 0

    def send_as(self, process: int, verb: Callable[[Stamp], T]) -> T:
        """Send a verb as that session, and no other; Reaped if it has ended, and nothing of the verb counts then."""
        with self._changed:
            return self._send(self.check_lives_as(process), verb)

    def check_lives_as(self, process: int) -> Sender:
        """Raise Reaped if that session is known to have ended; asks nobody."""
        sender = self._sender
        if sender is None or sender.process != process:
            raise Reaped(f"process {process:x} has ended; enter again as a new one")
        return sender

    def keep(self) -> None:
        """Let the session last until `let_go` was called as often."""
        with self._changed:
            self._kept += 1

    def let_go(self) -> None:
        """Somebody who kept the session needs it no more."""
        with self._changed:
            self._kept -= 1
            self._used = self._machine.clock()

    def enter(self) -> int:
        """Return the number of the session that lives now, and begin one if none does."""
        with self._changed:
            self._used = self._machine.clock()
            return self._entered().process

    def is_alive(self, process: int) -> bool:
        """Say that a session lives, and return whether the store agrees; waits for no verb of it."""
        sender = self._sender
        if sender is None or sender.process != process:
            return False
        if self.store.beat(process).reaped:
            self._is_over(process)
            return False
        return True

    def reap(self) -> None:
        """Bury dead processes, as far as the store lets this session judge them; Reaped if it has ended itself."""
        process = self.enter()
        try:
            self.store.reap(process, self._settings.dead_after)
        except Reaped:
            self._is_over(process)
            raise

    @property
    def dead_after(self) -> float:
        """Seconds without a beat after which a process counts as dead."""
        return self._settings.dead_after

    def close(self) -> None:
        """End the session, if there is one."""
        with self._changed:
            self._leave()
            self._over.set()

    def _send(self, sender: Sender, verb: Callable[[Stamp], T]) -> T:
        sender.until = self._machine.clock() + GUEST_PATIENCE
        try:
            return sender.send(verb)
        except Reaped:
            self._sender = None
            raise
        finally:
            self._used = self._machine.clock()

    def _entered(self) -> Sender:
        if self._sender is None:
            made = Sender(self.store, self._settings, Signals(), threading.Event(), (), self._machine)
            made.until = self._machine.clock() + GUEST_PATIENCE
            made.enter()
            self._sender = made
            self._over = over = self._machine.event()
            self._machine.thread(lambda: self._stay(made, over), "ramify-guest").start()
        return self._sender

    def _stay(self, sender: Sender, over: threading.Event) -> None:
        """Say that a session lives while it is used or kept, also while a verb takes long, and end it then."""
        while self._sender is sender:
            if self._is_idle():
                with self._changed:
                    if self._sender is sender and self._is_idle():
                        self._leave()
                        return
            with suppress(RamifyError):
                self.is_alive(sender.process)
            over.wait(self._settings.beat_every)

    def _is_over(self, process: int) -> None:
        with self._changed:
            if self._sender is not None and self._sender.process == process:
                self._sender = None

    def _is_idle(self) -> bool:
        return not self._kept and self._machine.clock() - self._used > GUEST_STAYS

    def _leave(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            # CRASH: a session that did not end -> the next worker ends it, or who waits for a lock that it held.
            with suppress(RamifyError):
                self.store.leave(sender.process)
