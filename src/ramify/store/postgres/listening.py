"""Hearing of commits: a connection that listens for those who wait.

Whoever commits something that others may want bumps the store's pulse and notifies, after the commit. A notification is
a hint, and is sent at most every `QUIET` seconds by one client, because all of them wait for one lock at their commit;
the pulse is read behind it, about once a second, so that nothing is missed for longer.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ramify.errors import StoreUnavailable
from ramify.store.postgres.link import ServerLink
from ramify.store.postgres.pipe import Asked, Lost, Pipe

T = TypeVar("T")

QUIET = 0.02
#: How often the pulse is read when nobody notifies.
OFTEN = 1.0
_ENOUGH = 65_536


class Listening:
    """The connection of one store that listens, and what it says to others."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._channel = f"ramify_{link.schema}"
        self._pipe: Pipe | None = None
        self._told_at = float("-inf")

    def tell(self) -> list[Asked]:
        """Return what tells others that something was committed."""
        bump = "SELECT nextval('@pulse')"
        now = time.monotonic()
        if not self._link.notifies or now - self._told_at < QUIET:
            return [(bump, ())]
        self._told_at = now
        return [("SELECT nextval('@pulse'), pg_notify($1::text, '')", (self._channel,))]

    def changed(self) -> int:
        """A token that differs when something was committed."""
        pipe = self._opened()
        return self._using(
            lambda: int(pipe.trip([(self._link.at("SELECT last_value + is_called::int FROM @pulse"), ())])[0][0][0])
        )

    def sensor(self) -> PgSensor:
        """The ear of whoever listens."""
        return PgSensor(self)

    def socket(self) -> int:
        """The connection to listen to."""
        return self._opened().socket

    def heard(self) -> None:
        """Take what has arrived."""
        pipe = self._opened()
        self._using(pipe.notified)

    def close(self) -> None:
        """Let go of the connection."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()

    def _opened(self) -> Pipe:
        if self._pipe is None:
            pipe = self._using(self._link.another)
            if self._link.notifies:
                self._using(lambda: pipe.trip([(f'LISTEN "{self._channel}"', ())]))
            self._pipe = pipe
        return self._pipe

    def _using(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except Lost as error:
            self.close()
            raise StoreUnavailable(f"{self._link.place}: {error}; try again") from error


class PgSensor:
    """An ear for notifications, and for calls of other threads."""

    hears_writes = True

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._in, self._out = os.pipe()
        for end in (self._in, self._out):
            os.set_blocking(end, False)

    def listen(self, seconds: float) -> bool:
        """Sleep for so long, or until there is something to hear; whether there was."""
        poll, socket = select.poll(), self._listening.socket()
        for end in (self._in, socket):
            poll.register(end, select.POLLIN)
        heard = [end for end, _ in poll.poll(max(0.0, seconds) * 1000)]
        if socket in heard:
            self._listening.heard()
        if self._in in heard:
            with suppress(BlockingIOError):
                os.read(self._in, _ENOUGH)
        return bool(heard)

    def call(self) -> None:
        """Make whoever listens return, or the next one who does."""
        with suppress(BlockingIOError):
            os.write(self._out, b"!")

    def close(self) -> None:
        """Give everything back."""
        for end in (self._in, self._out):
            os.close(end)
        self._listening.close()
