"""The obstacles of living processes that want to write: who holds the lock for writing, and for whom the store is away.

SQLite has one lock for writing. A process that is frozen while it holds it (a debugger, SIGSTOP, a paused container)
keeps everybody waiting until it goes on or is killed; no other process can take the lock away from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ramify.model.process import Process

#: Seconds after which a write is no ordinary one.
LONG_WRITE = 5.0


class HeldUp(msgspec.Struct, frozen=True):
    """One process that keeps others from writing or cannot write itself: for how long, in words, and what to do."""

    pid: int
    seconds: float
    text: str
    advice: str


def held_up(processes: Iterable[Process]) -> Iterator[HeldUp]:
    """Yield what is in the way of living processes at this moment."""
    for process in processes:
        if not process.is_alive:
            continue
        if process.writing is not None and process.writing > LONG_WRITE:
            held = f"{process.writing:,.0f} s"
            text = f"pid {process.pid} has held the lock for writing for {held}, and everybody waits for it"
            yield HeldUp(process.pid, process.writing, text, "if it is frozen, let it continue (kill -CONT) or kill it")
        if (away := process.away) is not None:
            text = f"pid {process.pid} has not been able to write for {away.seconds:,.0f} s: {away.why}"
            yield HeldUp(process.pid, away.seconds, text, "its work waits and continues by itself")
