"""A named reader by hand: `for each in orders.read("billing"):`, over what is there, from where the name stopped.

Promises: a publication that was handled is not given again, and none is left out. In a task the place moves with the
task's end, exactly if it ends as done, and of two tasks that read under one name at once one runs again. Outside, the
place moves when the next publication is asked for: a program that dies, or leaves the loop, gets the last one again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from ramify.coordination.host import TopicHost
from ramify.coordination.moving import rewind
from ramify.coordination.places import Cursor, Since, check_since, cursor, place_of, topic_row
from ramify.coordination.publishing import Published, TopicCodec
from ramify.errors import ConfigError, ValueContended
from ramify.kernel.attempts.current import current_or_none
from ramify.kernel.attempts.values import AttemptValues
from ramify.model.reader import (
    A_READER,
    CURSORS,
    READERS,
    StoredReader,
    check_short,
    cursor_name,
    read_number,
    read_reader,
    write,
)
from ramify.model.topic import StoredPublication
from ramify.model.value import MOST_TRIES, Swap

T = TypeVar("T")
#: The most publications that are read at a time.
PAGE = 256


class TopicReader(Generic[T]):
    """A reader of a topic by its name: iterate over it. `rewind` lets it begin elsewhere, `lag` is how far it is."""

    def __init__(self, host: TopicHost, codec: TopicCodec[T], name: str, since: Since) -> None:
        self.name = check_short(A_READER, name)
        self._host, self._codec = host, codec
        self._since = check_since("read", since)

    def __iter__(self) -> Iterator[Published[T]]:
        attempt = current_or_none()
        if attempt is not None and attempt._is_at(lambda: self._host.store):
            return self._in_task(attempt._all_values)
        return self._outside()

    @property
    def lag(self) -> int:
        """How many publications there are after its place."""
        store = self._host.store
        place = cursor(store, self.name, self._topic)
        begin = place.number if place.version else place_of(store, self._topic, self._since)
        row = topic_row(store, self._topic)
        return max(0, row.last - max(begin, row.first - 1))

    def rewind(self, since: Since = 0) -> int:
        """Let it go on `since`: after a number, at a datetime, or a timedelta back; None for the end.

        What lies between is given again, or stepped over. Return the number after which it goes on.
        """
        self._begin()
        host, checked = self._host, check_since("rewind", since)
        return rewind(host.store, host.guest.send, host.reserve_ids, self.name, self._topic, checked)

    @property
    def _topic(self) -> str:
        return self._codec.topic

    def _in_task(self, values: AttemptValues) -> Iterator[Published[T]]:
        store, key = self._host.store, (CURSORS, cursor_name(self.name, self._topic))
        self._host.listen_to(self._topic)
        known = values.find((READERS, self.name))
        if known is None:
            values.change((READERS, self.name), write(self._declared()))
        else:
            self._check(read_reader(known))
        raw = values.find(key)
        after = place_of(store, self._topic, self._since) if raw is None else read_number(raw)
        while page := self._page(after):
            for each in page:
                # The task that has it in hand is the one with whose end the place moves.
                values.change(key, write(each.number))
                yield self._codec.published(each)
                after = each.number

    def _outside(self) -> Iterator[Published[T]]:
        place = self._begin()
        while page := self._page(place.number):
            for each in page:
                yield self._codec.published(each)
                # CRASH: it was handled, and the place was not moved -> it is given again.
                moved = self._moved(place, each.number)
                if moved is None:
                    # Somebody else reads under this name: from where they are.
                    place = cursor(self._host.store, self.name, self._topic)
                    break
                place = moved

    def _begin(self) -> Cursor:
        """Return its place, and note the name first if nobody has used it."""
        host, store = self._host, self._host.store
        host.listen_to(self._topic)
        for _ in range(MOST_TRIES):
            known = store.reads.value(READERS, self.name)
            if known is not None:
                self._check(read_reader(known.value))
            place = cursor(store, self.name, self._topic)
            if known is not None and place.version:
                return place
            begin, version = place_of(store, self._topic, self._since), host.reserve_ids(2)
            seen = 0 if known is None else known.version
            new = write(self._declared()) if known is None else None
            swaps = [
                Swap(READERS, self.name, seen, 0 if new is None else version + 1, new),
                place.moved(begin, version),
            ]
            if host.guest.send(lambda stamp, swaps=swaps: store.swap(stamp, swaps)):  # type: ignore[misc]
                return place._replace(number=begin, version=version)
        raise ValueContended(f"read({self.name!r}): others began to read {self._topic!r} under this name. Try again.")

    def _moved(self, place: Cursor, number: int) -> Cursor | None:
        store, version = self._host.store, self._host.reserve_ids(1)
        swap = place.moved(number, version)
        is_made = self._host.guest.send(lambda stamp: store.swap(stamp, [swap]))
        return place._replace(number=number, version=version) if is_made else None

    def _page(self, after: int) -> Sequence[StoredPublication]:
        return self._host.store.reads.publications(self._topic, after=after, limit=PAGE)

    def _declared(self) -> StoredReader:
        now = self._host.store.now()
        return StoredReader(self._topic, by=self._host.by, at=now, began=now)

    def _check(self, known: StoredReader) -> None:
        if known.source != self._topic or known.kind is not None:
            task = "" if known.kind is None else f", for the task {known.kind!r}"
            raise ConfigError(
                f"read({self.name!r}): a reader of this name reads {known.source!r}{task}, and this is topic "
                f"{self._topic!r}. Choose another name, or remove that one: ramify topics remove {self.name}"
            )
