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
from ramify.model.call import EXPIRED, Extra
from ramify.model.event import Status
from ramify.model.job import QUEUES, JobState, job_state
from ramify.model.key import key_bytes
from ramify.model.mark import reason_value
from ramify.model.policy import added_of
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import Segment, SegmentState
from ramify.model.task import Row
from ramify.store.reads import Reads, TaskStanding

_PAGE = 200


class JobStanding(msgspec.Struct, frozen=True):
    """Where a job stands: its row, None when it is not there; how it ended, with what and in which commit.

    While it has not ended, it knows when it was `offered`, by the store's clock, and which living process is its
    `holder`. One that has expired counts as ended, although no worker has come by, in no commit.
    """

    state: JobState
    row: Row | None = None
    ended: Status | None = None
    value: bytes | None = None
    seq: int | None = None
    offered: int | None = None
    holder: int | None = None


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
        """Return whether a job fits that has this row, as far as that tells."""
        return (
            row.parent is None
            and self.kind in (None, row.kind)
            and (self.key is None or row.key == key_bytes(self.key))
            and (not self.headers or self.headers.items() <= (Extra.decode(row.more).headers or {}).items())
        )

    def fits(self, standing: JobStanding, standings: Standings) -> bool:
        """Return whether a job fits that stands there."""
        if self.state not in (None, standing.state):
            return False
        if self.before is None and self.since is None:
            return True
        at = standings.when(standing) or 0
        return (self.before is None or at < self.before) and (self.since is None or at >= self.since)


def standing_of(reads: Reads, task: int, now: int) -> JobStanding:
    """Where a job stands at that time of the store; also one that never was."""
    return Standings(reads, now).of([task])[task]


class Standings:
    """Where jobs stand, for who asks about many: what they share is read once."""

    def __init__(self, reads: Reads, now: int) -> None:
        self._reads = reads
        self._now = now
        self._commits = Commits(reads)
        self._alive: dict[int, bool] = {}

    def of(self, tasks: Sequence[int]) -> dict[int, JobStanding]:
        """All of these jobs, at one moment."""
        found = self._reads.standings(tasks)
        return {task: self._of(found.get(task)) for task in tasks}

    def _of(self, task: TaskStanding | None) -> JobStanding:
        if task is None:
            return JobStanding(JobState.NOT_FOUND)
        segment = task.segment
        if segment is not None and self._has_expired(task.row, segment):
            return JobStanding(JobState.CANCELLED, task.row, Status.CANCELLED, reason_value(EXPIRED))
        holder = segment.owner if segment is not None and self._is_held(segment) else None
        offered = None if segment is None else added_of(segment.rank, task.row.priority)
        state = job_state(task.ended, held=holder is not None)
        return JobStanding(state, task.row, task.ended, task.value, task.seq, offered, holder)

    def when(self, standing: JobStanding) -> int | None:
        """When it ended, or, while it has not, when it was offered, by the store's clock; None when nobody knows."""
        if standing.seq is not None:
            return self._commits.when(standing.seq)
        if standing.ended is not None and standing.row is not None:
            return Extra.decode(standing.row.more).until
        return standing.offered

    def _has_expired(self, row: Row, segment: Segment) -> bool:
        """Return whether it was not begun in time, and only no worker has said so yet."""
        if row.more is None or segment.state not in (SegmentState.READY, SegmentState.LIMITED):
            return False
        extra = Extra.decode(row.more)
        if extra.until is None or extra.until > self._now:
            return False
        return extra.has_expired(self._now, self._reads.history(row.id), segment.deaths)

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


def jobs(reads: Reads, wanted: JobFilter, now: int, after: int = 0) -> Iterator[JobStanding]:
    """The jobs that fit, without what they brought forth, from the newest back; with `after`, those before that job."""
    chosen = [run for run in queues(reads) if wanted.queue is None or run.name == QUEUES + wanted.queue]
    standings = Standings(reads, now)
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
