"""The heartbeat: a thread of its own that says "alive", hears what the store says back, and buries the dead.

It never waits for the loop, so a long commit or a slow handler does not make a live process look dead. A beat counts
from the moment it was sent. Trouble with the store is not its business: it beats again a moment later, and a process
that is not heard of for too long stops leasing by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from ramify.errors import Reaped, StoreError, StoreUnavailable
from ramify.kernel.faults import reach
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Buried, Signals
from ramify.kernel.tuning import REAP_EVERY
from ramify.store.contract import Beat


class Heartbeat:
    """One thread. `hear(beat, sent)` is called with each answer, `on_scarce(bool)` with each look at the memory."""

    def __init__(
        self,
        sender: Sender,
        settings: Settings,
        signals: Signals,
        hear: Callable[[Beat, float, int], None],
        on_scarce: Callable[[bool], None],
        machine: Machine = HERE,
    ) -> None:
        self._sender = sender
        self._settings = settings
        self._signals = signals
        self._hear = hear
        self._on_scarce = on_scarce
        self._machine = machine
        self._over = machine.event()
        self._thread = machine.thread(self._run, "ramify-heartbeat")
        self._has_begun = False
        self.trouble: BaseException | None = None

    def start(self) -> None:
        """Begin, if it has not yet."""
        if not self._has_begun:
            self._has_begun = True
            self._thread.start()

    def raise_trouble(self) -> None:
        """Raise what it could not deal with."""
        if self.trouble is not None:
            raise self.trouble

    def stop(self) -> None:
        """End, and wait for it."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=self._settings.dead_after)

    def _run(self) -> None:
        try:
            self._go_on()
        except BaseException as trouble:  # noqa: BLE001 - the loop raises it; a heart that stopped silently would hang all
            self.trouble = trouble

    def _go_on(self) -> None:
        for beats in count():
            if self._settings.on_beat is not None:
                self._settings.on_beat()
            # To enter was the first beat, and the loop made the first look for the dead.
            if beats:
                self.beat()
                if beats % REAP_EVERY == 0:
                    self.reap()
            self._on_scarce(self._machine.is_scarce())
            if self._over.wait(self._settings.beat_every):
                return

    def beat(self) -> None:
        """One beat."""
        process, sent = self._sender.process, self._machine.clock()
        reach("before-beat")
        try:
            answer = self._sender.store.beat(process)
        except StoreUnavailable:
            return
        except StoreError as trouble:
            self.trouble = trouble
            return
        self._sender.heard(answer, sent)
        reach("after-beat")
        self._hear(answer, sent, process)

    def reap(self) -> None:
        """One look for dead processes."""
        reach("before-reap")
        try:
            found = self._sender.store.reap(self._sender.process, self._settings.dead_after)
        except (StoreError, Reaped):
            return
        reach("after-reap")
        if found.processes:
            self._signals.send(Buried(found.processes, found.tasks))
