"""A topic as programs use it: publish in tasks and outside, read by name, follow.

Promises: what a task publishes is in the topic exactly if its end is in the log, once; outside of tasks it is there
when `publish` returns. A named reader misses nothing: its place moves with the end of a task, or, outside, when the
next publication is asked for. Who follows keeps no place, and sees what is published from where it began.

A `Topic` keeps nothing of the store: it may be made at import, kept, and used by many at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from threading import current_thread, main_thread
from typing import Generic, TypeVar

from ramify.coordination.host import TopicHost
from ramify.coordination.places import Since, check_since, place_of
from ramify.coordination.publishing import Published, TopicCodec
from ramify.coordination.reader import TopicReader
from ramify.errors import ConfigError
from ramify.kernel.attempts.current import Current, current_or_none
from ramify.kernel.machine import HERE
from ramify.kernel.tuning import DEAF, LONGEST_READ_PAUSE, LONGEST_REST, READ_PAUSE
from ramify.model.task import name_given
from ramify.model.topic import A_PUBLICATION_KEY, Publication, StoredPublication
from ramify.model.value import RESERVED

T = TypeVar("T")
#: The most publications that are read at a time.
PAGE = 256


class Topic(Generic[T]):
    """A topic by its name: `orders = engine.topic("orders", Order)`. All programs of the store share it."""

    def __init__(self, host: TopicHost, codec: TopicCodec[T], keep: int | None) -> None:
        self._host, self._codec, self._keep = host, codec, keep

    def __repr__(self) -> str:
        return f"<topic {self.name!r} of {getattr(self._codec.of, '__name__', self._codec.of)}>"

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._codec.topic

    def publish(self, value: T, *, key: str | None = None) -> None:
        """Publish a value: in a task with its end, exactly if it ends as done; outside it is stored on return.

        `key` is a label: what the value is about. `@engine.on(topic, ordered=True)` keeps the order of each key.
        """
        self._send("publish", [(value, key)])

    def publish_many(self, values: Iterable[T], *, key: Callable[[T], str | None] | None = None) -> None:
        """Publish values, all of them or none, in this order; `key` makes the key of each."""
        self._send("publish_many", self._keyed(values, key))

    async def apublish(self, value: T, *, key: str | None = None) -> None:
        """Do `publish` in a coroutine, without blocking the event loop."""
        await self._asend("apublish", [(value, key)])

    async def apublish_many(self, values: Iterable[T], *, key: Callable[[T], str | None] | None = None) -> None:
        """Do `publish_many` in a coroutine, without blocking the event loop."""
        await self._asend("apublish_many", self._keyed(values, key))

    def read(self, reader: str, *, since: Since = 0) -> TopicReader[T]:
        """Return a reader by its name: `for each in orders.read("billing"):` goes on where the name stopped before.

        The loop ends at the end of the topic. A name that nobody has used begins `since`: after a number, at a
        datetime, or a timedelta back from now; at first with all that is kept.
        """
        return TopicReader(self._host, self._codec, name_given("read(): the name of a reader", reader), since)

    def follow(self, *, since: Since = None) -> Following[T]:
        """Iterate over what is published from now on, or `since`, live and without end: `for` or `async for`.

        Nothing of it is stored: who follows begins anew with each call. `since` is a number to go on after, a datetime,
        or a timedelta back from now.
        """
        return Following(self._host, self._codec, check_since("follow", since))

    def _keyed(self, values: Iterable[T], key: Callable[[T], str | None] | None) -> list[tuple[T, str | None]]:
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ConfigError(f"publish_many(): expected a list of values, got {values!r:.200}. Put it into [...].")
        if key is not None and not callable(key):
            raise ConfigError(f"publish_many(key={key!r}): expected a function of a value. Write key=lambda value: ...")
        return [(value, None if key is None else key(value)) for value in values]

    def _send(self, verb: str, pairs: Sequence[tuple[T, str | None]]) -> None:
        attempt, made = self._made(verb, pairs)
        if attempt is not None:
            attempt._publish(made)
        elif made:
            self._host.publish(made)

    async def _asend(self, verb: str, pairs: Sequence[tuple[T, str | None]]) -> None:
        attempt, made = self._made(verb, pairs)
        if attempt is not None:
            attempt._publish(made)
        elif made:
            # Shielded: what is under way comes to its end, also if nobody waits for it any more.
            await asyncio.shield(asyncio.to_thread(self._host.publish, made))

    def _made(self, verb: str, pairs: Sequence[tuple[T, str | None]]) -> tuple[Current | None, list[Publication]]:
        """Return publications, and the attempt with whose end they go if one runs here on this store."""
        name = self.name
        if name.startswith(RESERVED):
            raise ConfigError(f"{verb}(): {name!r} is published by the store itself. Make a topic of your own.")
        attempt = current_or_none()
        if attempt is not None and not attempt._is_at(lambda: self._host.store):
            attempt = None
        task, encode, keep = None if attempt is None else attempt.task, self._codec.encode, self._keep
        for _, key in pairs:
            if key is not None:
                name_given(f"{verb}(): {A_PUBLICATION_KEY}", key)
        return attempt, [Publication(name, encode(value), key, keep, task) for value, key in pairs]


class Following(Generic[T]):
    """Publications as they come: `for each in orders.follow():`, or `async for`. Each loop begins at the same place."""

    def __init__(self, host: TopicHost, codec: TopicCodec[T], since: Since) -> None:
        self._host, self._codec, self._since = host, codec, since

    def __iter__(self) -> Iterator[Published[T]]:
        # Here and now: what is published after this line is seen.
        return self._live(self._begin())

    def _live(self, after: int) -> Iterator[Published[T]]:
        store = self._host.store
        seen = store.wait(0, 0)
        while True:
            began = HERE.clock()
            page = self._page(after)
            took = HERE.clock() - began
            for each in page:
                yield self._codec.published(each)
                after = each.number
            if not page:
                # In proportion to what a read takes: a store may change without pause.
                time.sleep(min(READ_PAUSE * took, LONGEST_READ_PAUSE))
                longest = DEAF if current_thread() is main_thread() else LONGEST_REST
                seen = store.wait(longest, seen)

    async def __aiter__(self) -> AsyncIterator[Published[T]]:
        after = await asyncio.to_thread(self._begin)
        while True:
            page = await self._host.watcher.until(lambda after=after: self._page(after) or None)  # type: ignore[misc]
            for each in page:
                yield self._codec.published(each)
                after = each.number

    def _begin(self) -> int:
        self._host.listen_to(self._codec.topic)
        return place_of(self._host.store, self._codec.topic, self._since)

    def _page(self, after: int) -> Sequence[StoredPublication]:
        return self._host.store.reads.publications(self._codec.topic, after=after, limit=PAGE)
