"""Topics: named, numbered sequences of publications, which readers follow by number. Pure.

A publication is one immutable fact. It is published with the end of a task, or from outside by a verb of its own, and
is in its topic exactly if that transaction is. The numbers of a topic are dense and follow the order of commits, so
whoever has read up to a number misses nothing that comes after it: a reader is that number, kept as a value.

    a part is applied, a swap wins   -> its publications have the next numbers of their topics, in the order sent
    a part is refused or lost        -> nothing is published, and no number is used
    a publication expires            -> `vacuum` removes it; numbers are never used again

The last number of a topic is one row. A store takes it when it writes, after all else of the transaction, and several
in name order; a verb that publishes nothing does not touch it.

Does not know where publications are kept, who reads them, nor how values are written as bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ramify.errors import BadPayload
from ramify.model.task import MAX_ID, MAX_KEEP, MAX_PAYLOAD, check_name
from ramify.model.value import RESERVED

#: What the names of a publication are called in errors.
A_TOPIC, A_PUBLICATION_KEY = "the name of a topic", "the key of a publication"
#: The largest value of a publication, in bytes: a task can take it as an argument, with all that is known about it.
MAX_PUBLICATION = MAX_PAYLOAD - 8_192


class Publication(msgspec.Struct, frozen=True, gc=False):
    """A value on its way into a topic. `key` is a label: what it is about, and what it is ordered by.

    It is kept for `keep` microseconds, and for ever with None. `task` is the task with whose end it is published.
    """

    topic: str
    value: bytes
    key: str | None = None
    keep: int | None = None
    task: int | None = None

    def stored(self, number: int, at: int) -> StoredPublication:
        """Return it as it is stored under a number."""
        expires = None if self.keep is None else at + self.keep
        return StoredPublication(self.topic, number, self.value, self.key, at, expires, self.task)


class StoredPublication(msgspec.Struct, frozen=True, gc=False):
    """A publication as it is stored: number `number` of its topic, published at `at` by the store's clock, and never
    before the one before it. From `expires` on, if it has such a time, it may be gone.
    """

    topic: str
    number: int
    value: bytes
    key: str | None
    at: int
    expires: int | None = None
    task: int | None = None


class TopicNumbers(msgspec.Struct, frozen=True):
    """A topic to which something was published: the `first` number that is kept, and the `last` one that was given.

    With nothing kept, `first` is the number after `last`.
    """

    name: str
    first: int
    last: int

    @property
    def kept(self) -> int:
        """The most publications that it may hold: some between the first and the last may be gone."""
        return self.last - self.first + 1


def by_topic(publications: Iterable[Publication]) -> Sequence[tuple[str, Sequence[Publication]]]:
    """Group publications by topic, each group in the order sent; topics in name order, in which stores take them."""
    groups: defaultdict[str, list[Publication]] = defaultdict(list)
    for each in publications:
        groups[each.topic].append(each)
    return sorted(groups.items())


def check_publications(publications: Sequence[Publication], done: Collection[int] = ()) -> None:
    """Refuse publications that no store can keep, or that name a task that does not end as `done` with them."""
    for topic in {new.topic for new in publications}:
        check_name(A_TOPIC, topic)
        if topic.startswith(RESERVED):
            raise BadPayload(f"topic {topic!r}: names that begin with {RESERVED!r} are for stores themselves")
    for new in publications:
        if new.key is not None:
            check_name(A_PUBLICATION_KEY, new.key)
        if len(new.value) > MAX_PUBLICATION:
            raise BadPayload(
                f"a publication to {new.topic!r} takes {len(new.value)} bytes; the limit is {MAX_PUBLICATION}. "
                "Store the value elsewhere and publish a reference"
            )
        if new.keep is not None and not 0 <= new.keep <= MAX_KEEP:
            raise BadPayload(
                f"a publication to {new.topic!r} is kept for {new.keep}: give 0 to {MAX_KEEP} microseconds"
            )
        if new.task is not None and new.task not in done:
            raise BadPayload(f"a publication to {new.topic!r} names task {new.task}, which is not done with it")


def check_topic(name: str) -> str:
    """Refuse what can be the name of no topic."""
    return check_name(A_TOPIC, name)


def check_number(after: int) -> int:
    """Refuse a place in a topic that no number can have."""
    if not 0 <= after < MAX_ID:
        raise BadPayload(f"{after} is no place in a topic; begin with 0, and go on after the number of the last one")
    return after
