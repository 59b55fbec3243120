"""Definitions: what runs can be made of by name, such as DAGs.

Some start others: when they have ended, or because they produce what others wait for. One that would start itself, by
way of others perhaps, is refused.

Promises: the newest definition of a name is the one that is found. One that nobody needs any more is let go; one that
another may start by its name is kept.

Does not know shapes: a definition has a name, and makes a root of stored params.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakValueDictionary

from ramify.errors import ConfigError
from ramify.kernel.surroundings import Definition


class Definitions:
    """Those of one set of tasks, by name."""

    def __init__(self) -> None:
        self._newest: WeakValueDictionary[str, Definition] = WeakValueDictionary()
        self._kept: dict[str, Definition] = {}

    def add(self, definition: Definition) -> None:
        """A new one, in place of an older one of its name."""
        self._newest[definition.name] = definition
        if definition.name in self._kept:
            self._kept[definition.name] = definition

    def keep(self, definition: Definition) -> None:
        """This one is started by its name, so that it has to be there."""
        self._newest.setdefault(definition.name, definition)
        self._kept[definition.name] = definition

    def started_by(self, definition: Definition) -> Iterator[Definition]:
        """What runs of one of them start: by its name, or because they produce what it waits for."""
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
        return iter(list(self._newest.values()))
