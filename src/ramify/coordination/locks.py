"""The locks of one engine: who of this program holds which, and the thread in which its coroutines ask.

Promises: a thread or a coroutine that would wait for itself is told so. The steps of coroutines run in one thread of
their own, one after the other, so that no loop waits for a commit, and threads that loops lend stay free. What could
not be taken back, because the store was away, is taken back as soon as it answers.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from traceback import clear_frames
from typing import Any, TypeVar

from ramify.coordination.bid import Bid
from ramify.coordination.held import Held
from ramify.coordination.host import Host
from ramify.coordination.ledger import Ledger
from ramify.coordination.naming import in_words
from ramify.errors import ConfigError, LockReentered, LockTimeout, StoreUnavailable
from ramify.kernel.machine import HERE
from ramify.kernel.tuning import DEAF, LONGEST_READ_PAUSE, LONGEST_RESEND, LONGEST_REST, READ_PAUSE
from ramify.store import forks

T = TypeVar("T")
#: A thread, or the task of a coroutine; None for a coroutine that outlived its loop. None that comes later is taken for
#: one of them, and none is kept alive by what it holds.
Doer = weakref.ref[threading.Thread] | weakref.ref[asyncio.Task[Any]] | None


class Locks:
    """All that the locks of one engine have in common."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._begin()
        forks.register(self)

    def orphan(self) -> None:
        """In a forked child: it holds nothing, and the thread of its parent's coroutines is not there."""
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        #: What each thread or coroutine has acquired of a name, and has not released.
        self._held: dict[tuple[str, Doer], list[Bid]] = {}
        self._ledger: Ledger | None = None
        self._steps: ThreadPoolExecutor | None = None

    # acquiring

    def acquire(self, name: str, most: int, ttl: int | None, wait: float) -> Held:
        """Acquire a lock, waiting for so many seconds."""
        refuse_on_loop(name)
        doer = this_thread()
        self._refuse_reentry(name, most, doer, waits=wait > 0)
        bid = self._bid(name, most, ttl)
        end = HERE.clock() + wait
        try:
            seen = self._host.store.wait(0, 0) if wait > 0 else 0
            while not bid.ask(waits=wait > 0):
                if HERE.clock() >= end:
                    if bid.withdraw():
                        break
                    raise _timeout(bid, wait, self._host.store.now())
                seen = self._rest(bid, seen, end)
            return self._taken(bid, doer)
        except BaseException as error:
            # Ctrl-C strikes anywhere: whatever is there of the bid goes, also if it was just granted.
            self._give_up(bid, error)
            raise

    async def acquire_async(self, name: str, most: int, ttl: int | None, wait: float) -> Held:
        """Acquire a lock in a coroutine."""
        doer = this_coroutine()
        await self.aside(lambda: self._refuse_reentry(name, most, doer, waits=wait > 0))
        bid = self._bid(name, most, ttl)
        end = HERE.clock() + wait
        try:
            while not await self.aside(lambda: bid.ask(waits=wait > 0)):
                left = end - HERE.clock()
                if left <= 0:
                    if await self.aside(bid.withdraw):
                        break
                    raise _timeout(bid, wait, self._host.store.now())
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, bid.look_after())):
                        await self._host.watcher.until(lambda: bid.is_news() or None)
            return self._taken(bid, doer)
        except BaseException:
            # Cancelled, perhaps: what is under way in the thread comes to its end there, and then this.
            await asyncio.shield(asyncio.wrap_future(self._submit(lambda: self._give_up(bid))))
            raise

    def _rest(self, bid: Bid, seen: int, end: float) -> int:
        """Sleep until there is news for a bid, or it should look; what there was to see by then."""
        clock = HERE.clock
        until = min(end, clock() + bid.look_after())
        longest = DEAF if threading.current_thread() is threading.main_thread() else LONGEST_REST
        while True:
            began = clock()
            if bid.is_news() or began >= until:
                return seen
            # In proportion to what a read takes, and to those before it: a store may change without pause.
            line = 1 + bid.place
            time.sleep(min(line * READ_PAUSE * (clock() - began), LONGEST_READ_PAUSE))
            before = seen
            while seen == before and (left := until - clock()) > 0:
                seen = self._host.store.wait(min(left, longest), seen)

    def _refuse_reentry(self, name: str, most: int, doer: Doer, *, waits: bool) -> None:
        """Refuse to let a thread or a coroutine wait for itself. A lock that it has lost, it does not hold."""
        self._host.guest  # noqa: B018  a coroutine opens the store here, where that blocks no loop
        held = [bid for bid in self._held.get((name, doer), ()) if not bid.why_not()]
        with self._lock:
            self._held.pop((name, doer), None)
            if held:
                self._held[name, doer] = held
        if len(held) >= min((most, *(bid.most for bid in held if waits))):
            who = "coroutine" if doer and isinstance(doer(), asyncio.Task) else "thread"
            raise LockReentered(
                f"lock({name!r}): this {who} holds it already, and would wait for itself: locks are not re-entrant. "
                "Acquire it once, at the outermost place."
            )

    def _bid(self, name: str, most: int, ttl: int | None) -> Bid:
        with self._lock:
            guest = self._host.guest
            if self._ledger is None or self._ledger.guest is not guest:
                self._ledger = Ledger(guest, self._host.reserve_ids)
            return Bid(self._ledger, name, most, ttl)

    def _taken(self, bid: Bid, doer: Doer) -> Held:
        held = Held(self, bid, doer)
        with self._lock:
            self._held.setdefault((bid.name, doer), []).append(bid)
        return held

    # leaving

    def let_go(self, bid: Bid, doer: Doer) -> str:
        """Release what a bid holds; why it had been lost, or nothing."""
        try:
            return bid.leave()
        except BaseException as error:
            self._give_up(bid, error)
            raise
        finally:
            with self._lock:
                left = [each for each in self._held.pop((bid.name, doer), ()) if each is not bid]
                if left:
                    self._held[bid.name, doer] = left

    async def let_go_async(self, bid: Bid, doer: Doer) -> str:
        """Do `let_go` in a coroutine. It happens also if the coroutine is cancelled, or its loop has ended."""
        # Sent off before anything is awaited: a loop that ends cancels all of its tasks, also one that is shielded.
        leaving = self._submit(lambda: self.let_go(bid, doer))
        return await asyncio.shield(asyncio.wrap_future(leaving)) if runs_loop() else ""

    def _give_up(self, bid: Bid, error: BaseException | None = None) -> None:
        """Let nothing of a bid be left after an error, now or as soon as the store answers."""
        if error is not None:
            # A transaction that Ctrl-C struck as it ended lasts for as long as the error remembers it.
            clear_frames(error.__traceback__)
        try:
            bid.leave()
        except StoreUnavailable:
            # Not in the thread of coroutines, which others need, and which a program that ends waits for.
            HERE.thread(lambda: self._leave_later(bid), "ramify-lock-release").start()

    def _leave_later(self, bid: Bid) -> None:
        while True:
            try:
                bid.leave()
                return
            except StoreUnavailable:
                time.sleep(LONGEST_RESEND)

    # the thread of coroutines

    async def aside(self, step: Callable[[], T]) -> T:
        """Make a step in the thread of coroutines, unless its turn comes when nobody waits for it any more."""
        return await asyncio.wrap_future(self._submit(step))

    def _submit(self, step: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._steps is None:
                self._steps = ThreadPoolExecutor(1, "ramify-locks")
            return self._steps.submit(step)

    def close(self) -> None:
        """Let the thread of coroutines end, when it has made its steps."""
        with self._lock:
            if self._steps is not None:
                self._steps.shutdown(wait=False)
                self._steps = None


def runs_loop() -> bool:
    """Return whether an event loop runs in this thread: not where a coroutine is thrown away whose loop has ended."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def this_thread() -> Doer:
    """The thread that runs."""
    return weakref.ref(threading.current_thread())


def this_coroutine() -> Doer:
    """The coroutine that runs; None in one that is thrown away when its loop has ended."""
    task = asyncio.current_task() if runs_loop() else None
    return None if task is None else weakref.ref(task)


def refuse_on_loop(name: str) -> None:
    """Refuse to block a thread in which an event loop runs."""
    if not runs_loop():
        return
    raise ConfigError(
        f"lock({name!r}): `with` and `try_acquire` would block the event loop. Write "
        f"`async with engine.lock({name!r}):` or `await lock.atry_acquire()`."
    )


def _timeout(bid: Bid, wait: float, now: int) -> LockTimeout:
    holders = bid.state.holders
    said = "; ".join(in_words(each, now) for each in holders) or "others, one after the other"
    return LockTimeout(
        f"lock({bid.name!r}): not free{f' within {wait:g} s' if wait > 0 else ''}. Held by {said}. Give more time with "
        "wait=, or see `ramify locks`.",
        bid.name,
        holders,
    )
