"""The stand-in: a thread that carries out the loop's steps while the loop's own thread is caught in a task.

When a single worker is enough and tasks are quick, the loop runs them itself, a few milliseconds at a time: handing
them to another thread would cost more than they take. A task that turns out not to be quick must not hold up commits,
marks or a stop. So after `CAUGHT_AFTER` this thread takes over the loop, step by step, until the task has come back.

One of the two carries out steps at any time, never both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ramify.kernel.machine import HERE, Machine
from ramify.kernel.tuning import CAUGHT_AFTER, LOOKS


class StandIn:
    """Watches over the loop's thread. `on_change(True)` is called when it is caught, `on_change(False)` when it is not
    any more, and `on_over` when the loop came to its end without it, with what broke it.
    """

    def __init__(
        self,
        on_change: Callable[[bool], None],
        on_over: Callable[[BaseException | None], None] = lambda failure: None,
        machine: Machine = HERE,
    ) -> None:
        self._on_change = on_change
        self._on_over = on_over
        self._machine = machine
        self._clock = machine.clock
        self._moved = machine.condition(machine.lock())
        self._iterate: Callable[[], bool] = lambda: False
        self._away_since: float | None = None
        self._is_asleep = True
        self._has_taken_over = False
        self._is_over = False
        self._is_closed = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_me(self) -> bool:
        """True if the calling thread is the stand-in."""
        return threading.current_thread() is self._thread

    def go(self, iterate: Callable[[], bool]) -> None:
        """The loop's thread begins to run tasks. `iterate()` is one round of the loop, False when it was the last."""
        self._iterate = iterate
        self._away_since = self._clock()
        if self._is_asleep:
            with self._moved:
                self._is_asleep = False
                if self._thread is None:
                    self._thread = self._machine.thread(self._watch, "ramify-stand-in")
                    self._thread.start()
                self._moved.notify()

    def come_back(self) -> None:
        """The loop's thread is back; it goes on when the stand-in has finished its round. Raises what broke that."""
        self._away_since = None
        if self._has_taken_over:
            with self._moved:
                self._moved.wait_for(lambda: not self._has_taken_over)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Nobody needs to stand in any more."""
        with self._moved:
            self._is_closed = True
            self._moved.notify()
        if self._thread is not None and not self.is_me:
            self._thread.join(timeout=1.0)

    def _watch(self) -> None:
        while self._wait_until_needed():
            try:
                while self._away_since is not None and not self._is_over:
                    self._is_over = not self._iterate()
            except BaseException as error:  # noqa: BLE001 - it is raised again in the loop's own thread
                self._failure, self._is_over = error, True
            self._on_change(False)
            if self._is_over:
                # The loop's thread may never come back to say so: a task hangs in it.
                self._on_over(self._failure)
            with self._moved:
                self._has_taken_over = False
                self._moved.notify_all()

    def _wait_until_needed(self) -> bool:
        looks = 0
        with self._moved:
            while not self._is_closed and not self._is_over:
                since = self._away_since
                if since is not None and self._clock() - since >= CAUGHT_AFTER:
                    # From here on `come_back` waits: what it looks at is set before the first step is taken.
                    self._has_taken_over = True
                    if self._away_since is not None:
                        self._on_change(True)
                        return True
                    self._has_taken_over = False
                    self._moved.notify_all()
                looks = 0 if since is not None else looks + 1
                self._is_asleep = looks > LOOKS
                self._moved.wait(None if self._is_asleep else CAUGHT_AFTER)
                looks = 0 if self._away_since is not None else looks
        return False
