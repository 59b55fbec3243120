"""Values of a topic as bytes, and publications as programs see them.

Promises: the bytes of a value come back equal, by the type of the topic; anything else is refused where it is
published. A task that handles a publication gets the bytes as they were published, and reads them by its own
annotation, so that one version of a program may publish for another.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from ramify.errors import BadPayload, ConfigError
from ramify.model.codec.escape import MARK, unescaped
from ramify.model.codec.proofs import holds, proofs_of
from ramify.model.codec.refusal import cause_of, explain, in_words
from ramify.model.codec.wire import TooLarge, Wire, encoder, write
from ramify.model.topic import MAX_PUBLICATION, StoredPublication

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Published(msgspec.Struct, Generic[T], frozen=True):
    """A publication: number `number` of its topic, published at `at`. A handler that asks for it gets all of this."""

    topic: str
    number: int
    key: str | None
    value: T
    at: datetime


class TopicCodec(Generic[T]):
    """The type of a topic's values, and how they are written and read."""

    __slots__ = ("_proofs", "_wire", "of", "topic")

    def __init__(self, topic: str, of: Any) -> None:
        self.topic, self.of = topic, of
        try:
            self._wire = Wire(of)
        except TypeError as error:
            raise ConfigError(f"topic({topic!r}, {of!r}): expected a type that JSON can hold: {error}.") from None
        self._proofs = proofs_of(of)

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value; BadPayload for what would not come back equal, or is too large."""
        if holds(self._proofs, value):
            try:
                raw = encoder.encode(value)
            except UnicodeEncodeError:
                raw = MARK
            if not raw.startswith(MARK) and len(raw) <= MAX_PUBLICATION:
                return raw
        try:
            raw = self._wire.seal(value)
        except TooLarge:
            raw = write(value)
        except Exception as error:  # noqa: BLE001 - the user's own types may raise anything, and are told what is wrong
            raise BadPayload(f"topic {self.topic!r}: {explain([('value', self.of, value)], error)}") from None
        if len(raw) > MAX_PUBLICATION:
            raise BadPayload(
                f"topic {self.topic!r}: the value takes {len(raw):,} bytes, and a publication may take "
                f"{MAX_PUBLICATION:,}. Store it elsewhere, and publish a reference to it"
            )
        return raw

    def published(self, stored: StoredPublication) -> Published[T]:
        """Return a publication as programs see it; BadPayload if its value does not fit the type."""
        try:
            value: T = self._wire.read(stored.value)
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            raise BadPayload(
                f"topic {self.topic!r}: publication {stored.number} does not fit {self.of}: {in_words(error)}. Give "
                f"the topic the type that it was published with, or step over it: rewind(since={stored.number})"
            ) from cause_of(error)
        return Published(stored.topic, stored.number, stored.key, value, time_of(stored.at))


def arguments(stored: StoredPublication, *, whole: bool) -> bytes:
    """Return the arguments of a call that takes the value of a publication, or the `whole` of it."""
    value = stored.value
    if not value.startswith(MARK):
        if not whole:
            return b"[%b]" % value
        return msgspec.json.encode([_as_published(stored, msgspec.Raw(value))])
    tree = unescaped(value)
    return write([msgspec.to_builtins(_as_published(stored, tree)) if whole else tree])


def time_of(moment: int) -> datetime:
    """Return a moment of the store as a datetime."""
    return _EPOCH + timedelta(microseconds=moment)


def moment_of(time: datetime) -> int:
    """Return a datetime as a moment of the store."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def _as_published(stored: StoredPublication, value: Any) -> Published[Any]:
    return Published(stored.topic, stored.number, stored.key, value, time_of(stored.at))
