"""New lives in the SQLite store: `reopen`, the deliberate second chance of ended tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import json

from ramify.model import reopening
from ramify.model.arrivals import due_after
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.outcome import storable
from ramify.model.reopening import Candidate, Reopened
from ramify.model.run import Order, RunState, StoredRun
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, trim
from ramify.store.sqlite import commits, counters, editions, joins, keys, rows, runs
from ramify.store.sqlite.counters import Counted
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.log import swept as swept_tasks
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan

#: Of slots that are the own of tasks, each given as `[join, slot, task]`: those that were named for it after the task.
HEIRS = (
    "SELECT given.value ->> 2, waiter.task, waiter.id, slot FROM json_each(?) AS given"
    " CROSS JOIN waiter INDEXED BY waiter_join"
    " ON waiter.id = given.value ->> 0 AND slot = given.value ->> 1 AND waiter.task > given.value ->> 2"
)
#: Those of some tasks that are published tasks of a run, each with its span and its last event.
LAST_EVENTS = (
    "SELECT wanted.value, s.first, e.status, e.seq FROM carray(?1) AS wanted"
    " CROSS JOIN span s ON s.first = (SELECT max(first) FROM span WHERE first <= wanted.value)"
    " AND s.last >= wanted.value AND s.published AND s.run = ?2"
    " LEFT JOIN event e ON e.task = wanted.value AND e.n = (SELECT max(n) FROM event WHERE task = wanted.value)"
)
WRITE_EVENTS = (
    "INSERT INTO event (task, n, seq, status, value)"
    " SELECT value, ifnull((SELECT max(n) FROM event WHERE task = reopened.value), 0) + 1, ?2, ?3, CAST(?4 AS TEXT)"
    " FROM carray(?1) AS reopened"
)
OWN_JOINS = "SELECT id, filled = parts FROM carray(?) AS wanted CROSS JOIN joins ON id = wanted.value"
FIRE = "UPDATE joins SET fired = 1 WHERE id = ?"
HIGHEST = "SELECT max(n) FROM carray(?) AS wanted CROSS JOIN event ON task = wanted.value"

#: Tasks of one span in order, by the first id of the span.
BySpan = Mapping[int, Sequence[int]]


def reopen(
    db: Db,
    run: StoredRun,
    tasks: Sequence[int],
    settle: Mark | None,
    why: bytes | None,
    process: int,
    now: int,
) -> Reopened:
    """Begin new lives; see the contract."""
    reopening.check(run, tasks)
    if run.state is RunState.DRAINING:
        return Reopened(round=run.round)
    spans: dict[int, SqliteSpan] = {}
    ask = reopening.ReopeningQuestions(
        candidates=lambda tasks: _candidates(db, run.id, tasks, spans, now),
        joins=lambda wanted: joins.load(db, wanted),
        edition=lambda makers: editions.find(db, run.id, makers),
    )
    found = reopening.reopen(run.id, tasks, ask)
    joins.save(db, list(found.changed.values()))
    db.executemany("DELETE FROM waiter WHERE task = ? AND id = ? AND slot = ?", found.disowned)
    for task in found.waiting:
        _take_back(db, task)
    ended, superseded = found.ended, tuple(found.superseded)
    if not ended:
        return Reopened((), superseded, run.round, held=found.edition.held)
    if run.state.is_end:
        # Before anything of it is counted.
        counters.reopen(db, rows.ids([run.id]))
        db.execute("UPDATE run SET ended = NULL WHERE id = ?", (run.id,))
    replaced = editions.replace(db, run, found.edition, process, now)
    named = set() if settle is None else set(tasks)
    decided = () if settle is None else settle.told
    told = [(Status.REOPENED, why, ended.keys()), *((status, value, named) for status, value in decided)]
    _write(db, _by_span(spans, ended), spans, ended, told, process, now)
    at = run.round + 1
    if run.state.is_end:
        # What it was cancelled for is kept: it may end as cancelled again.
        db.execute(
            "UPDATE run SET state = ?, reason = iif(becomes = ?, NULL, reason) WHERE id = ?",
            (RunState.OPEN.value, RunState.DONE.value, run.id),
        )
        run = rows.run_row(db, run.id)
    _offer(db, run, _by_span(spans, [*ended, *found.waiting]), spans, at, now)
    if settle is not None:
        said = (storable(settle.reason), settle.value, storable(settle.by))
        rows.add_marks(db, (Mark(run.id, Scope.TASK, task, settle.status, *said) for task in ended if task in named))
    runs.begin(db, run.id, now)
    return Reopened(tuple(sorted(ended)), superseded, at, found.makers, replaced)


def _candidates(
    db: Db, run: int, tasks: Collection[int], spans: dict[int, SqliteSpan], now: int
) -> dict[int, Candidate]:
    """Return those of some tasks that are published tasks of a run; their spans are added to `spans`."""
    found = db.execute(LAST_EVENTS, (rows.ids(tasks), run)).fetchall() if tasks else []
    since = {task: seq or 0 for task, _, status, seq in found if status is None or not Status(status).is_end}
    swept = swept_tasks(db, run, since) if since else {}
    by_span: dict[int, list[int]] = defaultdict(list)
    for task, first, _, _ in found:
        by_span[first].append(task)
    spans.update(rows.spans_at(db, by_span.keys() - spans.keys()))
    slots: dict[int, list[tuple[int, int]]] = defaultdict(list)
    taken: dict[int, int] = {}
    for first, some in by_span.items():
        for task, join, slot in joins.memberships(db, spans[first], some):
            slots[task].append((join, slot))
        taken.update(keys.taken_by(db, spans[first], some, now))
    # Joins may have been forgotten with their run.
    known = joins.runs_of(db, {join for pairs in slots.values() for join, _ in pairs})
    slots = {task: [pair for pair in pairs if pair[0] in known] for task, pairs in slots.items()}
    heirs: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    given = [(*pair, task) for task, pairs in slots.items() for pair in pairs]
    for task, *heir in db.execute(HEIRS, (json.encode(given).decode(),)).fetchall():
        heirs[task].append((heir[0], heir[1], heir[2]))
    return {
        task: Candidate(
            Status.CANCELLED if task in swept else None if task in since else Status(status),
            taken.get(task),
            slots.get(task, ()),
            heirs.get(task, ()),
        )
        for task, _, status, _ in found
    }


def _by_span(spans: Mapping[int, SqliteSpan], tasks: Iterable[int]) -> BySpan:
    """Tasks of known spans by the first ids of these."""
    firsts = sorted(spans)
    found: dict[int, list[int]] = defaultdict(list)
    for task in sorted(tasks):
        found[firsts[bisect_right(firsts, task) - 1]].append(task)
    return found


def _write(
    db: Db,
    tasks: BySpan,
    spans: Mapping[int, SqliteSpan],
    ended: Mapping[int, Status],
    told: Sequence[tuple[Status, bytes | None, Collection[int]]],
    process: int,
    now: int,
) -> None:
    """Write the events that begin new lives, each for those of the tasks that it is about; with keys and counters."""
    log = CommitLog(db, process, 0, now)
    for first, some in tasks.items():
        span = spans[first]
        keys.retake(db, span, some)
        counts: Counter[Counted] = Counter()
        counts.subtract((span.run, span.kind, span.queue, ended[task]) for task in some)
        # By themselves: a result given by hand may be the same end once more, which counts in the totals.
        counters.count_all(db, counts, process)
        counts.clear()
        for status, value, whose in told:
            if its := [task for task in some if task in whose]:
                db.execute(WRITE_EVENTS, (rows.ids(its), log.seq, status, value))
                log.touched(its[0], its[-1], len(its))
                counts[span.run, span.kind, span.queue, status] += len(its)
        counters.count_all(db, counts, process)
    log.close()


def _take_back(db: Db, task: int) -> None:
    """Remove an unfinished task from its row; whoever holds that row loses it."""
    row = rows.covering(db, task)
    if row is None:
        return
    if row.state is SegmentState.CLAIMED:
        commits.put_back(db, row)
    joins.take_out(db, rows.around(db, row, task), [task])


def _offer(db: Db, run: StoredRun, tasks: BySpan, spans: Mapping[int, SqliteSpan], at: int, now: int) -> None:
    """Masked rows for the tasks: waiting where their join is not full, else in the later round."""
    for first, some in tasks.items():
        span = spans[first]
        is_full = {join: bool(full) for join, full in db.execute(OWN_JOINS, (rows.ids(some),)).fetchall()}
        db.executemany(FIRE, ((join,) for join, full in is_full.items() if full))
        loaded = joins.load(db, dict.fromkeys(is_full, (0,))) if span.due is not None else {}
        groups: dict[tuple[int, bool, int | None], list[int]] = defaultdict(list)
        for task in some:
            due = due_after(loaded[task], span.due, now) if task in loaded else None
            groups[(task - span.first) // MASK_WIDTH, not is_full.get(task, True), due].append(task)
        round = at if run.order is Order.ROUNDS else span.round
        for (_, waits, due), members in groups.items():
            low, last, left = trim(members[0], mask_of(members, members[0]))
            state = SegmentState.WAITING if waits else rows.state_for(run, round)
            ((highest,),) = db.execute(HIGHEST, (rows.ids(members),)).fetchall()
            SqliteSegment(
                0, span.first, run.id, round, span.kind, span.queue, span.lane, low, last, left,
                rows.rank(run, span, now), due, state, highest or 0,
            ).insert(db)  # fmt: skip
