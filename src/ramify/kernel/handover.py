"""The hand-over: the core behind one lock, where workers take chunks and bring back what came of them.

The loop, the workers and the heartbeat meet here. Each side has one way to be woken: the loop by `wake`, wherever
it rests; threads by `call`, the event loop by what it is told (`Coroutines.poke`).

Does not decide anything: that is the core's business.
"""

from __future__ import annotations

from ramify.kernel.core.core import Core
from ramify.kernel.core.work import Chunk, Ran
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.sender import Sender


class Handover:
    """`core_lock` is the lock of the core as the loop waits on it, `work` the same lock as threads do."""

    def __init__(self, core: Core, sender: Sender, machine: Machine = HERE) -> None:
        self.core = core
        self._sender = sender
        self._clock = machine.clock
        # Reentrant: a listener that hears a signal under it may stop the kernel.
        lock = machine.lock()
        self.core_lock = machine.condition(lock)
        self.work = machine.condition(lock)
        self._is_idle = False
        self._seen = 0

    def lease(self, is_async: bool) -> Chunk | None:
        """Tasks for one worker, or None; the loop hears of it when it has to bring more."""
        with self.core_lock:
            chunk = self.core.lease(is_async, self._clock())
            if chunk is None and self.core.needs_step():
                self.wake()
            return chunk

    def deliver(self, rans: list[Ran], over: list[Chunk]) -> None:
        """A worker brings outcomes, and is done with some chunks."""
        now = self._clock()
        with self.core_lock:
            self.take_in(rans, over, now)
            if self.core.needs_step():
                self.wake()

    def take_in(self, rans: list[Ran], over: list[Chunk], now: float) -> None:
        """The same for who has the lock; nobody is woken."""
        for ran in rans:
            self.core.finished(ran, now)
        for chunk in over:
            self.core.came_back(chunk)

    def rest(self, seconds: float, idle: bool) -> None:
        """The loop has nothing to do: it waits for a worker, or, when nothing is held, for the store to change."""
        with self.core_lock:
            if not idle:
                self.core_lock.wait_for(self.core.needs_step, seconds)
                return
            if self._must_act():
                return
            self._is_idle = True
        before, news = self._seen, None
        try:
            news = self._seen = self._sender.until_answered(lambda: self._sender.store.wait(seconds, before))
        finally:
            with self.core_lock:
                self._is_idle = False
                self.core.stirred(changed=news != before)

    def wake(self) -> None:
        """Let the loop look again, wherever it rests. Called with the lock held."""
        self.core_lock.notify_all()
        if self._is_idle and self._must_act():
            self._sender.store.wake()

    def _must_act(self) -> bool:
        """Return whether there is something to do for a loop that holds nothing: all else is told by the store."""
        return self.core.is_stopping or not self.core.is_in
