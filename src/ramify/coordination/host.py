"""The host of locks and topics: the engine, as far as they need it. Protocols, so that this floor does not know the
engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ramify.coordination.guest import Guest
from ramify.model.topic import Publication
from ramify.store.contract import Store

T = TypeVar("T")


class Waits(Protocol):
    """The coroutines of a program that wait for something in the store."""

    async def until(self, ask: Callable[[], T | None]) -> T:
        """Wait until `ask`, called in another thread, gives something."""


class Reserve(Protocol):
    """Reserves ids of the store."""

    def __call__(self, many: int, above: int = 0, younger: float = math.inf) -> int:
        """The first of so many contiguous ids of the store; with `younger=0`, reserved after this was called."""


class Host(Protocol):
    """A program on one store."""

    @property
    def store(self) -> Store:
        """The store, opened on first use."""

    @property
    def guest(self) -> Guest:
        """The session of this program for what it changes outside of tasks."""

    @property
    def watcher(self) -> Waits:
        """Coroutines that wait."""

    def reserve_ids(self, many: int, above: int = 0, younger: float = math.inf) -> int:
        """The first of so many contiguous ids of the store; with `younger=0`, reserved after this was called."""


class TopicHost(Host, Protocol):
    """A program that publishes, and reads what others publish."""

    @property
    def by(self) -> str:
        """The name under which this program declares something."""

    def publish(self, publications: Sequence[Publication]) -> None:
        """Publish outside of tasks; durable on return."""

    def listen_to(self, topic: str) -> None:
        """Let a topic that the store itself publishes be published from now on."""
