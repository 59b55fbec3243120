"""Definitions: what runs can be made of by name, such as DAGs.

Some start others: when they have ended, or because they produce what others wait for. One that would start itself, by
way of others perhaps, is refused.

Promises: a name means what is defined at one place of a program. What is defined there again, or typed again at a
prompt, is found instead of the one before. One that nobody needs any more is let go; one that another may start by its
name is kept.

Does not know shapes: a definition has a name, and makes a root of stored params.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from weakref import WeakValueDictionary

from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt_env import Definition


class Definitions:
    """The definitions of one set of tasks, by name."""

    def __init__(self) -> None:
        self._newest: WeakValueDictionary[str, Definition] = WeakValueDictionary()
        self._kept: dict[str, Definition] = {}
        self._places: dict[str, str] = {}

    def add(self, definition: Definition) -> None:
        """A new one, in place of an older one of its name."""
        self._newest[definition.name] = definition
        if definition.name in self._kept:
            self._kept[definition.name] = definition

    def keep(self, definition: Definition) -> None:
        """This one is started by its name, so that it has to be there."""
        self._newest.setdefault(definition.name, definition)
        self._kept[definition.name] = definition

    def placed(self, name: str, place: str) -> None:
        """Note where one is defined, as `file:line`."""
        self._places[name] = place

    def place(self, name: str) -> str | None:
        """Where the one of that name is defined, if it is there."""
        return self._places.get(name) if name in self._newest or name in self._kept else None

    @property
    def names(self) -> Collection[str]:
        """The names of all that ever were there."""
        return self._places.keys()

    def started_by(self, definition: Definition) -> Iterator[Definition]:
        """Yield what runs of one of them start: by its name, or because they produce what it waits for."""
        yield from definition.starts.values()
        yield from (each for each in self if not definition.produces.isdisjoint(each.awaits))

    def check_no_circle(self, definition: Definition) -> None:
        """Refuse what would start itself, by way of others perhaps."""
        ahead = [(definition, [definition.name])]
        seen: set[str] = set()
        while ahead:
            at, way = ahead.pop(0)
            for each in self.started_by(at):
                if each.name == definition.name:
                    raise ConfigError(f"{definition.name} would start itself: {' -> '.join([*way, each.name])}")
                if each.name not in seen:
                    seen.add(each.name)
                    ahead.append((each, [*way, each.name]))

    def __iter__(self) -> Iterator[Definition]:
        return iter(list({**self._newest, **self._kept}.values()))
