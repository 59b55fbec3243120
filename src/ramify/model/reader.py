"""Readers of topics, as they are stored: named places in topics. Pure.

A reader is declared by a program, for a topic or for a pattern of topics. Its place in each of them is a *cursor*: the
number of the last publication that it has handled. All of them are values of the store, in spaces of their own, so that
a cursor moves by a swap, together with the tasks that were made of what it passed.

    nobody declared the reader before    -> it begins where its program says, else at the end of its topics
    a pattern meets a topic later        -> the cursor of that topic begins before its first publication
    a program is deployed without it     -> the reader stays, and its lag grows, until a person removes it

Does not know how values are read or written.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from ramify.errors import BadPayload
from ramify.model.decoder import decoder
from ramify.model.task import MAX_NAME, check_name
from ramify.model.value import RESERVED

#: The spaces of readers, of their cursors, and of the last tasks of their keys among the values of a store.
READERS, CURSORS, LATEST = f"{RESERVED}readers", f"{RESERVED}cursors", f"{RESERVED}latest"
#: How a reader is called in errors.
A_READER = "the name of a reader"
#: The longest name of a topic or reader: both together name a cursor.
LONGEST = MAX_NAME // 2 - 4
_WILD = frozenset("*?[")


class StoredReader(msgspec.Struct, frozen=True):
    """A reader of one topic, or of all that match a pattern, with the program that declared it last.

    `kind` is the task that handles each publication; None for one that a program reads by hand. `began` is the time at
    which it was declared first.
    """

    source: str
    kind: str | None = None
    ordered: bool = False
    by: str = ""
    at: int = 0
    began: int = 0


read_reader = decoder(StoredReader).decode
_read_number, _read_names = decoder(int).decode, decoder(tuple[str, str]).decode


def write(value: StoredReader | int) -> bytes:
    """Return a reader, or the number of a cursor as bytes."""
    return msgspec.json.encode(value)


def read_number(raw: bytes) -> int:
    """Return the number of a cursor."""
    return _read_number(raw)


def cursor_name(reader: str, topic: str) -> str:
    """Return the name of the cursor of a reader in a topic. Those of one reader lie together: see `cursors_of`."""
    return msgspec.json.encode([reader, topic]).decode()


def cursors_of(reader: str) -> str:
    """Return what the names of all cursors of a reader begin with, and of no other."""
    return f"{msgspec.json.encode([reader]).decode()[:-1]},"


def cursor_of(name: str) -> tuple[str, str]:
    """Return the reader and the topic of a cursor."""
    return _read_names(name.encode())


def is_pattern(source: str) -> bool:
    """Return whether a reader of this source may read several topics."""
    return not _WILD.isdisjoint(source)


def matches(source: str, topic: str) -> bool:
    """Return whether a reader of this source reads a topic: `orders.*` is `orders.eu` and not `orders.eu.north`.

    Patterns match segment by segment, and topics that stores publish themselves only by their whole names.
    """
    if not is_pattern(source):
        return source == topic
    parts, segments = source.split("."), topic.split(".")
    same = len(parts) == len(segments) and not topic.startswith(RESERVED)
    return same and all(fnmatchcase(segment, part) for part, segment in zip(parts, segments, strict=True))


def check_short(what: str, name: object) -> str:
    """Refuse a name of a topic or reader that is too long for the name of a cursor, or that no store can keep."""
    checked = check_name(what, name)
    if len(msgspec.json.encode(checked)) > LONGEST:
        raise BadPayload(f"{what} may take {LONGEST} bytes, and {checked[:20]!r}… takes more. Choose a shorter one")
    return checked
