"""Places in topics: where one begins to read, and the cursors that readers keep.

Promises: a cursor moves only from where its mover saw it, by a swap. Nothing is missed between a place that was found
and the first read from it: numbers only rise.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from ramify.coordination.publishing import moment_of
from ramify.errors import ConfigError
from ramify.model.reader import CURSORS, cursor_name, read_number, write
from ramify.model.task import MAX_ID
from ramify.model.topic import TopicNumbers
from ramify.model.value import Swap
from ramify.store.contract import Store

#: Where to begin: after a number (0: with all that is kept), at a time, or so long ago. None: at the end.
Since = int | datetime | timedelta | None


class Cursor(NamedTuple):
    """The place of a reader in a topic: the last number that it has handled, and the version of that value.

    Version 0 is a cursor that is not there, before the first publication.
    """

    reader: str
    topic: str
    number: int = 0
    version: int = 0

    def moved(self, number: int, version: int) -> Swap:
        """Return the swap that moves it."""
        return Swap(CURSORS, cursor_name(self.reader, self.topic), self.version, version, write(number))


def cursor(store: Store, reader: str, topic: str) -> Cursor:
    """Return the place of a reader in a topic, as it is stored."""
    found = store.reads.value(CURSORS, cursor_name(reader, topic))
    if found is None:
        return Cursor(reader, topic)
    return Cursor(reader, topic, read_number(found.value), found.version)


def topic_row(store: Store, name: str) -> TopicNumbers:
    """Return the numbers of a topic; 1 to 0 while nothing was published to it."""
    # By name: the one that has just this name comes first.
    found = [each for each in store.reads.topics(prefix=name, limit=1) if each.name == name]
    return found[0] if found else TopicNumbers(name, 1, 0)


def check_since(call: str, since: object) -> Since:
    """Refuse what is no place in a topic; `call` is what was called."""
    what = "expected a number (0 for all that is kept), a datetime with a time zone, or a timedelta back from now"
    if since is None:
        return None
    if isinstance(since, datetime):
        if since.utcoffset() is None:
            raise ConfigError(f"{call}(since={since!r}): expected a datetime with a time zone. Add tzinfo=UTC.")
        return since
    if isinstance(since, timedelta):
        if since < timedelta(0):
            raise ConfigError(f"{call}(since={since!r}): {what}. Give a timedelta of 0 or more.")
        return since
    if isinstance(since, bool) or not isinstance(since, int) or not 0 <= since < MAX_ID:
        raise ConfigError(f"{call}(since={since!r}): {what}.")
    return since


def place_of(store: Store, topic: str, since: Since) -> int:
    """Return the number after which to begin."""
    if isinstance(since, int):
        return since
    row = topic_row(store, topic)
    if since is None:
        return row.last
    moment = moment_of(since) if isinstance(since, datetime) else store.now() - since // timedelta(microseconds=1)
    low, high = row.first - 1, row.last
    while low < high:
        middle = (low + high) // 2
        after = store.reads.publications(topic, after=middle, limit=1)
        if not after or after[0].at >= moment:
            high = middle
        else:
            low = after[0].number
    return low
