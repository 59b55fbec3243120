"""The topics of one engine: the handles that it gives out, what it declares in its store, and its pump.

Promises: a name means one type in a program. Before anything is published outside of tasks, and before a worker begins,
the readers of this program are in the store, so that they miss nothing of what it publishes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ramify.coordination.guest import Guest
from ramify.coordination.handling import Handling, declare, listen_to
from ramify.coordination.host import Waits
from ramify.coordination.publishing import TopicCodec
from ramify.coordination.pump import Pump
from ramify.coordination.topic import Topic
from ramify.engine.tasks.contents import readers_of
from ramify.errors import BadPayload, ConfigError
from ramify.kernel.machine import HERE, Machine
from ramify.model.own_topics import StoredTopic
from ramify.model.policy import SECOND, Duration, seconds_in
from ramify.model.reader import check_short, is_pattern
from ramify.model.task import MAX_KEEP
from ramify.model.topic import A_TOPIC, Publication
from ramify.model.value import RESERVED
from ramify.store.contract import Store

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


class Topics:
    """All topics that one engine knows, and the host of each of them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: By name, with the type and the time of each.
        self._known: dict[str, tuple[Any, int | None, Topic[Any]]] = {}
        #: The store in which they are declared, and how many topics and readers were.
        self._declared: tuple[Store, int, int] | None = None

    # handles

    def topic(self, name: object, of: Any, keep: Duration | None) -> Topic[Any]:
        """Return the handle of a topic; ConfigError if another one has its name."""
        try:
            checked = check_short(A_TOPIC, name)
        except BadPayload as error:
            raise ConfigError(f"topic({name!r}): {error}") from None
        if checked.startswith(RESERVED):
            raise ConfigError(f"topic({name!r}): names that begin with {RESERVED!r} are reserved. Choose another.")
        if is_pattern(checked):
            raise ConfigError(f"topic({name!r}): expected a name without *, ? and [, which patterns of readers have.")
        kept = _keep(keep)
        known = self._known.get(checked)
        if known is not None and not _same(known[:2], (of, kept)):
            raise ConfigError(
                f"topic({name!r}): this program has a topic of this name of {_shown(known[0])}, kept "
                f"{_time(known[1])}, and this one is of {_shown(of)}, kept {_time(kept)}. Give one another name."
            )
        made: Topic[Any] = Topic(self, TopicCodec(checked, of), kept)
        self._known[checked] = (of, kept, made)
        return made

    def own(self, name: str, of: Any) -> Topic[Any]:
        """Return the handle of a topic that the store publishes itself."""
        return Topic(self, TopicCodec(name, of), None)

    # as their host

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        return self._runtime.store

    @property
    def guest(self) -> Guest:
        """The session of this program for what it changes outside of tasks."""
        return self._runtime.guest

    @property
    def watcher(self) -> Waits:
        """Coroutines that wait."""
        return self._runtime.watcher

    @property
    def by(self) -> str:
        """The name under which this program declares something."""
        return self._runtime.by

    def reserve_ids(self, many: int, above: int = 0, younger: float = math.inf) -> int:
        """The first of so many contiguous ids of the store."""
        return self._runtime.reserve_ids(many, above, younger)

    def publish(self, publications: Sequence[Publication]) -> None:
        """Publish outside of tasks; durable on return."""
        self.declare()
        store = self.store
        self.guest.send(lambda stamp: store.swap(stamp, (), (), publications))

    def listen_to(self, topic: str) -> None:
        """Let a topic that the store itself publishes be published from now on."""
        if topic.startswith(RESERVED):
            listen_to(self.store, self.guest.send, self.reserve_ids, topic, self.by)

    # in the store

    def declare(self) -> None:
        """Let the topics and readers of this program be in the store, as it declares them."""
        readers, store = self.readers(), self.store
        now = store, len(self._known), len(readers)
        before = self._declared
        if before is not None and before[0] is store and before[1:] == now[1:]:
            return
        topics = {name: StoredTopic(keep) for name, (_, keep, _) in self._known.items()}
        if topics or readers:
            said = declare(store, self.guest.send, self.reserve_ids, topics, readers, self.by, self._runtime.since)
            for text in said:
                self._runtime.say(text)
        self._declared = now

    def readers(self) -> list[Handling]:
        """Return the readers of this program."""
        return readers_of(self._runtime.tasks)

    def pump(self, machine: Machine = HERE, *, is_idle: bool = False) -> Pump:
        """Return what turns publications into tasks for them, ready to start; one that is idle does nothing."""
        return Pump(self, [] if is_idle else self.readers(), self._runtime.complain, machine)


def _same(one: tuple[Any, int | None], other: tuple[Any, int | None]) -> bool:
    """Return whether two topics are one: a class that was defined again, at a prompt for example, is the same one."""
    if one[1] != other[1]:
        return False
    names = [(getattr(of, "__module__", None), getattr(of, "__qualname__", None)) for of in (one[0], other[0])]
    return bool(one[0] == other[0] or (names[0][1] is not None and names[0] == names[1]))


def _keep(keep: Duration | None) -> int | None:
    if keep is None:
        return None
    seconds = seconds_in(keep)
    if seconds is None or not 0 < seconds <= MAX_KEEP / SECOND:
        raise ConfigError(
            f"topic(keep={keep!r}): expected seconds or a timedelta above 0 and up to {MAX_KEEP / SECOND / 86_400:.0f} "
            "days, or None for ever."
        )
    return round(seconds * SECOND)


def _shown(of: Any) -> str:
    return str(getattr(of, "__name__", of))


def _time(keep: int | None) -> str:
    return "for ever" if keep is None else f"for {keep / SECOND:g} s"
