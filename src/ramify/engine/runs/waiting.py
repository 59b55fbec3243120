"""Waiting for a run, or for anything in the store: a thread sleeps on the store until there may be something new to
read, and coroutines share one thread that does.

Promises: what is committed, here or in another process, ends the sleep, also when it came between two sleeps. What
broke the workers of this program is raised to all who wait, because nobody might be left to end the run. However many
threads wait while others commit without pause, their reads take a small share of one core; and however many coroutines
wait, one thread asks for all of them, so that those which event loops lend stay free for the program.

Does not know what is read, or what for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ramify.errors import ConfigError
from ramify.kernel.tuning import DEAF, LONGEST_READ_PAUSE, LONGEST_REST, READ_PAUSE
from ramify.model.policy import Duration, seconds_in

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


class Waiting:
    """One who waits, from before its first read on."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen = runtime.store.wait(0, 0)
        self._pause = 0.0

    def until(self, has_come: Callable[[], bool], timeout: Duration | None) -> bool:
        """Sleep until it has come, at most so long; whether it has."""
        seconds = float("inf") if timeout is None else seconds_in(timeout)
        if seconds is None:
            raise ConfigError(f"timeout={timeout!r}: expected seconds, a timedelta, or None to wait forever.")
        end = time.monotonic() + seconds
        while not self.read(has_come):
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.rest(min(left, LONGEST_REST))
        return True

    def read(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store; the next rest is no shorter than in proportion to how long that took."""
        began = time.monotonic()
        found = ask(*args, **kwargs)
        self._pause = min(READ_PAUSE * (time.monotonic() - began), LONGEST_READ_PAUSE)
        return found

    def rest(self, at_most: float) -> None:
        """Sleep until something may have changed since the last rest, at most so long."""
        end = time.monotonic() + at_most
        time.sleep(min(self._pause, at_most))
        longest = DEAF if current_thread() is main_thread() else at_most
        is_new = False
        while not is_new and (left := end - time.monotonic()) > 0:
            before, self._seen = self._seen, self._runtime.store.wait(min(left, longest), self._seen)
            is_new = self._seen != before
            for workers in tuple(self._runtime.workers):
                workers.check()


class Watcher:
    """The coroutines of this program that wait, and the thread that asks for them while there are any."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._asks: dict[asyncio.Future[Any], Callable[[], Any]] = {}
        self._is_watching = False

    async def until(self, ask: Callable[[], T | None]) -> T:
        """Wait until `ask`, called in another thread, gives something."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            with self._lock:
                self._asks[answer] = ask
                is_asked_at_once = not self._is_watching
                if not self._is_watching:
                    threading.Thread(target=self._watch, name="ramify-watcher", daemon=True).start()
                    # Only now: when no thread could be started, the next one tries it again.
                    self._is_watching = True
            if not is_asked_at_once:
                self._runtime.store.wake()
            return await answer
        finally:
            with self._lock:
                self._asks.pop(answer, None)

    def _watch(self) -> None:
        waiting: Waiting | None = None
        while True:
            with self._lock:
                asks = dict(self._asks)
                if not asks:
                    self._is_watching = False
                    return
            try:
                waiting = waiting or Waiting(self._runtime)
                if not waiting.read(self._ask_all, asks):
                    waiting.rest(LONGEST_REST)
            except BaseException as error:  # noqa: BLE001  it is raised where somebody waits
                for answer in asks:
                    self._tell(answer, None, error)

    def _ask_all(self, asks: dict[asyncio.Future[Any], Callable[[], Any]]) -> bool:
        """Ask for each; whether one of them got what it waits for."""
        any_came = False
        for answer, ask in asks.items():
            try:
                found, error = ask(), None
            except Exception as raised:  # noqa: BLE001  it is raised where somebody waits
                found, error = None, raised
            if found is not None or error is not None:
                any_came = True
                self._tell(answer, found, error)
        return any_came

    def _tell(self, answer: asyncio.Future[Any], found: object, error: BaseException | None) -> None:
        with self._lock:
            self._asks.pop(answer, None)
        # Its loop may be closed by now: then nobody waits any more.
        with suppress(RuntimeError):
            answer.get_loop().call_soon_threadsafe(_settle, answer, found, error)


def _settle(answer: asyncio.Future[Any], found: object, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(found)
    else:
        answer.set_exception(error)
