"""The start fence: until when this process may start tasks.

A process that was not heard of for half of `dead_after` starts nothing: it may have been frozen, and others may do its
work by now. Whoever is about to start a task compares the time with `until`, right before it does. That takes no lock
and trusts no other thread, because after a thaw none of them may have run yet.
"""

from __future__ import annotations

import math


class StartFence:
    """Written by the core with each answered beat, from the moment at which it was sent; read by every worker."""

    __slots__ = ("until",)

    def __init__(self, until: float = -math.inf) -> None:
        self.until = until

    def beat(self, sent: float, dead_after: float) -> None:
        """A beat that was sent at that moment was answered."""
        self.until = sent + dead_after / 2

    def stop(self) -> None:
        """Start nothing until the next beat."""
        self.until = -math.inf
