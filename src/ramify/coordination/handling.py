"""Readers of `@engine.on`, as a program declares them, and how topics and readers come into a store.

A process that works, and one that publishes, declares them first. A reader that the store does not have begins at the
end of its topics, or where it says; one that it has keeps its place. The program that was started last decides about
options. Nothing is ended, dropped or changed that a program does not know: people remove readers.

CRASH: before its verb nothing of a reader is declared, after it the reader and its place -> the next process declares
it in any case.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from ramify.coordination.places import Cursor, Since, place_of
from ramify.errors import ConfigError, ValueContended
from ramify.model.call import Group
from ramify.model.own_topics import FAILURES_TOPIC, RUN_ENDS_TOPIC, TOPICS, StoredTopic, read_topic, write_topic
from ramify.model.policy import SECOND
from ramify.model.process import Stamp
from ramify.model.reader import READERS, StoredReader, is_pattern, matches, read_reader, write
from ramify.model.value import MOST_TRIES, StoredValue, Swap
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT

#: Sends a verb that carries a number, until it is answered.
Send = Callable[[Callable[[Stamp], bool]], bool]
Reserve = Callable[[int], int]
#: How long publications of stores themselves are kept, in microseconds: as long as jobs that failed.
OWN_KEEP = 14 * 86_400 * SECOND
_OWN = (FAILURES_TOPIC, RUN_ENDS_TOPIC)


class Handling(NamedTuple):
    """A reader that makes a task of each publication: `group` is that of the tasks, which take the value or the `whole`
    publication. With `ordered`, those of one key run one at a time, in order.
    """

    name: str
    source: str
    group: Group
    ordered: bool = False
    whole: bool = False
    since: Since = None
    place: str = ""


def declare(
    store: Store,
    send: Send,
    reserve: Reserve,
    topics: Mapping[str, StoredTopic],
    readers: Collection[Handling],
    by: str,
    since: int,
) -> Iterator[str]:
    """Declare the topics and readers of a program that was started `since`; what happened, in words."""
    for name, topic in topics.items():
        new = msgspec.structs.replace(topic, by=by, at=since)
        if _changed(store, send, reserve, TOPICS, name, partial(_newer_topic, new)):
            yield f"topic {name!r} is declared"
    for reader in readers:
        _check_source(store, reader, topics)
        if reader.source in _OWN:
            listen_to(store, send, reserve, reader.source, by)
        yield from _declare_reader(store, send, reserve, reader, by, since)


def listen_to(store: Store, send: Send, reserve: Reserve, topic: str, by: str) -> None:
    """Let a topic that the store publishes itself be published from now on; of others nothing is asked."""
    if topic in _OWN:
        new = StoredTopic(OWN_KEEP, by=by, at=store.now())
        _changed(store, send, reserve, TOPICS, topic, lambda found: None if found is not None else write_topic(new))


def topics_of(store: Store, source: str) -> list[str]:
    """Return the topics with publications that a reader of this source reads."""
    if not is_pattern(source):
        return [source]
    found: list[str] = []
    prefix, after = source[: min(source.find(each) for each in "*?[" if each in source)], ""
    while True:
        page = store.reads.topics(prefix=prefix, after=after, limit=PAGE_LIMIT)
        found += [each.name for each in page if matches(source, each.name)]
        if len(page) < PAGE_LIMIT:
            return found
        after = page[-1].name


def _declare_reader(store: Store, send: Send, reserve: Reserve, reader: Handling, by: str, since: int) -> Iterator[str]:
    name = reader.name
    for _ in range(MOST_TRIES):
        found = store.reads.value(READERS, name)
        new = StoredReader(reader.source, reader.group.kind, reader.ordered, by, since, store.now())
        if found is not None:
            known = read_reader(found.value)
            _check_same(reader, known)
            if (known.kind, known.ordered) == (new.kind, new.ordered) or known.at > since:
                return
            swaps = [Swap(READERS, name, found.version, reserve(1), write(_since(new, known.began)))]
        else:
            places = [(each, place_of(store, each, reader.since)) for each in topics_of(store, reader.source)]
            version = reserve(1 + len(places))
            swaps = [Swap(READERS, name, 0, version, write(new))]
            swaps += [Cursor(name, each).moved(at, version + 1 + n) for n, (each, at) in enumerate(places)]
        if send(lambda stamp, swaps=swaps: store.swap(stamp, swaps)):  # type: ignore[misc]
            yield f"reader {name!r} of {reader.source!r} {'begins' if found is None else 'is declared anew'}"
            return
    raise ValueContended(f"reader {name!r}: others declared it {MOST_TRIES} times meanwhile. Try again.")


def _since(new: StoredReader, began: int) -> StoredReader:
    return msgspec.structs.replace(new, began=began)


def _newer_topic(new: StoredTopic, found: StoredValue | None) -> bytes | None:
    """Return the declaration to write; None where that of the store is the same, or of a newer program."""
    if found is None:
        return write_topic(new)
    known = read_topic(found.value)
    return None if known.keep == new.keep or known.at > new.at else write_topic(new)


def _changed(
    store: Store,
    send: Send,
    reserve: Reserve,
    space: str,
    name: str,
    change: Callable[[StoredValue | None], bytes | None],
) -> bool:
    """Change a value by what is stored, anew if somebody else did meanwhile; whether there was anything to change."""
    for _ in range(MOST_TRIES):
        found = store.reads.value(space, name)
        new = change(found)
        if new is None:
            return False
        swap = Swap(space, name, 0 if found is None else found.version, reserve(1), new)
        if send(lambda stamp, swap=swap: store.swap(stamp, [swap])):  # type: ignore[misc]
            return True
    raise ValueContended(f"{space} {name!r}: others changed it {MOST_TRIES} times meanwhile. Try again.")


def _check_source(store: Store, reader: Handling, topics: Mapping[str, StoredTopic]) -> None:
    """Refuse a reader of a topic that nobody declared and nobody published to."""
    source = reader.source
    if is_pattern(source) or source in topics or source in _OWN:
        return
    if store.reads.value(TOPICS, source) is not None or source in topics_named(store, source):
        return
    near = difflib.get_close_matches(source, [*topics, *topics_named(store, "")], n=1)
    said = f"Did you mean {near[0]!r}?" if near else f"Write engine.topic({source!r}, ...) and give what it returns."
    raise ConfigError(f"@on({source!r}) for {reader.group.kind!r}: no program declared such a topic. {said}")


def topics_named(store: Store, prefix: str) -> Sequence[str]:
    """Return the first topics whose names begin so."""
    return [each.name for each in store.reads.topics(prefix=prefix)]


def _check_same(reader: Handling, known: StoredReader) -> None:
    if known.source == reader.source and known.kind is not None:
        return
    by_hand = "" if known.kind is not None else ", by hand"
    raise ConfigError(
        f"@on({reader.source!r}) for {reader.group.kind!r}: a reader called {reader.name!r} reads {known.source!r}"
        f"{by_hand}. Give this one another name with name=..., or remove that one: ramify topics remove {reader.name}"
    )
