"""Jobs as people see them: where each stands, and lists of them from the newest back.

Promises: what is told of jobs that are asked for together was true at one moment. A list reads a page at a time,
however many it leaves out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import msgspec

from ramify.errors import RunForgotten
from ramify.inspect.lives import Commits
from ramify.model.call import Extra
from ramify.model.event import Status
from ramify.model.job import QUEUES, JobState, job_state
from ramify.model.key import key_bytes
from ramify.model.policy import added_of
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import Row
from ramify.store.reads import Reads, TaskStanding

_PAGE = 200


class JobStanding(msgspec.Struct, frozen=True):
    """Where a job stands: its row, None when it is not there; how it ended, with what and in which commit.

    While it has not ended, it knows when it was `offered`, by the store's clock.
    """

    state: JobState
    row: Row | None = None
    ended: Status | None = None
    value: bytes | None = None
    seq: int | None = None
    offered: int | None = None


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs are meant: all that fit what is given. `before` and `since` are about `Standings.when`."""

    kind: str | None = None
    state: JobState | None = None
    queue: str | None = None
    key: str | None = None
    headers: Mapping[str, str] = {}
    before: int | None = None
    since: int | None = None

    def fits_row(self, row: Row) -> bool:
        """Whether a job fits that has this row, as far as that tells."""
        return (
            row.parent is None
            and self.kind in (None, row.kind)
            and (self.key is None or row.key == key_bytes(self.key))
            and (not self.headers or self.headers.items() <= (Extra.decode(row.more).headers or {}).items())
        )

    def fits(self, standing: JobStanding, standings: Standings) -> bool:
        """Whether a job fits that stands there."""
        if self.state not in (None, standing.state):
            return False
        if self.before is None and self.since is None:
            return True
        at = standings.when(standing) or 0
        return (self.before is None or at < self.before) and (self.since is None or at >= self.since)


def standing_of(reads: Reads, task: int) -> JobStanding:
    """Where a job stands; also one that never was."""
    return Standings(reads).of([task])[task]


class Standings:
    """Where jobs stand, for who asks about many: what they share is read once."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._commits = Commits(reads)
        self._alive: dict[int, bool] = {}

    def of(self, tasks: Sequence[int]) -> dict[int, JobStanding]:
        """All of these jobs, at one moment."""
        found = self._reads.standings(tasks)
        return {task: self._of(found.get(task)) for task in tasks}

    def _of(self, task: TaskStanding | None) -> JobStanding:
        if task is None:
            return JobStanding(JobState.NOT_FOUND)
        state = job_state(task.ended, held=task.segment is not None and self._is_held(task.segment))
        offered = None if task.segment is None else added_of(task.segment.rank, task.row.priority)
        return JobStanding(state, task.row, task.ended, task.value, task.seq, offered)

    def when(self, standing: JobStanding) -> int | None:
        """When it ended, or, while it has not, when it was offered, by the store's clock; None when nobody knows."""
        return standing.offered if standing.seq is None else self._commits.when(standing.seq)

    def _is_held(self, segment: Segment) -> bool:
        if segment.state is not SegmentState.CLAIMED or segment.owner is None:
            return False
        if segment.owner not in self._alive:
            self._alive = {each.id: each.is_alive for each in self._reads.processes()}
        return self._alive.get(segment.owner, False)


def queues(reads: Reads) -> Iterator[StoredRun]:
    """Every queue of jobs there has been, the newest first; forgotten ones are left out."""
    after, more = 0, True
    while more:
        page = reads.runs(prefix=QUEUES, newest_first=True, after=after, limit=_PAGE)
        yield from (run for run in page.rows if run.endless and run.state is not RunState.FORGOTTEN)
        after, more = page.after, page.more


def jobs(reads: Reads, wanted: JobFilter, after: int = 0) -> Iterator[JobStanding]:
    """The jobs that fit, without what they brought forth, from the newest back; with `after`, those before that job."""
    chosen = [run for run in queues(reads) if wanted.queue is None or run.name == QUEUES + wanted.queue]
    standings = Standings(reads)
    rows = heapq.merge(*(map(partial(_newest_first, reads, wanted, after), chosen)), key=_id, reverse=True)
    fitting = (row.id for row in rows if wanted.fits_row(row))
    while some := list(islice(fitting, _PAGE)):
        found = standings.of(some).values()
        yield from (each for each in found if each.row is not None and wanted.fits(each, standings))


def _newest_first(reads: Reads, wanted: JobFilter, after: int, run: StoredRun) -> Iterator[Row]:
    more = True
    while more:
        try:
            page = reads.tasks(run.id, kind=wanted.kind, newest_first=True, after=after, limit=_PAGE)
        except RunForgotten:
            return
        yield from page.rows
        after, more = page.after, page.more


def _id(row: Row) -> int:
    return row.id
