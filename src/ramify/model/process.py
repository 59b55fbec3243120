"""Processes: who works, how a store knows it lives, and the stamps that make its verbs safe to send again.

A process is one incarnation with a random 63-bit id; the same program started twice is two processes. Its *session*
outlives it in the store, so that a verb delivered late still meets its number.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import msgspec

from ramify.model.decision import Said

COUNTER_SLOTS = 16


class Stamp(NamedTuple):
    """The number of a writing verb: applied once, or refused, however often it is delivered."""

    process: int
    n: int


def new_process_id() -> int:
    """A fresh incarnation. Random, so that no restart can be mistaken for its predecessor."""
    return secrets.randbits(62) + 1


def new_token() -> bytes:
    """A fresh fence. Random and never reused, so a claim lost in a crash is only wasted work."""
    return secrets.token_bytes(16)


def counter_slot(process: int) -> int:
    """Which of a counter's slots a process adds to, so that no counter row is hot."""
    return process % COUNTER_SLOTS


class NewProcess(msgspec.Struct, frozen=True):
    """The description that a process gives of itself when it enters.

    `kinds` it knows and `queues` it serves are for people who ask why a task waits; None means that it did not say
    (kinds), or that it serves all of them (queues). Claims are decided by `Want` alone. `parent` is the number the
    operating system gave to whoever looks after it and buries it. `boot` and `pids` name the boot of its machine and
    the space of process ids it lives in: only a process of the same two can tell by a number whether it is there, for
    hosts may share a name.
    """

    id: int
    pid: int = 0
    host: str = ""
    version: str = ""
    parent: int | None = None
    kinds: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    boot: str = ""
    pids: str = ""


class Away(msgspec.Struct, frozen=True):
    """A store that cannot be written, for one process: for how many seconds, and why."""

    seconds: float
    why: str


class Process(msgspec.Struct, frozen=True):
    """A process as people see it. `beat_age` is the age of its last beat, None when it is known to be dead, and
    `writing` for how long it has held the store's only lock for writing, if it does.

    Both are in seconds, and so is `away`: the store counts them by its own clock, because the monotonic time of a
    process means nothing on another machine. Stores that cannot tell them leave them out. `draining` says who asked it
    to finish and leave, and why. `durability` is what its commits survive, where a store has a choice of that.
    """

    id: int
    pid: int
    host: str
    entered: int
    beat_age: float | None
    reaped: bool
    last: int
    kinds: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    version: str = ""
    writing: float | None = None
    away: Away | None = None
    boot: str = ""
    pids: str = ""
    draining: Said | None = None
    parent: int | None = None
    durability: str = ""

    @property
    def is_alive(self) -> bool:
        """True if it may still be at work: not reaped, and its store does not know it to be dead."""
        return not self.reaped and self.beat_age is not None


class Reap(msgspec.Struct, frozen=True):
    """The work of a reaper: the processes it buried, the tasks it offered again, and whether it was allowed to look."""

    processes: tuple[int, ...] = ()
    tasks: int = 0
    clean_window: bool = True
