"""The watcher: coroutines that wait for something in the store share one thread.

Promises: however many wait, one thread sleeps on the store and asks for all of them, so that the threads which event
loops lend stay free for the program. A coroutine that comes is asked for at once. What broke the workers of this
program is raised to all who wait, because nobody might be left to end it.

Does not know what is asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ramify.engine.runs.waiting import Waiting
from ramify.kernel.tuning import LONGEST_REST

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime

T = TypeVar("T")


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
