"""New lives: `reopen`, the deliberate second chance of ended tasks, and what their makers made before.

What begins a new life, and what follows it, is said by `model/reopening.py`; here it is asked and carried out. The verb
writes three times in its one transaction: joins are set back before the ends of a replaced edition arrive at them, and
these have arrived before it is known which tasks are ready.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from ramify.model import reopening
from ramify.model.arrivals import Arrival, Standing, due_after
from ramify.model.decision import Said, What
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, reason_value
from ramify.model.outcome import storable
from ramify.model.process import Stamp
from ramify.model.reopening import Candidate, Edition, Reopened, Reopening, merged
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import MASK_WIDTH, SegmentState, bounds, mask_of, stretches, trim
from ramify.store.answers import Answer
from ramify.store.changes import Changes, Counted, Revived
from ramify.store.rows import SegmentRow, SpanRow, rank, state_for
from ramify.store.tables import Ask, Tables
from ramify.store.verbs import advancing, deciding, keys
from ramify.store.verbs.arriving import Arriving
from ramify.store.verbs.lines import lines_of, refill
from ramify.store.verbs.staging import put_back
from ramify.store.verbs.stamps import answered

#: By task.
Spans = Mapping[int, SpanRow]
#: An event for some tasks.
Told = tuple[Status, bytes | None, Collection[int]]


def reopen(
    tables: Tables, stamp: Stamp, number: int, tasks: Sequence[int], settle: Mark | None, said: Said, now: int
) -> Reopened:
    """Begin new lives; see the contract."""
    if (again := answered(tables.load(Ask(now, stamp)).session, stamp, "reopen")) is not None:
        return again.reopened
    run = deciding.run_of(tables, number)
    # The numbers in the log are those of commits.
    changes, lines = Changes(stamp.process, 0, now), set[str]()
    answer = _reopen(tables, changes, run, tasks, settle, said, lines)
    if answer.tasks:
        tables.write(changes)
        refill(tables, tables.limits(), lines, now)
        advancing.begin(tables, run.id, now)
    tables.write(Changes(stamp.process, stamp.n, now, answer=Answer("reopen", reopened=answer)))
    return answer


def _reopen(
    tables: Tables,
    changes: Changes,
    run: StoredRun,
    tasks: Sequence[int],
    settle: Mark | None,
    said: Said,
    lines: set[str],
) -> Reopened:
    """Begin new lives. The lines of limits whose place or head goes are added to `lines`."""
    reopening.check(run, tasks)
    if run.state is RunState.DRAINING:
        return Reopened(round=run.round)
    spans: dict[int, SpanRow] = {}
    ask = reopening.ReopeningQuestions(
        candidates=lambda tasks: _candidates(tables, run.id, tasks, spans, changes.now),
        joins=tables.joins,
        edition=lambda makers: _edition(tables, run.id, makers),
    )
    found = reopening.reopen(run.id, tasks, ask)
    superseded = tuple(found.superseded)
    if not found.ended:
        return Reopened((), superseded, run.round, held=found.edition.held)
    run = _set_back(tables, changes, run, found, lines)
    replaced = _replace(tables, changes, run, found.edition, lines)
    # What a result by hand means to a task is told of those that were named, not of all that follow them.
    named = set() if settle is None else set(tasks)
    told: list[Told] = [(Status.REOPENED, reason_value(said.reason, said.by), found.ended.keys())]
    told += () if settle is None else ((status, value, named) for status, value in settle.told)
    highest = _tell(tables, changes, spans, found.ended, told)
    keys.retake(tables, changes, {task: spans[task] for task in found.ended})
    highest.update(tables.numbers(found.waiting))
    _offer(tables, changes, run, sorted([*found.ended, *found.waiting]), spans, highest)
    if settle is not None:
        why = (storable(settle.reason), settle.value, storable(settle.by))
        changes.marks += (Mark(run.id, Scope.TASK, task, settle.status, *why) for task in found.ended if task in named)
    deciding.note(changes, run, What.REOPENED, said)
    return Reopened(tuple(sorted(found.ended)), superseded, run.round + 1, found.makers, replaced)


def _candidates(
    tables: Tables, run: int, tasks: Collection[int], spans: dict[int, SpanRow], now: int
) -> dict[int, Candidate]:
    """Return those of some tasks that are published tasks of a run; their spans are added to `spans`."""
    here = {task: span for task, span in tables.spans_of(tasks).items() if span.published and span.run == run}
    spans.update(here)
    ended = tables.endings(here)
    slots: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for task, span in here.items():
        if span.join is not None:
            slots[task].append((span.join, task + span.shift))
    for task, join, slot in tables.waiters(sorted(here)):
        slots[task].append((join, slot))
    # Joins may have been forgotten with their run.
    known = tables.runs_of_joins({join for pairs in slots.values() for join, _ in pairs})
    given = [(task, *pair) for task, pairs in slots.items() for pair in pairs if pair[0] in known]
    heirs: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for task, *heir in tables.heirs(given):
        heirs[task].append((heir[0], heir[1], heir[2]))
    theirs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for task, join, slot in given:
        theirs[task].append((join, slot))
    taken = keys.taken_by(tables, here, now)
    return {
        task: Candidate(ended.get(task), taken.get(task), theirs.get(task, ()), heirs.get(task, ())) for task in here
    }


def _edition(tables: Tables, run: int, makers: Collection[int]) -> Edition:
    """Return what these tasks of a run have made, and what that has made, as far as it was not replaced."""
    made: list[tuple[int, int]] = []
    ahead: Sequence[tuple[int, int]] = merged((task, task) for task in makers)
    while ahead:
        ahead = merged(tables.made_by(run, ahead))
        made += ahead
    edition = Edition(merged(made))
    claimed = tables.rows_of(run, [SegmentState.CLAIMED])
    held = (task for row in claimed for task in row.tasks if task in edition)
    return Edition(edition.ranges, min(held, default=None))


def _set_back(tables: Tables, changes: Changes, run: StoredRun, found: Reopening, lines: set[str]) -> StoredRun:
    """Let joins wait again, and open a run that had ended; the run as it is then."""
    changes.reset += found.changed.values()
    changes.disowned += found.disowned
    waiting = sorted(found.waiting)
    rows = tables.covering(waiting)
    lines.update(lines_of(tables.limits(), rows))
    for row in rows:
        # Whoever holds the row of a task that waits once more loses it.
        if row.state is SegmentState.CLAIMED:
            put_back(changes, run, row)
        near = waiting[bisect_left(waiting, row.first) : bisect_right(waiting, row.last)]
        for stretch in stretches(task for task in near if row.covers(task)):
            deciding.cut_out(changes, row, stretch[0], stretch[-1])
    if run.state.is_end:
        # What it was cancelled for is kept: it may end as cancelled again.
        (at,) = tables.standings([run.id])
        reason = None if at.bound_for is RunState.DONE else run.reason
        changes.revived.append(Revived(run.id, reason))
        run = replace(run, state=RunState.OPEN, reason=reason, ended=None)
    tables.write(changes)
    changes.go_on()
    return run


def _replace(tables: Tables, changes: Changes, run: StoredRun, edition: Edition, lines: set[str]) -> int:
    """End all of an edition as replaced; how many tasks that are."""
    if not edition.ranges:
        return 0
    unfinished: Counter[int] = Counter()
    rows = tables.rows_over(edition.ranges)
    lines.update(lines_of(tables.limits(), rows))
    for row in rows:
        for first, last in edition.over(row.first, row.last):
            unfinished[row.span] += deciding.cut_out(changes, row, first, last)
    pieces = tables.pieces(edition.ranges)
    arrivals: list[Arrival] = []
    for span, first, last, ends in pieces:
        what = (span.run, span.kind, span.queue)
        size = last - first + 1
        for status, many in ends.items():
            changes.lowered[*what, status] += many
        changes.counts[*what, Status.REPLACED] += size
        # What has no end, and is in no row, a sweep has cancelled.
        changes.lowered[*what, Status.CANCELLED] += size - sum(ends.values())
        if span.join is not None and span.join not in edition:
            arrivals += ((span.join, task + span.shift, Status.REPLACED) for task in range(first, last + 1))
    for span in {span.first: span for span, *_ in pieces}.values():
        changes.lowered[span.run, span.kind, span.queue, Status.CANCELLED] -= unfinished[span.first]
    changes.replaced += ((span, first, last) for span, first, last, _ in pieces)
    arrivals += ((join, slot, Status.REPLACED) for join, slot in tables.unfired(edition.ranges) if join not in edition)
    # One that had ended has arrived, and stays as it did.
    arriving = Arriving(tables, changes, {})
    arriving.arrive(run.id, run.round + 1, arrivals)
    arriving.settle()
    tables.write(changes)
    changes.go_on()
    return sum(last - first + 1 for first, last in edition.ranges)


def _tell(
    tables: Tables,
    changes: Changes,
    spans: Spans,
    ended: Mapping[int, Status],
    told: Iterable[Told],
) -> dict[int, int]:
    """Add the events that begin new lives, each for those of the tasks that it is about; their highest numbers."""
    changes.is_logged = True
    highest = dict.fromkeys(ended, 0) | dict(tables.numbers(sorted(ended)))
    before: Counter[Counted] = Counter(_counted(spans[task], status) for task, status in ended.items())
    changes.lowered.update(before)
    for status, value, whose in told:
        for some in _near([task for task in sorted(ended) if task in whose]):
            for task in some:
                highest[task] += 1
            changes.tell(some, bounds(some), [highest[task] for task in some], status, [value] * len(some))
            changes.counts.update(_counted(spans[task], status) for task in some)
    return highest


def _near(tasks: Sequence[int]) -> Iterable[Sequence[int]]:
    """Neighbours together, so that who reads the ranges of a commit is not led through all that lies between."""
    begin = 0
    for place in range(1, len(tasks) + 1):
        if place == len(tasks) or tasks[place] - tasks[place - 1] > MASK_WIDTH:
            yield tasks[begin:place]
            begin = place


def _counted(span: SpanRow, status: Status) -> Counted:
    return span.run, span.kind, span.queue, status


def _offer(
    tables: Tables, changes: Changes, run: StoredRun, tasks: Sequence[int], spans: Spans, highest: Mapping[int, int]
) -> None:
    """Add masked rows for the tasks: waiting where their join is not full, else in the later round."""
    joins = tables.joins(dict.fromkeys(tasks, ()))
    for join in joins.values():
        if join.is_full and not join.fired:
            join.fired = True
            changes.reset.append(join)
    groups: dict[tuple[int, int, bool, int | None], list[int]] = defaultdict(list)
    for task in tasks:
        span, own = spans[task], joins.get(task)
        due = None if own is None else due_after(own, span.due, changes.now)
        groups[span.first, (task - span.first) // MASK_WIDTH, _waits(own), due].append(task)
    for (_, _, waits, due), members in groups.items():
        span = spans[members[0]]
        round = run.round + 1 if run.order is Order.ROUNDS else span.round
        first, last, left = trim(members[0], mask_of(members, members[0]))
        state = SegmentState.WAITING if waits else state_for(run, round)
        changes.segments.append(
            SegmentRow(
                0, span.first, run.id, round, span.kind, span.queue, span.lane, first, last, left,
                rank(run, span.priority, span.round, changes.now), due, state,
                max(highest.get(task, 0) for task in members),
            )
        )  # fmt: skip


def _waits(join: Standing | None) -> bool:
    return join is not None and not join.is_full
