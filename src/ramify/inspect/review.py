"""Failures that look alike, largest group first, with one full record of each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ramify.inspect.show import call_text
from ramify.model.outcome import Failure
from ramify.store.reads import ErrorGroup, Reads

#: How many groups get an example with its frames; the rest are counted.
DETAILED = 20


class Reviewed(msgspec.Struct, frozen=True):
    """One group, and the newest failure of its first example: what was called and where it was raised."""

    kind: str
    type: str
    text: str
    count: int
    examples: Sequence[int]
    call: str | None = None
    frames: Sequence[str] = ()


class Review(msgspec.Struct, frozen=True):
    """All groups of a run. `complete` is False when there were too many failures to look at each."""

    groups: Sequence[Reviewed]
    failures: int
    complete: bool


def review(reads: Reads, run: int) -> Review:
    """Group the failed and quarantined tasks of a run."""
    found = reads.errors(run)
    groups = [_reviewed(reads, group, number < DETAILED) for number, group in enumerate(found.groups)]
    return Review(groups, sum(group.count for group in groups), found.complete)


def _reviewed(reads: Reads, group: ErrorGroup, detailed: bool) -> Reviewed:
    plain = Reviewed(group.kind, group.type, group.text, group.count, group.examples)
    if not detailed or not group.examples:
        return plain
    task = group.examples[0]
    row, events = reads.task(task), reads.events(task, task)
    if row is None or not events:
        return plain
    return msgspec.structs.replace(
        plain, call=call_text(row.kind, row.body), frames=Failure.decode(events[-1].value).frames
    )
