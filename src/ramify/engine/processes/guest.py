"""A guest: the session of a program that changes values and takes no work, for verbs that carry a number.

Promises: a verb that returned was applied once. The session is opened for the first verb, says that it lives while it
is used, and ends a few seconds after the last one, or when the engine is closed: so a change costs one commit, and a
program that seldom makes one is no process that others look after.

A crash leaves a session that the next worker ends; it holds nothing.
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

    def __init__(self, store: Store, machine: Machine = HERE) -> None:
        self._store = store
        self._machine = machine
        self._changed = machine.condition(machine.lock())
        self._sender: Sender | None = None
        self._used = 0.0

    def send(self, verb: Callable[[Stamp], T]) -> T:
        """Send a verb until it is answered; StoreUnavailable if the store is away for long."""
        sent = 0

        def counted(stamp: Stamp) -> T:
            nonlocal sent
            sent += 1
            return verb(stamp)

        with self._changed:
            while True:
                sender = self._entered()
                sender.until = self._machine.clock() + GUEST_PATIENCE
                try:
                    return sender.send(counted)
                except Reaped:
                    # This program stood still, and was declared dead meanwhile.
                    self._sender = None
                    if sent > 1:
                        raise StoreUnavailable(
                            f"{self._store.describe().location}: the store did not answer, and what was sent may be "
                            "there or not. Read it, and try again"
                        ) from None
                    sent = 0
                finally:
                    self._used = self._machine.clock()

    def close(self) -> None:
        """End the session, if there is one."""
        with self._changed:
            self._leave()
            self._changed.notify_all()

    def _entered(self) -> Sender:
        if self._sender is None:
            made = Sender(self._store, Settings(), Signals(), threading.Event(), (), self._machine)
            made.until = self._machine.clock() + GUEST_PATIENCE
            made.enter()
            self._sender = made
            self._machine.thread(lambda: self._stay(made), "ramify-guest").start()
        return self._sender

    def _stay(self, sender: Sender) -> None:
        """Say that a session lives while it is used, and end it then."""
        pause = Settings().beat_every
        with self._changed:
            while self._sender is sender:
                if self._machine.clock() - self._used > GUEST_STAYS:
                    self._leave()
                    return
                with suppress(RamifyError):
                    if self._store.beat(sender.process).reaped:
                        self._sender = None
                self._changed.wait(pause)

    def _leave(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            # CRASH: a session that did not end -> the next worker ends it, and blames nobody: it holds nothing.
            with suppress(RamifyError):
                self._store.leave(sender.process)
