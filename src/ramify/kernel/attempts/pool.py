"""The pool: worker threads that take chunks from the core and bring back what came of them.

Threads are started as they are needed and wait in line for work. A thread that died, or that hangs in a task whose time
is up, is replaced; the one that hangs cannot be ended and is no longer counted.
"""

from __future__ import annotations

import threading

from ramify.kernel.attempts.attempt import run_chunk
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.core.work import Chunk, Interrupted, Ran
from ramify.kernel.faults import reach
from ramify.kernel.handover import Handover
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.signals import Replaced, Signals


class Pool:
    """Threads."""

    def __init__(self, handover: Handover, attempt_env: AttemptEnv, signals: Signals, machine: Machine = HERE) -> None:
        self._handover = handover
        self._core = handover.core
        self._work = handover.work
        self._attempt_env = attempt_env
        self._signals = signals
        self._machine = machine
        self._clock = machine.clock
        self._threads: dict[threading.Thread, None] = {}
        self._idle = 0
        self._given_up = 0
        self._is_closing = False

    def call(self) -> None:
        """Wake threads for what there is to do, and start more if there are too few. Called with the lock held."""
        leases = self._core.leases
        waiting = leases.ready[False]
        if not waiting or self._core.is_calm:
            return
        lost, self._given_up = self._core.lost_threads - self._given_up, self._core.lost_threads
        if lost > 0:
            self._signals.send(Replaced("thread", "its task ran out of time"))
        room = leases.adapters[False].target - leases.chunks[False]
        if room <= 0:
            return
        wanted = min(waiting, room)
        self._work.notify(min(wanted, self._idle))
        for _ in range(wanted - self._idle):
            self._start()

    def close(self, seconds: float) -> None:
        """Let threads that are idle end, and wait for the others as long as told. Called without the lock."""
        with self._work:
            self._is_closing = True
            self._work.notify_all()
        end = self._clock() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, end - self._clock()))

    def _start(self) -> None:
        # Its first round counts as idle, so that two calls in a row do not start twice as many.
        self._idle += 1
        thread = self._machine.thread(self._main, "ramify-worker")
        self._threads[thread] = None
        thread.start()

    def _main(self) -> None:
        try:
            self._serve()
        finally:
            del self._threads[threading.current_thread()]

    def _serve(self) -> None:
        chunk = self._next(None, None, first=True)
        while chunk is not None:
            try:
                reach("leased")
                ran = run_chunk(chunk, self._attempt_env)
            except BaseException as error:
                # Not the handler's doing: give everything back, end this thread, and let another take its place.
                with self._work:
                    lost = Ran(
                        chunk, others=[(chunk.claim.tasks[position], Interrupted()) for position in chunk.positions]
                    )
                    self._core.finished(lost, self._clock())
                    self._core.came_back(chunk)
                    self._signals.send(Replaced("thread", f"it died of {type(error).__name__}"))
                    self._handover.wake()
                raise
            chunk = self._next(ran, chunk)

    def _next(self, ran: Ran | None, chunk: Chunk | None, first: bool = False) -> Chunk | None:
        """Hand over what came of a chunk, and wait for the next; None when this thread is not needed any more."""
        core = self._core
        with self._work:
            if first:
                self._idle -= 1
            if ran is not None and chunk is not None:
                lost = chunk.lost
                core.finished(ran, self._clock())
                core.came_back(chunk)
                if lost:
                    return None
                if core.needs_step():
                    self._handover.wake()
            while core.is_calm or (leased := core.lease(False, self._clock())) is None:
                if self._is_closing:
                    return None
                if core.needs_step():
                    self._handover.wake()
                self._idle += 1
                try:
                    self._work.wait()
                finally:
                    self._idle -= 1
            return leased
