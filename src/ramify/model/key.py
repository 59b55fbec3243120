"""Keys: what a task may be called, and for how long nobody else may be called the same.

The key's digest, not its text, is what stores index: 128 bits, with the scope hashed in, so that one table serves
every hold. The text itself stays with the task. A digest is never turned back into a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b

from ramify.model.event import Status


class Hold(IntEnum):
    """How long a key excludes others. The numbers are stored; never reuse one.

    LABEL   never: a name to find, group and join on.
    ONCE    for ever, within its run and kind.
    UNIQUE  while the task is unfinished, and for `keep` after success; across runs, per kind.
    JOB     while queued, running or done (until the result expires); a failed or cancelled job frees it; per kind.
    """

    LABEL = 0
    ONCE = 1
    UNIQUE = 2
    JOB = 3


def kept_until(hold: Hold, keep: int, status: Status, now: int) -> int | None:
    """Until when the key of a task that ended is taken: `now` if it is free at once, None for good."""
    if status is not Status.DONE or (hold is Hold.UNIQUE and not keep):
        return now
    return now + keep if keep else None


def key_bytes(key: str) -> bytes:
    """The stored form of a key. File names may hold lone surrogates, so they must pass."""
    return key.encode("utf-8", "surrogatepass")


def key_text(key: bytes | None) -> str | None:
    """A stored key as the text it was given as."""
    return None if key is None else key.decode("utf-8", "surrogatepass")


def digests(hold: Hold, run: int, kind: str, keys: Iterable[bytes]) -> list[bytes]:
    """The 16 bytes by which each key is found: scoped to (run, kind) for labels and ONCE, to the kind for the rest."""
    scope = b"%d/%d" % (hold, run) if hold in (Hold.LABEL, Hold.ONCE) else b"%d/" % hold
    prefix = b"%b/%b\0" % (scope, kind.encode())
    return [blake2b(prefix + key, digest_size=16).digest() for key in keys]


def digest(hold: Hold, run: int, kind: str, key: bytes) -> bytes:
    """The 16 bytes by which one key is found."""
    return digests(hold, run, kind, [key])[0]
