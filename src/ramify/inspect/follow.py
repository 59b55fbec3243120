"""A run as it happens: its start, its events and what people decide, in the order of commits, with nothing missed.

It follows the tail of the whole log and keeps what belongs to the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

import msgspec

from ramify.inspect.show import call_text, event_text, traceback_of
from ramify.model.event import Event, Status, fold
from ramify.model.segment import tasks_in
from ramify.store.reads import Reads, Tail

#: Commits looked at in one go: enough to keep up, few enough to stay small.
COMMITS = 5


class Followed(msgspec.Struct, frozen=True):
    """One event of a run. `task` is None for what is about the run itself: its start, a decision, and the sweep that
    ends many tasks of a cancelled run.
    """

    seq: int
    at: int
    task: int | None
    status: str
    call: str
    text: str
    took: int | None = None
    queue: str | None = None
    traceback: str = ""


class Follower:
    """A cursor over the events of one run."""

    def __init__(self, reads: Reads, run: int, after: int = 0) -> None:
        self._reads, self._run = reads, run
        self.after = after

    def next(self) -> Iterator[Followed] | None:
        """Return what happened since, from a few commits; None when there is nothing newer."""
        tail = self._reads.tail(self.after, limit=COMMITS)
        if not tail.commits:
            return None
        self.after = tail.after
        times = {commit.seq: commit.at for commit in tail.commits}
        # Each is in the order of commits, and nothing is looked up before it is asked for.
        told = (self._starts, self._decisions, self._events, self._sweeps)
        return merge(*(each(tail, times) for each in told), key=lambda followed: followed.seq)

    def _starts(self, tail: Tail, times: dict[int, int]) -> Iterator[Followed]:
        for start in tail.starts:
            if start.run == self._run:
                shown = self._reads.run(start.run).shown
                words = f"began with {shown}" if shown else "began"
                yield Followed(start.seq, times[start.seq], None, "started", "", words)

    def _decisions(self, tail: Tail, times: dict[int, int]) -> Iterator[Followed]:
        for each in tail.decisions:
            if each.run == self._run:
                yield Followed(each.seq, times[each.seq], None, each.decision.what.value, "", str(each.decision))

    def _events(self, tail: Tail, times: dict[int, int]) -> Iterator[Followed]:
        for event in tail.events:
            followed = self._event(event, times)
            if followed is not None:
                yield followed

    def _sweeps(self, tail: Tail, times: dict[int, int]) -> Iterator[Followed]:
        for sweep in sorted(tail.sweeps, key=lambda sweep: sweep.seq):
            if sweep.run == self._run:
                count = len(tasks_in(sweep.first, sweep.last, sweep.left))
                text = f"{count:,} tasks were cancelled with the run"
                yield Followed(sweep.seq, times[sweep.seq], None, "cancelled", "", text)

    def _event(self, event: Event, times: dict[int, int]) -> Followed | None:
        row = self._reads.task(event.task)
        if row is None or row.run != self._run:
            return None
        earlier: Sequence[Event] = ()
        if event.n > 1 and event.status is not Status.REOPENED:
            earlier = self._reads.events(event.task, event.task)[: event.n - 1]
        attempt = 1 + fold(earlier).attempts
        return Followed(
            event.seq,
            times[event.seq],
            event.task,
            event.status.name.lower(),
            call_text(row.kind, row.body),
            event_text(event, attempt, earlier),
            event.took,
            row.queue,
            traceback_of(event),
        )
