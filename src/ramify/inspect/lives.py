"""The present lives of tasks: how often each was tried, how it ended, and how long that took.

Reads neighbouring tasks together. Times are those of commits, so an attempt begins as long before its commit as it
took; of one that was quick it is not known how long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ramify.model.event import ATTEMPTED, Event, Status
from ramify.model.policy import SECOND
from ramify.model.segment import stretches
from ramify.store.reads import CommitRow, Reads

#: How many commits are kept in mind.
_KEPT = 10_000


class Commits:
    """Commits by their sequence. The last ones that were asked for are not read again."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._known: dict[int, CommitRow | None] = {}

    def at(self, seq: int) -> CommitRow | None:
        """One of them; None when the log does not have it any more."""
        if seq not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._reads.tail(seq - 1, limit=1).commits if seq > 0 else ()
            self._known[seq] = found[0] if found and found[0].seq == seq else None
        return self._known[seq]

    def when(self, seq: int) -> int | None:
        """The time of one of them."""
        found = self.at(seq)
        return None if found is None else found.at


class Life(msgspec.Struct, frozen=True):
    """The present life of a task: how it was tried (what came of it, in which commit, how long it took), and its last
    event: what it says, in which commit, and its value unless that is a result.
    """

    tries: tuple[tuple[Status, int, int], ...] = ()
    last: Status | None = None
    seq: int | None = None
    value: bytes | None = None

    @property
    def ended(self) -> Status | None:
        """How it ended, if it did."""
        return self.last if self.last is not None and self.last.is_end else None

    @property
    def attempts(self) -> int:
        """How often it was tried, without the times it put itself off."""
        return sum(status is not Status.DEFERRED for status, _, _ in self.tries)

    def seconds(self, commits: Commits, until: Life) -> float | None:
        """From the start of its first attempt to the end of another life, which may be this one; None if unknown."""
        if not self.tries:
            return None
        _, first, took = self.tries[0]
        if until.seq is None or until.seq == first:
            return took / SECOND
        began, ended = commits.when(first), commits.when(until.seq)
        return None if began is None or ended is None else max(0, ended - began + took) / SECOND


def life_of(events: Sequence[Event]) -> Life:
    """The present life of the task that these are the events of."""
    begins = max((at + 1 for at, event in enumerate(events) if event.status is Status.REOPENED), default=0)
    present = events[begins:]
    if not present:
        return Life()
    last = present[-1]
    decided = any(event.status is Status.DECIDED for event in present[-2:])
    # One that was cancelled while it ran tells how long that was.
    attempted = (event for event in present if event.status in ATTEMPTED or event.took is not None)
    tried = (event for event in attempted if not (decided and event is last))
    tries = tuple((event.status, event.seq, event.took or 0) for event in tried)
    return Life(tries, last.status, last.seq, None if last.status is Status.DONE else last.value)


def lives_of(reads: Reads, tasks: Sequence[int]) -> Iterator[Life]:
    """The present lives of tasks, in rising order, one for each."""
    for stretch in stretches(tasks):
        events = iter(reads.events(stretch[0], stretch[-1]))
        event = next(events, None)
        for task in stretch:
            its: list[Event] = []
            while event is not None and event.task == task:
                its.append(event)
                event = next(events, None)
            yield life_of(its)
