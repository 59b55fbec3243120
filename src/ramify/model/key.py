"""Keys: what a task may be called, and for how long nobody else may be called the same.

The key's digest, not its text, is what stores index: its scope (the run), then a hash of hold, scope, kind and text, so
that one table serves every hold and the keys of a run are one range of it. The hash is a SHA-256 cut to 128 bits, the
same on every store: keys come from outside, and two that collide would be one task, so finding such a pair on purpose
must cost 2^64 tries. The text itself stays with the task. A digest is never turned back into a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from hashlib import sha256

from ramify.model.event import Status

#: Bytes of the hash at the end of a digest.
HASH = 16
#: A time by which every key has expired that ever will.
AFTER_ALL = 2**62


class Hold(IntEnum):
    """How long a key excludes others. The numbers are stored; never reuse one.

    LABEL   never: a name to find, group and join on.
    ONCE    for ever, within its run and kind.
    UNIQUE  while the task is unfinished, and for `keep` after success; across runs and queues of jobs, per kind.
    """

    LABEL = 0
    ONCE = 1
    UNIQUE = 2


def kept_until(keep: int, status: Status, now: int) -> int:
    """Until when the UNIQUE key of a task that ended is taken: `now` if it is free at once."""
    return now + keep if status is Status.DONE else now


def looked_at(now: int, *, again: bool) -> int:
    """The time by which it is judged whether a key is taken: for who comes `again`, one when all that is kept is over.

    So a task that has ended is replaced, and one that has not never is.
    """
    return AFTER_ALL if again else now


def key_bytes(key: str) -> bytes:
    """The stored form of a key. File names may hold lone surrogates, so they must pass."""
    return key.encode("utf-8", "surrogatepass")


def key_text(key: bytes | None) -> str | None:
    """A stored key as the text it was given as."""
    return None if key is None else key.decode("utf-8", "surrogatepass")


def scope(hold: Hold, run: int) -> bytes:
    """Return what the digests of a run's labels and ONCE keys begin with; keys that exclude across runs are under run
    0.

    The length comes first, so no scope is the beginning of another, and few bytes do for most runs.
    """
    number = run if hold in (Hold.LABEL, Hold.ONCE) else 0
    width = (number.bit_length() + 7) // 8
    return bytes((width,)) + number.to_bytes(width, "big")


def end_of(scope: bytes) -> bytes:
    """Return what comes after every digest of this scope, and before those of the next."""
    return scope + b"\xff" * (HASH + 1)


def digests(hold: Hold, run: int, kind: str, keys: Iterable[bytes]) -> list[bytes]:
    """The bytes by which each key is found: scoped to (run, kind) for labels and ONCE, to the kind for the rest."""
    begin = scope(hold, run)
    salted = sha256(b"%d/%b/%b\0" % (hold, begin, kind.encode())).copy
    found: list[bytes] = []
    for key in keys:
        hashed = salted()
        hashed.update(key)
        found.append(begin + hashed.digest()[:HASH])
    return found


def digest(hold: Hold, run: int, kind: str, key: bytes) -> bytes:
    """The bytes by which one key is found."""
    return digests(hold, run, kind, [key])[0]
