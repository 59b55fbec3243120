"""When things happened in a run: in all, node by node, attempt by attempt, and decision by decision.

Promises: attempts come page by page, so that one page is held at a time, whatever the size of the run. Tasks of ours,
such as those that make the items of a map, are left out, as they are of results.

An attempt ends when it is saved, and began as long before as it took; how long is not known of one that took no more
than a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from ramify.errors import ConfigError
from ramify.inspect.find import title
from ramify.inspect.lives import Commits
from ramify.inspect.run_graph import graph_of, has_nodes
from ramify.inspect.status import Counts, counts_of
from ramify.inspect.words import instant
from ramify.model.event import ATTEMPTED, Event, Status
from ramify.model.key import key_text
from ramify.model.process import Process
from ramify.model.segment import stretches
from ramify.model.task import Row, is_own
from ramify.store.contract import Store
from ramify.store.reads import CommitRow, Reads

PAGE = 1_000
#: For how many tasks it is kept in mind to which node they belong.
_KEPT = 10_000


class TimelineRow(msgspec.Struct, frozen=True):
    """One attempt: its task and node, its times, its process and its outcome.

    `node` is the node of a DAG that the task belongs to: for an item of a map, the map. `attempt` counts within a
    `life` of the task. `pid` and `host` are known unless the process is long gone.
    """

    node: str | None
    task: int
    kind: str
    attempt: int
    life: int
    start: datetime
    end: datetime
    status: Status
    process: int
    pid: int | None = None
    host: str | None = None


class DecisionRow(msgspec.Struct, frozen=True):
    """A decision about a run: its kind, who made it, why and when.

    `what` is paused, resumed, cancelled, reopened or forgotten. What a rule of a program decides is `by` nobody.
    """

    what: str
    by: str
    reason: str
    at: datetime


class RunSummary(msgspec.Struct, frozen=True):
    """The numbers of a run: its tasks, its start and its end. `failed` includes quarantined tasks.

    `duration` is the time until now while the run has not ended.
    """

    total: int
    done: int
    failed: int
    skipped: int
    started: datetime
    finished: datetime | None
    duration: timedelta


def summary(store: Store, run: int) -> RunSummary:
    """From counters, so that it costs the same for any number of tasks."""
    counts = sum(counts_of(store.reads, run).values(), Counts())
    found = store.reads.run(run)
    until = store.now() if found.ended is None else found.ended
    return RunSummary(
        counts.added,
        counts.done,
        counts.failures,
        counts.skipped,
        instant(found.created),
        None if found.ended is None else instant(found.ended),
        timedelta(microseconds=max(0, until - found.created)),
    )


def decisions(reads: Reads, run: int) -> Iterator[DecisionRow]:
    """The decisions about a run, in their order."""
    after, more = 0, True
    while more:
        page = reads.decisions(run, after=after)
        yield from (DecisionRow(each.what.value, each.by, each.reason, instant(each.at)) for each in page.rows)
        after, more = page.after, page.more


def durations(store: Store, run: int) -> dict[str, float]:
    """By node, how many seconds it took from the start of its first attempt to its end."""
    stored = store.reads.run(run)
    graph = graph_of(store, stored)
    if graph is None:
        raise ConfigError(f"run {title(stored)} is not a run of a DAG and has no nodes. Use timeline().")
    return {node.id: node.seconds for node in graph.nodes if node.seconds is not None}


def timeline(reads: Reads, run: int) -> Iterator[TimelineRow]:
    """The attempts that have ended, by task."""
    commits, nodes = Commits(reads), _Nodes(reads, has_nodes(reads, run))
    processes = {process.id: process for process in reads.processes()}
    after, more = 0, True
    while more:
        page = reads.tasks(run, after=after, limit=PAGE)
        rows = {row.id: row for row in page.rows if not is_own(row.kind)}
        for stretch in stretches(sorted(rows)):
            for event, attempt, life in _numbered(reads.events(stretch[0], stretch[-1])):
                row, commit = rows[event.task], commits.at(event.seq)
                # What is forgotten at this moment is not told.
                if commit is not None:
                    process = processes.get(commit.process)
                    yield _row(row, nodes.of(row), event, attempt, life, commit, process)
        after, more = page.after, page.more


def _row(
    row: Row, node: str | None, event: Event, attempt: int, life: int, commit: CommitRow, process: Process | None
) -> TimelineRow:
    return TimelineRow(
        node,
        row.id,
        row.kind,
        attempt,
        life,
        instant(commit.at - (event.took or 0)),
        instant(commit.at),
        event.status,
        commit.process,
        None if process is None else process.pid,
        None if process is None else process.host,
    )


def _numbered(events: Iterable[Event]) -> Iterator[tuple[Event, int, int]]:
    """The events that tell of attempts, each with the number of its attempt and life."""
    task, attempt, life = 0, 1, 1
    before: Event | None = None
    for event in events:
        if event.task != task:
            task, attempt, life, before = event.task, 1, 1, None
        decided = before is not None and before.status is Status.DECIDED
        if event.status is Status.REOPENED:
            attempt, life = 1, life + 1
        elif (event.status in ATTEMPTED and not decided) or event.took is not None:
            yield event, attempt, life
            attempt += event.status is not Status.DEFERRED
        before = event


class _Nodes:
    """To which nodes tasks belong: each to that of the task that made it."""

    def __init__(self, reads: Reads, has_nodes: bool) -> None:
        self._reads = reads
        self._has_nodes = has_nodes
        self._known: dict[int, str | None] = {}

    def of(self, row: Row) -> str | None:
        """The id of its node; None in a run that has none."""
        if not self._has_nodes:
            return None
        passed: list[int] = []
        at: Row | None = row
        while at is not None and at.parent is not None and at.parent not in self._known:
            passed.append(at.parent)
            at = self._reads.task(at.parent)
        if at is None:
            return None
        node = key_text(at.key) if at.parent is None else self._known[at.parent]
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known.update(dict.fromkeys(passed, node))
        return node
