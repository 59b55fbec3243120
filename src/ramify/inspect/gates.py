"""Open gates: who waits for an answer, since when, and until when."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ramify.inspect.live import rows_of
from ramify.inspect.lives import Commits, lives_of
from ramify.inspect.show import key_text, tree_of
from ramify.model.gate import GATE, GateSpec
from ramify.model.policy import PARKED
from ramify.model.segment import Segment, SegmentState
from ramify.store.reads import Reads


class OpenGate(msgspec.Struct, frozen=True):
    """A gate that waits: its run and task, its name in the run, and what it asks for; times are the store's."""

    run: int
    task: int
    gate: str
    spec: GateSpec
    since: int | None
    until: int | None


def open_gates(reads: Reads, run: int | None = None) -> Iterator[OpenGate]:
    """The gates of a run, or of all, that wait for an answer."""
    commits = Commits(reads)
    for segment in rows_of(reads, run):
        if segment.kind == GATE and is_open(segment):
            for task in segment.tasks:
                yield _gate(reads, commits, segment, task)


def is_open(row: Segment | None) -> bool:
    """Whether the row of a gate waits for an answer. One that is to be skipped has no time to wait for."""
    return row is not None and row.state in (SegmentState.READY, SegmentState.GATED) and row.due is not None


def spec_of(body: bytes) -> GateSpec:
    """What a gate asks for, from its arguments."""
    tree = tree_of(body)
    return msgspec.convert(tree[0] if isinstance(tree, list) and tree else {"name": ""}, GateSpec)


def _gate(reads: Reads, commits: Commits, segment: Segment, task: int) -> OpenGate:
    row = reads.task(task)
    assert row is not None, f"task {task} is live and has no row"
    until = None if segment.due is None or segment.due >= PARKED else segment.due
    return OpenGate(row.run, task, key_text(row.key) or "", spec_of(row.body), _opened(reads, commits, task), until)


def _opened(reads: Reads, commits: Commits, task: int) -> int | None:
    """When the last of those ended that it waited for."""
    before = sorted(member for _, member in reads.members(task).rows)
    ends = [commits.when(life.seq) for life in lives_of(reads, before) if life.seq is not None]
    return max((end for end in ends if end is not None), default=None)
