"""The kernel: the core, the loop, the workers and the heartbeat of one process, put together.

Give it a store, a table of handlers and a library, and it works until it is told to stop, or until the runs it was
given have ended. It emits signals and never logs. Nothing of it survives the process; everything that matters is in
the store.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping

from ramify.errors import RamifyError
from ramify.kernel.adapt import Change
from ramify.kernel.attempt import run_chunk
from ramify.kernel.core import Core
from ramify.kernel.coroutines import Coroutines
from ramify.kernel.current import current_or_none
from ramify.kernel.faults import reach
from ramify.kernel.handler import Handler
from ramify.kernel.heartbeat import Heartbeat
from ramify.kernel.loop import Loop
from ramify.kernel.notes import Notes, capturing
from ramify.kernel.pool import Pool
from ramify.kernel.session import Session
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Adapted, Drained, Replaced, Signals
from ramify.kernel.sizes import CHUNK_SECONDS
from ramify.kernel.stand_in import StandIn
from ramify.kernel.work import Chunk, Interrupted, Ran
from ramify.kernel.workplace import Library, Workplace
from ramify.store.contract import Beat, Store
from ramify.store.record import Record

#: Seconds beyond the grace period that a stopping kernel waits for its store.
LAST_CHANCE = 5.0
#: How long a coroutine that was cancelled because its time is up may clean up, and how often it is looked at.
MERCY, LOOK_EVERY = 0.5, 0.1


class Kernel:
    """One process at work. `clock` is the time by which it waits, `on_raise` hears what handlers raise; for tests."""

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        library: Library,
        settings: Settings | None = None,
        signals: Signals | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_raise: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self.clock = clock
        self.settings = settings if settings is not None else Settings()
        self.signals = signals if signals is not None else Signals()
        self.library = library
        self._give_up = threading.Event()
        self._is_over = threading.Event()
        self.session = Session(store, self.settings, self.signals, self._give_up, handlers, clock)
        self.core = Core(handlers, self.settings, random.random, self._changed, time.process_time, self._mercy)
        # Reentrant: a listener that hears a signal under it may stop the kernel.
        lock = threading.RLock()
        self.turn = threading.Condition(lock)
        self._work = threading.Condition(lock)
        self.notes = Notes(self.settings.log_lines)
        core = self.core
        cancelled = core.cancelled_runs, core.cancelled_tasks
        self._record = Record(self.settings.slots)
        workplace = Workplace(
            self.session, library, self.notes, *cancelled, self._record, on_raise, core.holdings, core.pulse, clock
        )
        self._workplace = workplace
        self._pool = Pool(core, self.turn, self._work, workplace, self.signals, clock)
        self._has_async = any(handler.colour.is_async for handler in handlers.values())
        self.coroutines = self._event_loop() if self._has_async else None
        self._heartbeat: Heartbeat | None = None
        self._is_inline = self.settings.threads == 0
        self._loop = Loop(self)
        self._stand_in = StandIn(self._loop.turn, self._caught)
        #: Whether somebody asked this process, by way of the store, to finish and leave.
        self.is_drained = False
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._patience: threading.Timer | None = None

    # what others call

    def run(self) -> None:
        """Work in the calling thread until stopped, or until the awaited runs have ended; raises what broke it."""
        try:
            with capturing(self.notes, current_or_none, self.settings.log_level):
                if self.coroutines is not None and not self._is_inline:
                    self.coroutines.start()
                self._loop.run()
        finally:
            self._shut()
            if not self._loop.is_over:
                self._let_go()

    def start(self) -> None:
        """The same in a thread of its own; `join` raises what broke it."""
        self._thread = threading.Thread(target=self._main, name="ramify-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Start nothing more, finish what runs within the grace period, save, leave. Returns at once."""
        self._record.stopping()
        with self.turn:
            is_first = not self.core.is_stopping
            self.core.stop(self.clock())
            self.turn.notify_all()
        if is_first:
            # A store that does not answer is waited for no longer than a task that does not end.
            self._patience = threading.Timer(self.settings.grace + LAST_CHANCE, self._give_up.set)
            self._patience.daemon = True
            self._patience.start()
        self.session.store.wake()

    def abandon(self) -> None:
        """Stop waiting for a store that does not answer."""
        self._give_up.set()
        self.stop()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is over; False when it is not by then."""
        if self._thread is not None and not self._is_over.wait(timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    # what the loop calls

    def entered(self) -> None:
        """A session was opened: keep its record, and beat for it."""
        self._record.begin(self.session.store.records, self.session.process)
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self.session, self.settings, self.signals, self._hear, self._feel, self.clock)
            self._heartbeat.start()

    def call_workers(self) -> None:
        """Let workers know of what there is to do. Called with the lock held."""
        if self._is_inline:
            return
        self._pool.call()
        if self.coroutines is not None and self.core.leases.ready[True]:
            self.coroutines.poke()

    def raise_trouble(self) -> None:
        """Raise what the heartbeat could not deal with."""
        if self._heartbeat is not None and self._heartbeat.trouble is not None:
            raise self._heartbeat.trouble

    def rest(self, seconds: float, idle: bool) -> None:
        """Nothing to do for the loop: it runs quick tasks itself, or waits for a worker or for the store."""
        if self._run_here():
            return
        if self.settings.until_idle:
            self.stop()
        elif idle:
            self.session.until_answered(lambda: self.session.store.wait(seconds))
            with self.turn:
                self.core.stirred()
        else:
            with self.turn:
                self.turn.wait_for(self.core.needs_step, seconds)

    def _run_here(self) -> bool:
        """Run quick tasks for a moment in the loop's own thread, if it should do so and there are any."""
        if self._is_inline:
            return self._run_inline()
        if self._stand_in.is_me or (chunk := self._lease_here()) is None:
            return False
        self._stand_in.go()
        end = self.clock() + CHUNK_SECONDS
        try:
            # Chunks may be of one task each, where many lanes have one: too little for a whole turn of the loop.
            while chunk is not None:
                ran = run_chunk(chunk, self._workplace)
                with self.turn:
                    self._deliver([ran], [chunk])
                    chunk = self._lease_here() if self.clock() < end else None
        finally:
            self._stand_in.come_back()
        return True

    def _lease_here(self) -> Chunk | None:
        with self.turn:
            return self.core.lease(False, self.clock()) if self.core.is_calm else None

    def _run_inline(self) -> bool:
        """With no threads, run the next chunk right here; False when there is none."""
        for colour in (False, True):
            with self.turn:
                chunk = self.core.lease(colour, self.clock())
            if chunk is not None:
                if colour and self.coroutines is not None:
                    ran = self.coroutines.run_here(chunk)
                else:
                    ran = run_chunk(chunk, self._workplace)
                self._deliver([ran], [chunk])
                return True
        return False

    def write_notes(self, all_of_them: bool = False) -> None:
        """Write log lines that wait; they are worth little, so trouble with them is not waited out."""
        lines = self.notes.rest() if all_of_them else self.notes.due(self.clock())
        if lines and self.session.process:
            reach("before-note")
            try:
                self.session.store.note(self.session.process, lines)
            except RamifyError:
                return

    # what workers and the heartbeat call

    def _lease_async(self) -> Chunk | None:
        with self.turn:
            chunk = self.core.lease(True, self.clock())
            if chunk is None and self.core.needs_step():
                self.turn.notify()
            return chunk

    def _deliver(self, rans: list[Ran], over: list[Chunk]) -> None:
        now = self.clock()
        with self.turn:
            self._take_in(rans, over, now)
            if self.core.needs_step():
                self.turn.notify()

    def _take_in(self, rans: list[Ran], over: list[Chunk], now: float) -> None:
        for ran in rans:
            self.core.finished(ran, now)
        for chunk in over:
            self.core.came_back(chunk)

    def _hear(self, beat: Beat, sent: float, process: int) -> None:
        with self.turn:
            # An answer to a beat of an earlier incarnation says nothing about this one.
            if process != self.session.process or not self.core.is_in:
                return
            self.core.heard(beat, sent)
            if self.coroutines is not None and self.coroutines.has_strays():
                self._leave_blocked_loop(self.clock())
            self.turn.notify()
        if beat.draining and not self.is_drained:
            self.is_drained = True
            self.signals.send(Drained(process))
            self.stop()
        if self.coroutines is not None and not self._is_inline and beat.marks:
            self.coroutines.mind_cancels()

    def _mercy(self, chunk: Chunk, now: float) -> float:
        """Seconds for which a coroutine that is out of time is still waited for. Called with the lock held."""
        self._leave_blocked_loop(now)
        left = (chunk.deadline or now) + MERCY - now
        return min(max(left, LOOK_EVERY / 10), LOOK_EVERY) if left > 0 and not chunk.lost else 0.0

    def _leave_blocked_loop(self, now: float) -> None:
        """If a coroutine that is out of time does not let the event loop turn, go on with another: those beside it
        start over, as the same attempt. Called with the lock held.
        """
        blocked = self.coroutines
        if blocked is None or self._is_inline or not (guilty := blocked.blockers(now)):
            return
        rans, over, left = blocked.give_up()
        self._take_in(rans, over, now)
        for chunk, places in left.items():
            if not chunk.lost and chunk not in guilty:
                tasks = [chunk.claim.tasks[place] for place in sorted(places)]
                self.core.leave_behind(Ran(chunk, others=[(task, Interrupted()) for task in tasks]), now)
        self.coroutines = self._event_loop()
        self.coroutines.start()
        names = ", ".join(str(chunk.claim.tasks[chunk.places[0]]) for chunk in guilty)
        self.signals.send(Replaced("event loop", f"task {names} ran out of time and lets nothing else run on it"))

    def _event_loop(self) -> Coroutines:
        return Coroutines(self._workplace, self._lease_async, self._deliver, self.turn)

    def _feel(self, scarce: bool) -> None:
        self.core.appetite.scarce = scarce

    def _caught(self, caught: bool) -> None:
        """The loop's thread is caught in a task, so workers take the others; or it is back."""
        with self.turn:
            self.core.is_caught = caught
            self.call_workers()
        if self._loop.is_over:
            # Everything is saved, but the loop's thread may never come back to say so: a task hangs in it.
            self._shut()
            self._is_over.set()

    def _changed(self, of: str, change: Change) -> None:
        self.signals.send(Adapted(of, change.before, change.now, change.why))

    def _main(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody waits for it
            self._failure = error
        finally:
            self._is_over.set()

    def _let_go(self) -> None:
        """The loop broke, and this process may live on: what it held is offered to others at once, without blame."""
        if self.core.is_in:
            with contextlib.suppress(RamifyError):
                self.session.store.leave(self.session.process)

    def _shut(self) -> None:
        self._give_up.set()
        if self._patience is not None:
            self._patience.cancel()
        with self.turn:
            # Also when it was the loop that broke: workers that come back must find nothing more to do.
            self.core.stop(self.clock())
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self.coroutines is not None:
            self.coroutines.stop()
            self.coroutines.close_here()
        self._stand_in.close()
        self._pool.close(patience=0.5)
        self._record.end()
