"""Tasks that add up, for tests of how jobs get into their queues."""

from __future__ import annotations

from ramify import Stream, Tasks

sums = Tasks()


@sums.task
def add(a: int, b: int = 1) -> int:
    """Both together."""
    return a + b


@sums.task(queue="other")
def elsewhere(a: int) -> int:
    """The same number, in another queue."""
    return a


@sums.task
def total(parts: Stream[int] = Stream()) -> int:
    """All of them together."""
    return sum(parts)
