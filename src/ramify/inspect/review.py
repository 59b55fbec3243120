"""Failures that look alike, largest group first, with one full record of each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ramify.inspect.find import every_run, title
from ramify.inspect.show import call_text
from ramify.inspect.status import counts_of
from ramify.model.outcome import Failure
from ramify.model.run import RunState
from ramify.store.error_groups import ErrorGroup
from ramify.store.reads import Reads

#: How many groups get an example with its traceback; the rest are counted.
DETAILED = 20


class Reviewed(msgspec.Struct, frozen=True):
    """One group, and the newest failure of its first example: in which run, what was called, the whole traceback."""

    group: ErrorGroup
    run: str | None = None
    call: str | None = None
    frames: Sequence[str] = ()
    traceback: str = ""


class Review(msgspec.Struct, frozen=True):
    """The largest groups of a run, or of all, and the failures that are in none of them: `others`.

    `looked_at` is how many failures that makes, of all `failures`: the newest, when there are very many.
    """

    groups: Sequence[Reviewed]
    others: int
    looked_at: int
    failures: int

    @property
    def complete(self) -> bool:
        """True if every failure was looked at."""
        return self.looked_at == self.failures


def review(reads: Reads, run: int | None) -> Review:
    """Group the failed and quarantined tasks of a run, or of all runs."""
    found = reads.errors(run)
    failures = 0 if found.complete else _failures(reads, run)
    groups = [_reviewed(reads, group, number < DETAILED) for number, group in enumerate(found.groups)]
    looked_at = found.looked_at
    # A failure that was counted may live again by now; there is at least one that was not looked at.
    return Review(groups, found.others, looked_at, looked_at if found.complete else max(failures, looked_at + 1))


def _failures(reads: Reads, run: int | None) -> int:
    runs = [run] if run is not None else [each.id for each in every_run(reads) if each.state is not RunState.FORGOTTEN]
    return sum(counts.failures for each in runs for counts in counts_of(reads, each).values())


def newest_in_words(looked_at: int, failures: int) -> str:
    """Which failures were looked at, when it was not all of them."""
    return f"the newest {looked_at:,} of {failures:,} failures"


def _reviewed(reads: Reads, group: ErrorGroup, detailed: bool) -> Reviewed:
    if not detailed or not group.examples:
        return Reviewed(group)
    task = group.examples[0]
    row, events = reads.task(task), reads.events(task, task)
    if row is None or not events:
        return Reviewed(group)
    failure = Failure.decode(events[-1].value)
    run = title(reads.run(row.run))
    return Reviewed(group, run, call_text(row.kind, row.body), failure.frames, failure.traceback)
