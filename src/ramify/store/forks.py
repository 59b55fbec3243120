"""Forks: what must be let go of in a forked child.

Whoever holds something that a child must not share (a lock file, a connection) registers here, and its `orphan` is
called in every child that Python forks. Registration does not keep anything alive. Nothing is done in the parent, and
nothing for `subprocess`, whose children keep none of our descriptors.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that knows how to let go after a fork."""

    def orphan(self) -> None:
        """Called in the child, before any other code of it; must not wait for a lock that another thread held."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register(thing: Forkable) -> None:
    """Have `thing.orphan()` called in every forked child from now on."""
    _known.add(thing)


def _after_in_child() -> None:
    for thing in list(_known):
        thing.orphan()


os.register_at_fork(after_in_child=_after_in_child)
