"""A lock that is held: its fence, whether it is still held, and the way to release it.

Promises: it is released once, by whoever holds this value, in whatever thread. A lock that was lost raises `LockLost`
when it is checked and when it is released, and is never released for those who hold it by then. In a forked child it is
not held: the parent holds it.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from ramify.coordination.bid import Bid
from ramify.errors import LockLost
from ramify.store import forks

if TYPE_CHECKING:
    from ramify.coordination.locks import Doer, Locks


class Held:
    """A lock that this program holds: `with engine.lock("report") as held:`."""

    def __init__(self, locks: Locks, bid: Bid, doer: Doer) -> None:
        self._locks, self._bid, self._doer = locks, bid, doer
        self._depth = forks.depth
        self._is_released = False

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._bid.name

    @property
    def fence(self) -> int:
        """A number that rises with every grant of this name, so that other systems can refuse who comes too late."""
        granted = self._bid.granted
        return 0 if granted is None else granted.fence

    def check(self) -> None:
        """Raise LockLost unless the lock is held at this moment."""
        if why := self._why_not():
            raise self._lost(why)

    def release(self) -> None:
        """Release the lock; LockLost if it had been lost. Released again, nothing happens."""
        if self._begin_release() and (why := self._locks.let_go(self._bid, self._doer)):
            raise self._lost(why)

    async def arelease(self) -> None:
        """Do `release` in a coroutine, without blocking the event loop."""
        if self._begin_release() and (why := await self._locks.let_go_async(self._bid, self._doer)):
            raise self._lost(why)

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LockLost as lost:
            _raise_unless(error, lost)

    async def __aenter__(self) -> Held:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.arelease()
        except LockLost as lost:
            _raise_unless(error, lost)

    def _begin_release(self) -> bool:
        if self._is_released or self._depth != forks.depth:
            return False
        self._is_released = True
        return True

    def _why_not(self) -> str:
        if self._depth != forks.depth:
            return "the process that this one was forked from holds it"
        return "it was released" if self._is_released else self._bid.why_not()

    def _lost(self, why: str) -> LockLost:
        return LockLost(
            f"lock({self.name!r}): lost under fence {self.fence}: {why}. Others may hold it by now; late "
            "work is refused where its fence is compared."
        )


def _raise_unless(error: BaseException | None, lost: LockLost) -> None:
    """Raise that a lock was lost, unless something was raised already: then that says so."""
    if error is None:
        raise lost from None
    if error is not lost:
        error.add_note(str(lost))
