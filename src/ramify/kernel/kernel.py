"""The kernel: the core, the loop, the workers and the heartbeat of one process, put together.

Give it a store, a table of handlers and a library, and it works until it is told to stop, or until the runs it was
given have ended. It emits signals and never logs. Nothing of it survives the process; everything that matters is in
the store.

Here the parts are made, each with those it needs; none of them knows the kernel.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Mapping, MutableMapping

from ramify.errors import RamifyError
from ramify.kernel.attempts.attempt_env import AttemptEnv, Library
from ramify.kernel.attempts.current import current_or_none
from ramify.kernel.attempts.notes import Notes, capturing
from ramify.kernel.attempts.workers import Workers
from ramify.kernel.core.adapt import Change
from ramify.kernel.core.core import Core
from ramify.kernel.core.handler import Handler
from ramify.kernel.core.work import Chunk
from ramify.kernel.handover import Handover
from ramify.kernel.heartbeat import Heartbeat
from ramify.kernel.loop import Loop
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.account import Account
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Adapted, Drained, Signals
from ramify.kernel.tuning import DEAF, LAST_WORDS
from ramify.model.run import RunState
from ramify.store.contract import Beat, Store
from ramify.store.record import Record


class Kernel:
    """One process at work. `machine` is what it runs on, `on_raise` hears what handlers raise; for tests.

    `on_shut` is called when it is over, however that comes, perhaps more than once.
    """

    def __init__(
        self,
        store: Store,
        handlers: MutableMapping[str, Handler],
        library: Library,
        settings: Settings | None = None,
        signals: Signals | None = None,
        *,
        machine: Machine = HERE,
        on_raise: Callable[[BaseException], None] = lambda error: None,
        on_shut: Callable[[], None] = lambda: None,
    ) -> None:
        self._machine = machine
        self._on_shut = on_shut
        self.settings = settings if settings is not None else Settings()
        self.signals = signals if signals is not None else Signals()
        self._give_up = machine.event()
        self._is_over = machine.event()
        self._handlers = handlers
        kinds = None if self.settings.learns else handlers
        self.sender = Sender(store, self.settings, self.signals, self._give_up, kinds, machine)
        self.core = core = Core(handlers, self.settings, machine.chance, self._changed, machine.cpu, self._mercy)
        self._handover = Handover(core, self.sender, machine)
        self._record = Record(self.settings.slots)
        self._attempt_env = AttemptEnv(
            self.sender, library, Notes(self.settings.log_lines), core.cancelled_runs, core.cancelled_tasks,
            self._record, on_raise, core.holdings, core.start_fence, machine.clock, machine.busy,
            self.settings.threads == 0,
        )  # fmt: skip
        has_async = any(handler.calling.is_async for handler in handlers.values())
        self.workers = Workers(self._handover, self._attempt_env, self.signals, has_async, self._end, machine)
        self._heartbeat = Heartbeat(self.sender, self.settings, self.signals, self._hear, self._feel, machine)
        self._account = Account(self.signals, machine)
        self._loop = Loop(
            self._handover, self.workers, self.sender, self._heartbeat, self._attempt_env, self.settings, self.signals,
            self._account, self.stop, machine,
        )  # fmt: skip
        #: Whether somebody asked this process, by way of the store, to finish and leave.
        self.is_drained = False
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    # what others call

    def run(self) -> None:
        """Work in the calling thread until stopped, or until the awaited runs have ended; raises what broke it."""
        try:
            chosen = self.settings
            with capturing(self._attempt_env.notes, current_or_none, chosen.log_level, chosen.log_to):
                self.workers.start()
                self._loop.run()
        finally:
            self._shut()
            if not self._loop.is_over:
                self._let_go()

    def start(self) -> None:
        """The same in a thread of its own; `join` raises what broke it."""
        self._thread = self._machine.thread(self._main, "ramify-loop")
        self._thread.start()

    def stop(self, grace: float | None = None) -> None:
        """Start nothing more, finish what runs within the grace period, save, leave. Returns at once.

        Asked again with a shorter `grace`, it waits for less: with 0, what has not finished is left to others.
        """
        self._record.stopping()
        with self._handover.core_lock:
            now = self._machine.clock()
            # A store that does not answer is waited for no longer than a task that does not end. A verb is sent once
            # whatever the time, so what finishes at the last moment is saved if the store is there.
            grace = self.settings.grace if grace is None else grace
            self.sender.until = min(self.sender.until, now + grace - min(LAST_WORDS, grace / 2))
            self.core.stop(now, grace)
            self._handover.wake()

    def finish(self) -> None:
        """Take nothing more, and stop once all that is held is done, however long that takes. Returns at once."""
        with self._handover.core_lock:
            self.core.claim_policy.is_over = True
            self._handover.wake()

    def learn(self, kind: str, handler: Handler) -> None:
        """Take tasks of one more kind from now on: a plain function without limits. `handlers` knows it as well."""
        with self._handover.core_lock:
            self._handlers[kind] = handler
            self.core.claim_policy.learn([kind])
            self._handover.wake()

    def abandon(self) -> None:
        """Stop waiting for a store that does not answer."""
        self._give_up.set()
        self.stop()

    @property
    def ended(self) -> Mapping[int, RunState]:
        """As what those of the awaited runs ended that have."""
        return self.core.watch.ended

    @property
    def running(self) -> list[int]:
        """The tasks that run at this moment."""
        return self._record.running

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is over; False when it is not by then."""
        left = math.inf if timeout is None else timeout
        # Never for long: a signal that comes just before its thread begins to wait, or that the system gives to another
        # thread, is heard when the wait is over.
        while self._thread is not None and not self._is_over.wait(min(left, DEAF)):
            left -= DEAF
            if left <= 0:
                return False
        if self._failure is not None:
            raise self._failure
        return True

    # what its parts say

    def _hear(self, beat: Beat, sent: float, process: int) -> None:
        self._account.tell()
        with self._handover.core_lock:
            # An answer to a beat of an earlier incarnation says nothing about this one.
            if process != self.sender.process or not self.core.is_in:
                return
            self.core.heard(beat, sent)
            self.workers.look_after_strays()
            self._handover.wake()
        if beat.draining and not self.is_drained:
            self.is_drained = True
            self.signals.send(Drained(process))
            self.stop()
        if beat.marks:
            self.workers.mind_cancels()

    def _feel(self, scarce: bool) -> None:
        self.core.claim_policy.scarce = scarce

    def _mercy(self, chunk: Chunk, now: float) -> float:
        return self.workers.mercy(chunk, now)

    def _changed(self, of: str, change: Change) -> None:
        self.signals.send(Adapted(of, change.before, change.now, change.why))

    # the end

    def _main(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody waits for it
            self._failure = error
        finally:
            self._is_over.set()

    def _end(self, failure: BaseException | None) -> None:
        """The loop came to its end, or broke, while its own thread is caught in a task, and may be for ever."""
        self._failure = failure
        self._shut()
        self._is_over.set()

    def _let_go(self) -> None:
        """The loop broke, and this process may live on: what it held is offered to others at once, without blame."""
        if self.core.is_in:
            with contextlib.suppress(RamifyError):
                self.sender.store.leave(self.sender.process)

    def _shut(self) -> None:
        self._give_up.set()
        with self._handover.core_lock:
            # Also when it was the loop that broke: workers that come back must find nothing more to do.
            self.core.stop(self._machine.clock())
        self._heartbeat.stop()
        self._on_shut()
        self.workers.close()
        self._record.end()
