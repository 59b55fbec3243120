"""The oracle: read everything a store shows, and list what cannot be true.

It looks through `store.reads` only, so it works on every store, live or after a crash. It checks what must hold at any
moment between two verbs:

* every published unfinished task is set in exactly one live row, no finished one in any, nothing unpublished in one;
* events are numbered from 1 without a gap, a life ends at most once, and nothing follows on being replaced;
* counters say what spans and events say;
* an ended run has no live row, nobody awaits it, and no row is stuck where nobody will ever move it;
* joins have arrived as often as they say, and no full one still holds its task back;
* a line of a limit has a head unless its place is full, and nothing is in a line without a limit;
* numbers and times of a topic rise, up to its last number, and what a task published came with an end of it;
* a run that was forgotten has nothing to work on. How far it is gone is not asked.

It does not know what should have been created: whether children exist exactly once is for the test that made them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ramify.model.event import UNTRIED, Event, History, Status, Tally, fold
from ramify.model.join import Join
from ramify.model.limit import LIMITS, is_full, read_limits
from ramify.model.own_topics import FAILED, FAILURES_TOPIC
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import LIVE_STATES, MASK_WIDTH, Segment, SegmentState, tasks_in
from ramify.model.topic import StoredPublication, TopicNumbers
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT, Reads
from ramify.testing.paging import every

#: How many tasks of a run are asked for one by one, to see that single reads agree with ranges.
SAMPLE = 50
#: Complaints of one sort beyond this many say nothing new.
ENOUGH = 10


def check(store: Store) -> list[str]:
    """Return what is wrong with the contents of a store; empty when nothing is."""
    reads = store.reads
    runs = every(lambda after: reads.runs(after=after, limit=PAGE_LIMIT))
    rows = every(lambda after: reads.segments(after=after, limit=PAGE_LIMIT))
    by_run: dict[int, list[Segment]] = defaultdict(list)
    for row in rows:
        by_run[row.run].append(row)
    complaints = [
        f"row {r.id} is of run {r.run}, which does not exist" for r in rows if r.run not in {x.id for x in runs}
    ]
    ended = {run.id for run in runs if run.ended is not None}
    complaints += [f"row {r.id} awaits run {r.awaits}, which has ended" for r in rows if r.awaits in ended]
    dead = {p.id for p in reads.processes() if p.reaped}
    complaints += [complaint for row in rows for complaint in _row(row, dead)]
    complaints += _lines(reads, rows)
    complaints += [f"topic {topic.name!r}: {each}" for topic in _topics(reads) for each in _topic(reads, topic)]
    for run in runs:
        account = _forgotten(by_run[run.id]) if run.state is RunState.FORGOTTEN else _of_run(reads, run, by_run[run.id])
        complaints += [f"run {run.id}: {complaint}" for complaint in account]
    return complaints


def _lines(reads: Reads, rows: Sequence[Segment]) -> Iterator[str]:
    """Check that nobody waits in front of a free place."""
    limits = read_limits(tuple(value.value for value in reads.values(space=LIMITS, limit=PAGE_LIMIT)))
    heads = {(row.line, row.kind, row.queue) for row in rows if row.state is SegmentState.READY}
    for row in rows:
        if row.line is None:
            if row.state is SegmentState.LIMITED:
                yield f"row {row.id} is LIMITED and in no line"
            continue
        place = limits.place_of(row.line)
        if place is None or row.state not in (SegmentState.LIMITED, SegmentState.READY):
            yield f"row {row.id} is {row.state.name} in line {row.line}, of a limit that does not hold it"
        elif row.state is SegmentState.LIMITED and (row.line, row.kind, row.queue) not in heads:
            held = (r for r in rows if r.state is SegmentState.CLAIMED and place.counts(r.kind, r.queue, r.lane))
            if not is_full(place.limit.numbers, sum(len(r.tasks) for r in held)):
                yield f"row {row.id} is LIMITED in line {row.line}, which has room and no head"


def _topics(reads: Reads) -> Iterator[TopicNumbers]:
    after = ""
    while some := reads.topics(after=after, limit=PAGE_LIMIT):
        yield from some
        after = some[-1].name


def _topic(reads: Reads, topic: TopicNumbers) -> Iterator[str]:
    """Check that a reader of a topic gets all of it in order, and that tasks published with their ends."""
    before, found = StoredPublication(topic.name, topic.first - 1, b"", None, 0), False
    how = FAILED if topic.name == FAILURES_TOPIC else {Status.DONE}
    by_task: dict[int, int] = {}
    while some := reads.publications(topic.name, after=before.number if found else 0, limit=PAGE_LIMIT):
        for each in some:
            if not found and each.number != topic.first:
                yield f"it begins with {each.number}, and is said to begin with {topic.first}"
            if each.number <= before.number or each.at < before.at:
                yield f"number {each.number} of {each.at} comes after number {before.number} of {before.at}"
            if each.task is not None and len(by_task) < SAMPLE:
                by_task[each.task] = each.number
            before, found = each, True
    if before.number > topic.last or (not found and topic.first != topic.last + 1):
        yield f"its last number is {topic.last}, and it holds {topic.first} to {before.number}"
    # What a task published stays when it is forgotten.
    for task in reads.standings(list(by_task)):
        if how.isdisjoint(event.status for event in reads.events(task, task)):
            yield f"number {by_task[task]} was published by task {task}, which never ended so"


def _of_run(reads: Reads, run: StoredRun, rows: Sequence[Segment]) -> Iterator[str]:
    return _Account(reads, run, rows).complaints()


def _forgotten(rows: Sequence[Segment]) -> Iterator[str]:
    """Check that a forgotten run has nothing to work on; tasks that go with the next page may be left."""
    return (f"it was forgotten, and row {row.id} ({row.first}..{row.last}) is still there" for row in rows)


def _row(row: Segment, dead: set[int]) -> Iterator[str]:
    width = row.last - row.first + 1
    if row.left is not None and (width > MASK_WIDTH or not 0 < row.left < 1 << width):
        yield f"row {row.id} of {width} tasks has a mask that does not fit: {row.left:#x}"
    if (row.state is SegmentState.CLAIMED) != (row.owner is not None) and row.state is not SegmentState.STAGED:
        yield f"row {row.id} is {row.state.name} with owner {row.owner}"
    if row.owner in dead:
        yield f"row {row.id} is {row.state.name} by process {row.owner}, which was reaped"


class _Account:
    """One run with all its tasks, and the complaints about it."""

    def __init__(self, reads: Reads, run: StoredRun, rows: Sequence[Segment]) -> None:
        self.reads = reads
        self.run = run
        self.rows = rows
        tasks = every(lambda after: reads.tasks(run.id, after=after, limit=PAGE_LIMIT))
        self.kinds = {task.id: task.kind for task in tasks}
        self.histories = _histories(reads, run.id, self.kinds)

    def complaints(self) -> Iterator[str]:
        for some in (self._numbering(), self._cover(), self._counters(), self._singles(), self._joins(), self._stuck()):
            for seen, complaint in enumerate(some):
                if seen == ENOUGH:
                    yield "… and more like it"
                    break
                yield complaint

    def _numbering(self) -> Iterator[str]:
        for task, events in self.histories.items():
            told = [event for event in events if event.n]
            if [event.n for event in told] != list(range(1, len(told) + 1)):
                yield f"events of task {task} are numbered {[event.n for event in told]}"
            ended: Status | None = None
            for event in events:
                may_follow = ended is not Status.REPLACED and event.status in (Status.REOPENED, Status.REPLACED)
                if ended is not None and not may_follow:
                    yield f"task {task} has {event.status.name} after it ended as {ended.name} in the same life"
                ended = event.status if event.status.is_end else None

    def _cover(self) -> Iterator[str]:
        covered: Counter[int] = Counter()
        for row in self.rows:
            live = row.state in LIVE_STATES
            if live and self.run.state.is_end:
                yield f"ended as {self.run.state}, but row {row.id} ({row.first}..{row.last}) is {row.state.name}"
            for task in row.tasks:
                if (kind := self.kinds.get(task)) is None:
                    if live:
                        yield f"live row {row.id} holds task {task}, which is not published"
                elif not live:
                    yield f"{row.state.name} row {row.id} holds task {task}, which is published"
                elif kind != row.kind:
                    yield f"row {row.id} of {row.kind!r} holds task {task} of {kind!r}"
                else:
                    covered[task] += 1
        for task in self.kinds:
            ended, times = self.fate(task).ended, covered[task]
            if ended is not None and times:
                yield f"task {task} ended as {ended.name} and is still set in {times} live rows"
            elif ended is None and times != 1:
                yield f"unfinished task {task} is set in {times} live rows"

    def _counters(self) -> Iterator[str]:
        truth: Counter[tuple[str, int]] = Counter()
        for task, kind in self.kinds.items():
            truth[kind, Tally.ADDED] += 1
            if (ended := self.fate(task).ended) is not None:
                truth[kind, ended] += 1
            for event in self.histories.get(task, ()):
                truth[kind, event.status] += not event.status.is_end
        told = self.reads.counts(self.run.id)
        for kind in sorted({*told, *self.kinds.values()}):
            for what in (Tally.ADDED, *Status):
                if (says := told.get(kind, {}).get(what, 0)) != truth[kind, what]:
                    yield f"counter {what.name} of {kind!r} says {says}; there are {truth[kind, what]}"

    def _singles(self) -> Iterator[str]:
        sample = list(self.kinds)[:SAMPLE]
        standings = self.reads.standings(sample)
        for task in sample:
            if self.reads.history(task) != (fate := self.fate(task)):
                yield f"history of task {task} is {self.reads.history(task)}; its events add up to {fate}"
            if (row := self.reads.task(task)) is None or row.run != self.run.id or row.kind != self.kinds[task]:
                yield f"task {task} read alone is {row}"
            stands = standings.get(task)
            if stands is None or (stands.row, stands.ended, stands.segment is None) != (
                row,
                fate.ended,
                fate.ended is not None,
            ):
                yield f"task {task} stands at {stands}; its events add up to {fate}"

    def _joins(self) -> Iterator[str]:
        waiting = {task for row in self.rows if row.state is SegmentState.WAITING for task in row.tasks}
        joins = every(lambda after: self.reads.joins(self.run.id, after=after, limit=PAGE_LIMIT))
        for join in joins:
            if not 0 <= join.broken <= join.arrived <= join.needs:
                yield f"join {join.id} needs {join.needs}, has {join.arrived}, {join.broken} of them broken"
            if not self.run.state.is_end and join.fired != (join.arrived == join.needs):
                yield f"join {join.id} has {join.arrived} of {join.needs} and fired={join.fired}"
        for task in sorted(waiting - _held_back(joins)):
            yield f"task {task} waits for no join that is still to fire"

    def _stuck(self) -> Iterator[str]:
        if self.run.state is not RunState.OPEN:
            return
        barrier = self.run.order is Order.ROUNDS
        for row in self.rows:
            if row.state is SegmentState.GATED and (
                row.round <= self.run.round or (not barrier and not self.run.follows)
            ):
                yield f"row {row.id} of round {row.round} is gated in an open run at round {self.run.round}"
            if row.state is SegmentState.READY and barrier and row.round > self.run.round:
                yield f"row {row.id} of round {row.round} is ready in a run at round {self.run.round}"

    def fate(self, task: int) -> History:
        events = self.histories.get(task)
        return UNTRIED if events is None else _fold(events)


def _held_back(joins: Sequence[Join]) -> set[int]:
    return {join.id for join in joins if not join.fired}


def _histories(reads: Reads, run: int, kinds: Mapping[int, str]) -> dict[int, list[Event]]:
    """The events of each task in order; the end by a sweep is put in its place as an event with number 0."""
    histories: dict[int, list[Event]] = defaultdict(list)
    for span in every(lambda after: reads.spans(run=run, after=after, limit=PAGE_LIMIT)):
        for event in reads.events(span.first, span.last):
            if event.task in kinds:
                histories[event.task].append(event)
    for sweep in reads.sweeps(run):
        for task in tasks_in(sweep.first, sweep.last, sweep.left):
            told = histories[task]
            place = sum(event.seq < sweep.seq for event in told)
            told.insert(place, Event(task, 0, Status.CANCELLED, None, sweep.seq))
    return histories


def _fold(events: Sequence[Event]) -> History:
    """The history of a task; a sweep is an end, but not an event of its own."""
    swept = sum(not event.n for event in events)
    history = fold(events)
    return replace(history, events=history.events - swept)
