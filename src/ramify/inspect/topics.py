"""Topics for people: what each holds, who reads it, and how far behind each reader is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ramify.coordination.handling import topics_of
from ramify.coordination.moving import values_in
from ramify.coordination.places import cursor
from ramify.inspect.words import stamp
from ramify.model.own_topics import TOPICS, StoredTopic, read_topic
from ramify.model.reader import READERS, StoredReader, read_reader
from ramify.model.topic import StoredPublication
from ramify.model.topic import TopicNumbers as Numbers
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT


class ReaderView(NamedTuple):
    """A reader in one topic: the last number that it has handled, and how many there are after it."""

    name: str
    stored: StoredReader
    number: int
    lag: int


class TopicView(NamedTuple):
    """A topic: its numbers, its declaration if a program declared it, and its readers."""

    numbers: Numbers
    declared: StoredTopic | None
    readers: Sequence[ReaderView]

    @property
    def name(self) -> str:
        """Its name."""
        return self.numbers.name


def topics(store: Store) -> list[TopicView]:
    """Return all topics by name: those with publications, and those that were declared."""
    readers = readers_in(store)
    declared = {each.name: read_topic(each.value) for each in values_in(store, TOPICS)}
    numbers = {each.name: each for each in _numbers(store)}
    of = {name: topics_of_reader(store, each) for name, each in readers.items()}
    views: list[TopicView] = []
    for name in sorted({*numbers, *declared, *(topic for read in of.values() for topic in read)}):
        row = numbers.get(name, Numbers(name, 1, 0))
        some = [_view(store, reader, each, row) for reader, each in readers.items() if name in of[reader]]
        views.append(TopicView(row, declared.get(name), some))
    return views


def readers_in(store: Store) -> Mapping[str, StoredReader]:
    """Return the readers of a store by name."""
    return {each.name: read_reader(each.value) for each in values_in(store, READERS)}


def topics_of_reader(store: Store, reader: StoredReader) -> list[str]:
    """Return the topics that a reader reads."""
    return topics_of(store, reader.source)


def publication_as_json(each: StoredPublication, value: object) -> Mapping[str, object]:
    """Return a publication as an object for programs, with its value as it was read."""
    return {
        "topic": each.topic,
        "number": each.number,
        "at": stamp(each.at),
        "key": each.key,
        "task": each.task,
        "expires": stamp(each.expires),
        "value": value,
    }


def view_as_json(view: TopicView) -> Mapping[str, object]:
    """Return a topic as an object for programs."""
    declared = view.declared
    return {
        "topic": view.name,
        "first": view.numbers.first,
        "last": view.numbers.last,
        "keep_seconds": None if declared is None or declared.keep is None else declared.keep / 1_000_000,
        "declared_by": None if declared is None else declared.by,
        "readers": [
            {
                "reader": each.name,
                "source": each.stored.source,
                "kind": each.stored.kind,
                "ordered": each.stored.ordered,
                "number": each.number,
                "lag": each.lag,
                "declared_by": each.stored.by,
                "began": stamp(each.stored.began),
            }
            for each in view.readers
        ],
    }


def _view(store: Store, name: str, reader: StoredReader, row: Numbers) -> ReaderView:
    place = cursor(store, name, row.name)
    return ReaderView(name, reader, place.number, max(0, row.last - max(place.number, row.first - 1)))


def _numbers(store: Store) -> Iterator[Numbers]:
    after, more = "", True
    while more:
        page = store.reads.topics(after=after, limit=PAGE_LIMIT)
        yield from page
        after, more = page[-1].name if page else "", len(page) == PAGE_LIMIT
