"""Workers: the threads, the event loop and the loop's own thread, as those see them who have work for them.

Coroutines run on the event loop, other handlers in threads; when one thread is enough and tasks are quick, in that of
the loop, and somebody stands in for it. An event loop that a coroutine blocks when its time is up is left behind, and
another takes its place.

Does not choose what is handed out, nor to how many: the core does.
"""

from __future__ import annotations

from collections.abc import Callable

from ramify.kernel.attempts.attempt import run_chunk
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.attempts.coroutines import Coroutines
from ramify.kernel.attempts.pool import Pool
from ramify.kernel.attempts.stand_in import StandIn
from ramify.kernel.core.work import Chunk, Interrupted, Ran
from ramify.kernel.handover import Handover
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.signals import Replaced, Signals
from ramify.kernel.tuning import CHUNK_SECONDS, LAST_THREADS, MERCY, MERCY_LOOK


class Workers:
    """The workers of one kernel. `on_over` is called when the loop ended while its own thread is caught, with the
    exception that broke it.
    """

    def __init__(
        self,
        handover: Handover,
        attempt_env: AttemptEnv,
        signals: Signals,
        has_async: bool,
        on_over: Callable[[BaseException | None], None],
        machine: Machine = HERE,
    ) -> None:
        self._handover = handover
        self._core = handover.core
        self._attempt_env = attempt_env
        self._signals = signals
        self._machine = machine
        self._clock = machine.clock
        self._is_inline = attempt_env.is_inline
        self._pool = Pool(handover, attempt_env, signals, machine)
        self._stand_in = StandIn(self._caught, on_over, machine)
        self.coroutines = self._event_loop() if has_async else None

    def start(self) -> None:
        """Begin. Threads are started as they are needed."""
        if self.coroutines is not None and not self._is_inline:
            self.coroutines.start()

    def call(self) -> None:
        """Let workers know of what there is to do. Called with the lock held."""
        if self._is_inline:
            return
        self._pool.call()
        if self.coroutines is not None and self._core.leases.ready[True]:
            self.coroutines.poke()

    def mind_cancels(self) -> None:
        """Interrupt coroutines that nobody wants any more; handlers in threads ask for themselves."""
        if self.coroutines is not None:
            self.coroutines.mind_cancels()

    def close(self) -> None:
        """Interrupt what still runs, and let everybody go."""
        if self.coroutines is not None:
            self.coroutines.stop()
            self.coroutines.close_here()
        self._stand_in.close()
        self._pool.close(LAST_THREADS)

    # the loop's own thread

    def run_here(self, iterate: Callable[[], bool]) -> bool:
        """Run tasks in the loop's own thread, if it should do so and there are any. `iterate` is one round of it."""
        if self._is_inline:
            return self._run_inline()
        if self._stand_in.is_me or (chunk := self._lease_here()) is None:
            return False
        self._stand_in.go(iterate)
        end = self._clock() + CHUNK_SECONDS
        try:
            # Chunks may be of one task each, where many lanes have one: too little for a whole turn of the loop.
            while chunk is not None:
                ran = run_chunk(chunk, self._attempt_env)
                with self._handover.core_lock:
                    self._handover.deliver([ran], [chunk])
                    chunk = self._lease_here() if self._clock() < end else None
        finally:
            self._stand_in.come_back()
        return True

    def _lease_here(self) -> Chunk | None:
        with self._handover.core_lock:
            return self._core.lease(False, self._clock()) if self._core.is_calm else None

    def _run_inline(self) -> bool:
        """With no threads, run the next chunk right here; False when there is none."""
        for is_async in (False, True):
            chunk = self._handover.lease(is_async)
            if chunk is not None:
                if is_async and self.coroutines is not None:
                    ran = self.coroutines.run_here(chunk)
                else:
                    ran = run_chunk(chunk, self._attempt_env)
                self._handover.deliver([ran], [chunk])
                return True
        return False

    def _caught(self, caught: bool) -> None:
        """The loop's thread is caught in a task, so others take what is left; or it is back."""
        with self._handover.core_lock:
            self._core.is_caught = caught
            self.call()

    # the event loop

    def mercy(self, chunk: Chunk, now: float) -> float:
        """Seconds for which a coroutine that is out of time is still waited for. Called with the lock held."""
        self._leave_blocked_loop(now)
        left = (chunk.deadline or now) + MERCY - now
        return min(max(left, MERCY_LOOK / 10), MERCY_LOOK) if left > 0 and not chunk.lost else 0.0

    def look_after_strays(self) -> None:
        """See to it that what was left behind on the event loop does not block it. Called with the lock held."""
        if self.coroutines is not None and self.coroutines.has_strays():
            self._leave_blocked_loop(self._clock())

    def _leave_blocked_loop(self, now: float) -> None:
        """If a coroutine that is out of time does not let the event loop turn, go on with another: those beside it
        start over, as the same attempt.
        """
        blocked = self.coroutines
        if blocked is None or self._is_inline or not (guilty := blocked.blockers(now)):
            return
        rans, over, left = blocked.give_up()
        self._handover.take_in(rans, over, now)
        for chunk, positions in left.items():
            if not chunk.lost and chunk not in guilty:
                tasks = [chunk.claim.tasks[position] for position in sorted(positions)]
                self._core.leave_behind(Ran(chunk, others=[(task, Interrupted()) for task in tasks]), now)
        self.coroutines = self._event_loop()
        self.coroutines.start()
        names = ", ".join(str(chunk.claim.tasks[chunk.positions[0]]) for chunk in guilty)
        self._signals.send(Replaced("event loop", f"task {names} ran out of time and lets nothing else run on it"))

    def _event_loop(self) -> Coroutines:
        handover = self._handover
        return Coroutines(
            self._attempt_env, lambda: handover.lease(True), handover.deliver, handover.core_lock, self._machine
        )
