"""Forks: what must be let go of in a forked child, and how to tell that one is such a child.

Whoever holds something that a child must not share (a lock file, a connection, the line to a crew) registers here, and
its `orphan` is called in every child that Python forks. Registration does not keep anything alive. Nothing is done in
the parent, and nothing for `subprocess`, whose children keep none of our descriptors.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

#: How many forks lie between this process and the one that imported this module. What was begun under another number
#: was begun by an ancestor; to compare numbers costs less than to ask the system for one's own.
depth = 0


class Forkable(Protocol):
    """Something that knows how to let go after a fork."""

    def orphan(self) -> None:
        """Called in the child, before any other code of it; must not wait for a lock that another thread held."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register(thing: Forkable) -> None:
    """Have `thing.orphan()` called in every forked child from now on."""
    _known.add(thing)


def _after_in_child() -> None:
    global depth
    depth += 1
    for thing in list(_known):
        thing.orphan()


os.register_at_fork(after_in_child=_after_in_child)
