"""Definitions: what runs can be made of by name, such as DAGs.

Promises: the newest definition of a name is the one that is found. One that nobody needs any more is let go; one that
another may start by its name is kept.

Does not know shapes: a definition has a name, and makes a root of stored params.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakValueDictionary

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

    def find(self, name: str) -> Definition | None:
        """The newest of that name; None when there is none."""
        return self._newest.get(name)

    def __iter__(self) -> Iterator[Definition]:
        return iter(list(self._newest.values()))
