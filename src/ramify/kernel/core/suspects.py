"""Suspects: what a process does differently while it holds tasks over which processes died. Pure; part of the core.

Suspects run apart: whoever holds one holds nothing else and takes nothing else. So none may be held while it waits. And
they are watched for a moment after they returned, before that is committed: a task can kill its process just then, and
if it was recorded as done nobody would ever know. For the same reason a suspect is neither held nor started just after
others have returned: it would be blamed for what one of those does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from ramify.kernel.core.holding import Holding
from ramify.kernel.core.limits import OwnLimits


def held_up(holdings: Mapping[bytes, Holding], limits: OwnLimits, now: float) -> Iterator[Holding]:
    """Suspects that a limit keeps from starting: they are put back, and others get their turn."""
    for holding in holdings.values():
        if not holding.is_suspect:
            # A suspect is only ever held alone or with other suspects, so the first one tells.
            return
        if holding.available and not holding.leased and not limits.allowed(*holding.where, 1, now):
            yield holding


def are_held(holdings: Mapping[bytes, Holding]) -> bool:
    """Return whether what this process holds must run apart."""
    return any(holding.is_suspect for holding in islice(holdings.values(), 1))
