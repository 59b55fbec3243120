"""To move a reader elsewhere, and to remove one: what people do, and programs with `rewind`.

Promises: each is one swap. A reader that is moved back is given again what lies between: for `@engine.on` that makes
new tasks. One that is removed is forgotten with its places; a program that declares it anew begins it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ramify.coordination.handling import Reserve, Send
from ramify.coordination.places import Since, cursor, place_of
from ramify.errors import ValueContended
from ramify.model.own_topics import FAILURES_TOPIC, RUN_ENDS_TOPIC, TOPICS
from ramify.model.reader import CURSORS, READERS, StoredReader, cursors_of, read_reader
from ramify.model.value import MOST_TRIES, StoredValue, Swap
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT


def rewind(store: Store, send: Send, reserve: Reserve, reader: str, topic: str, since: Since) -> int:
    """Let a reader of a topic go on after another number; that number."""
    for _ in range(MOST_TRIES):
        place, number = cursor(store, reader, topic), place_of(store, topic, since)
        swap = place.moved(number, reserve(1))
        if send(lambda stamp, swap=swap: store.swap(stamp, [swap])):  # type: ignore[misc]
            return number
    raise ValueContended(f"rewind: the reader {reader!r} moved on {MOST_TRIES} times meanwhile. Try again.")


def remove(store: Store, send: Send, reserve: Reserve, reader: str) -> StoredReader | None:
    """Forget a reader with its places; what it was, None if there is none. Its tasks stay.

    What stores publish themselves they publish no more, if nobody else listens.
    """
    for _ in range(MOST_TRIES):
        found = store.reads.value(READERS, reader)
        if found is None:
            return None
        gone = [found, *_cursors(store, reader), *_unheard(store, read_reader(found.value).source)]
        version = reserve(len(gone))
        swaps = [Swap(each.space, each.name, each.version, version + at) for at, each in enumerate(gone)]
        if send(lambda stamp, swaps=swaps: store.swap(stamp, swaps)):  # type: ignore[misc]
            return read_reader(found.value)
    raise ValueContended(f"remove: the reader {reader!r} moved on {MOST_TRIES} times meanwhile. Try again.")


def values_in(store: Store, space: str, after: str = "") -> Iterator[StoredValue]:
    """Iterate over the values of a space by name, page by page."""
    more = True
    while more:
        page = store.reads.values(space=space, after=(space, after), limit=PAGE_LIMIT)
        yield from page
        after, more = page[-1].name if page else "", len(page) == PAGE_LIMIT


def _cursors(store: Store, reader: str) -> Iterator[StoredValue]:
    beginning = cursors_of(reader)
    for each in values_in(store, CURSORS, beginning[:-1]):
        if not each.name.startswith(beginning):
            return
        yield each


def _unheard(store: Store, source: str) -> Sequence[StoredValue]:
    """Return the declaration of a topic of the store itself that one reader only listens to."""
    if source not in (FAILURES_TOPIC, RUN_ENDS_TOPIC):
        return []
    listeners = [each for each in values_in(store, READERS) if read_reader(each.value).source == source]
    declared = store.reads.value(TOPICS, source)
    return [declared] if declared is not None and len(listeners) == 1 else []
