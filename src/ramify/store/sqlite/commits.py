"""Commits in the SQLite store: the one path that writes ends. Order within a part: as in the reference store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice, repeat

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrival, Arrivals, Slot
from ramify.model.commit import NO_HEIRS, Part, check_part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.lanes import apart
from ramify.model.links import check_once
from ramify.model.mark import Scope
from ramify.model.process import Stamp
from ramify.model.run import StoredRun
from ramify.model.segment import bounds, full, mask_of, tasks_in, trim
from ramify.model.task import NewTasks
from ramify.store.sqlite import adding, bulk, context, counters, joins, keys, rows, whole
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import CommitLog, SqliteSegment, SqliteSpan

MARKED = "SELECT value FROM carray(?) AS wanted WHERE EXISTS (SELECT 1 FROM mark WHERE run = wanted.value)"
ENDED = "SELECT 1 FROM run WHERE id = ? AND ended IS NOT NULL"

#: Columns of new tasks in the form they are bound in, by the first id of their group.
Columns = Mapping[int, bulk.TaskColumns]


def prepare(parts: Sequence[Part]) -> Columns:
    """Check the parts by themselves and bring their columns into form, before the write lock is taken."""
    for part in parts:
        check_part(part)
    # Of those with keys some may be dropped.
    unkeyed = (tasks for part in parts for tasks in part.children if tasks.keys is None)
    return {tasks.first: bulk.TaskColumns.of(tasks) for tasks in unkeyed}


def check(db: Db, stamp: Stamp, parts: Sequence[Part]) -> dict[bytes, SqliteSegment]:
    """The rows of the parts whose token is valid. Refuses the whole batch when one of those does not fit."""
    if len({part.token for part in parts}) != len(parts):
        raise BadPayload("two parts of one commit name the same token; merge them")
    valid: dict[bytes, SqliteSegment] = {}
    children: list[NewTasks] = []
    new_joins: list[NewJoins] = []
    held = holdings(db, stamp.process, [part.token for part in parts])
    for part in parts:
        row = held.get(part.token)
        if row is None:
            continue
        valid[part.token] = row
        if not whole.is_named(row, part):
            left = full(row.last - row.first + 1) if row.left is None else row.left
            if part.tasks and (min(part.tasks) < row.first or mask_of(part.tasks, row.first) & ~left):
                raise BadPayload("a part names a task that is not unfinished in its claim")
        if part.children or part.joins or part.waiters:
            joins.check(db, part.children, part.joins, part.waiters)
        for first in (*part.publish, *part.discard):
            adding.staged(db, first, part.token)
        children += part.children
        new_joins += part.joins
    check_once(new_joins)
    adding.check_room(db, children)
    return valid


def holding(db: Db, process: int, token: bytes) -> SqliteSegment | None:
    """The row that this process holds under this token."""
    return holdings(db, process, [token]).get(token)


def holdings(db: Db, process: int, tokens: Sequence[bytes]) -> dict[bytes, SqliteSegment]:
    """The rows that this process holds under these tokens, by token."""
    found = rows.claimed_under(db, tokens)
    return {row.token: row for row in found if row.token is not None and row.owner == process}


def refuse(db: Db, stamp: Stamp, parts: Iterable[Part], now: int) -> None:
    """Record parts that came too late, once."""
    values = [(stamp.process, stamp.n, part.token, len(part.tasks), now) for part in parts]
    db.executemany("INSERT OR IGNORE INTO refusal VALUES (?,?,?,?,?)", values)


def write(
    db: Db, stamp: Stamp, parts: Sequence[Part], columns: Columns, now: int
) -> tuple[int, tuple[bytes, ...], set[int]]:
    """Write the parts whose token is valid and record the others: its place in the log, who was refused, what grew."""
    valid = check(db, stamp, parts)
    guarded = [(valid[part.token], part) for part in parts if part.token in valid]
    seq = 0
    if guarded:
        log = CommitLog(db, stamp.process, stamp.n, now)
        seq = log.seq
        Commit(db, log, stamp.process, columns, now).write(guarded)
        log.close()
    refused = [part for part in parts if part.token not in valid]
    refuse(db, stamp, refused, now)
    grown = {row.run for row, part in guarded if part.children or part.publish}
    return seq, tuple(part.token for part in refused), grown


class Commit:
    """A commit being written: what its parts have in common. Neither runs nor spans change while it is."""

    def __init__(self, db: Db, log: CommitLog, process: int, columns: Columns, now: int) -> None:
        self.db, self.log, self.process, self.columns, self.now = db, log, process, columns, now
        self._runs: Mapping[int, StoredRun] = {}
        #: The runs that have marks.
        self.marked: Collection[int] = ()
        #: What the parts written so far mean to joins, settled together at the end.
        self.arrivals: list[Arrivals] = []
        self.empty: dict[int, tuple[int, int]] = {}
        #: The same of tasks that are done, to be looked up at the end: unless a part makes others wait for them.
        self.done: list[joins.DoneTasks] = []
        self.links = False

    def run(self, number: int) -> StoredRun:
        """One of the runs whose tasks end."""
        return self._runs[number]

    def write(self, guarded: Sequence[tuple[SqliteSegment, Part]]) -> None:
        """Write parts in their order, each with the row that it may end tasks of.

        Neighbours that only end whole rows are written together: in lanes of their own, tasks have a row each.
        """
        self.links = any(part.waiters or part.heirs for _, part in guarded)
        spans = rows.spans_at(self.db, (row.span for row, _ in guarded))
        runs = {row.run for row, _ in guarded}
        self.marked = {run for (run,) in self.db.execute(MARKED, (rows.ids(runs),)).fetchall()}
        self._runs = rows.runs_at(self.db, runs)

        def is_alike(each: tuple[SqliteSegment, Part]) -> bool:
            row, part = each
            return row.run not in self.marked and whole.is_simple(row, spans[row.span], part)

        for alike, some in groupby(guarded, key=is_alike):
            batch = [(row, spans[row.span], part) for row, part in some]
            if alike and len(batch) > 1:
                self._write_together(batch)
            else:
                for row, span, part in batch:
                    _apply(self, row, span, part)
        joins.arrive(self.db, self.arrivals, self.empty, self.now, self.done, self._runs)

    def _write_together(self, batch: whole.Batch) -> None:
        whole.end(self.db, self.log, batch, self.process)
        self.arrivals += whole.arrivals(self.db, batch)
        placed = (
            adding.place(self.run(row.run), tasks, row.round + 1, self.columns)
            for row, _, part in batch
            for tasks in part.children
        )
        while some := list(islice(placed, adding.BATCH)):
            adding.add_unkeyed(self.db, some, self.process, self.now)


def _apply(commit: Commit, row: SqliteSegment, span: SqliteSpan, part: Part) -> None:
    """Write one guarded part."""
    db, log, process, now = commit.db, commit.log, commit.process, commit.now
    run = commit.run(row.run)
    below = row.round + 1
    if part.sets:
        context.write(db, log, row, part.sets, process, now)
    highest = _write_events(db, log, row, part)
    ended = _ended(part)
    _count(db, span, part, process)
    is_marked = row.run in commit.marked
    end_tasks(db, span, ended, now, is_marked=is_marked)
    if is_marked:
        _forget_lateness(db, row.run, part.tasks)
    commit.empty.update(joins.create(db, row.run, part.joins, below))
    arrivals: list[Arrival] = []
    became: dict[int, int] = {}
    for added in adding.add(db, run, part.children, below, process, now, columns=commit.columns):
        arrivals += added.arrivals
        if part.waiters or part.heirs:
            became.update(added.moved())
    arrivals += joins.wait(db, part.children, part.waiters, became)
    if part.heirs:
        inherited = [(part.heirs[t], join, slot) for t, join, slot in joins.memberships(db, span, list(part.heirs))]
        heirs = [NewWaiters(*zip(*inherited, strict=True))] if inherited else []
        arrivals += joins.wait(db, part.children, heirs, became)
    for first in part.discard:
        adding.discard(db, adding.staged(db, first, part.token))
    for first in part.publish:
        arrivals += adding.publish(db, log, run, adding.staged(db, first, part.token), process, now)
    done: Sequence[Slot] = ()
    if not ended.all_done or part.heirs:
        arrivals += arrivals_of(db, span, ended, part.heirs)
    elif commit.links:
        done = joins.slots_of(db, span, ended.tasks)
    elif ended.tasks:
        commit.done.append(joins.DoneTasks(row.run, below, span, ended.tasks))
    commit.arrivals.append(Arrivals(row.run, below, arrivals, done))
    _shrink(db, row, part, ended, highest)


class EndedTasks:
    """The tasks of a part that ended: a range when all did, pairs with their status otherwise."""

    def __init__(self, tasks: Sequence[int], statuses: Status | Sequence[Status]) -> None:
        self.tasks, self._statuses = tasks, statuses

    @property
    def all_done(self) -> bool:
        """True if it is known without a look at each that all of them ended well."""
        return self._statuses is Status.DONE

    def __iter__(self) -> Iterator[tuple[int, Status]]:
        one_for_all = isinstance(self._statuses, Status)
        return zip(self.tasks, repeat(self._statuses) if one_for_all else self._statuses, strict=False)  # type: ignore[arg-type]


def _ended(part: Part) -> EndedTasks:
    if isinstance(part.statuses, Status):
        return EndedTasks(part.tasks if part.statuses.is_end else (), part.statuses)
    pairs = [(t, s) for t, s in zip(part.tasks, part.statuses, strict=True) if s.is_end]
    return EndedTasks([t for t, _ in pairs], [s for _, s in pairs])


def _write_events(db: Db, log: CommitLog, row: SqliteSegment, part: Part) -> int:
    """One event for each task of the part; the highest event number."""
    if not part.tasks:
        return 0
    log.touched(*bounds(part.tasks), len(part.tasks))
    numbers: int | list[int] = 1
    if row.attempt:
        known = dict(
            db.execute("SELECT task, max(n) FROM event WHERE task BETWEEN ? AND ? GROUP BY task", (row.first, row.last))
        )
        numbers = [known.get(task, 0) + 1 for task in part.tasks]
    bulk.insert_events(db, log.seq, part.tasks, numbers, part.statuses, part.values, part.took)
    return numbers if isinstance(numbers, int) else max(numbers)


def _count(db: Db, span: SqliteSpan, part: Part, process: int) -> None:
    statuses = part.statuses
    counts = {statuses: len(part.tasks)} if isinstance(statuses, Status) else Counter(statuses)
    counters.count_all(
        db, {(span.run, span.kind, span.queue, status): times for status, times in counts.items()}, process
    )


def end_tasks(
    db: Db, span: SqliteSpan, ended: Iterable[tuple[int, Status]], now: int, *, is_marked: bool = True
) -> None:
    """Do what every end entails besides its event and its arrivals: release the key, remove the mark."""
    keys.release(db, span, ended, now)
    if is_marked:
        db.executemany(
            "DELETE FROM mark WHERE run = ? AND task = ? AND scope = ?",
            [(span.run, task, Scope.TASK) for task, _ in ended],
        )


def _forget_lateness(db: Db, run: int, tasks: Iterable[int]) -> None:
    """Forget which tasks ran out of time: they have their events now, and may be tried again."""
    db.executemany(
        "DELETE FROM mark WHERE run = ? AND task = ? AND status = ?", [(run, task, Status.RETRYING) for task in tasks]
    )


def arrivals_of(db: Db, span: SqliteSpan, ended: EndedTasks, heirs: Mapping[int, int] = NO_HEIRS) -> list[Arrival]:
    """Return what the ends of these tasks mean to joins: their group's slot, and whoever waits for them."""
    found: list[Arrival] = []
    if not ended.tasks:
        return found
    status_of = joins.arriving(db, dict(ended))
    if span.join is not None:
        join, shift = span.join, span.shift
        found += ((join, task + shift, status) for task, status in status_of.items() if task not in heirs)
    waiting = joins.waiters_of(db, ended.tasks)
    if waiting:
        found += ((join, slot, status_of[task]) for task, join, slot in waiting if task not in heirs)
    return found


def _shrink(db: Db, row: SqliteSegment, part: Part, ended: EndedTasks, highest: int) -> None:
    """Clear the bits of what ended and of what comes back later; a row without bits goes, its staged ranges with it."""
    if not part.later and whole.is_named(row, part) and len(ended.tasks) == len(part.tasks):
        left = 0
    else:
        left = full(row.last - row.first + 1) if row.left is None else row.left
        left &= ~mask_of(ended.tasks, row.first)
    for later in part.later:
        mask = mask_of(later.tasks, row.first)
        left &= ~mask
        first, last, kept = trim(row.first, mask)
        state = rows.state_for(rows.run_row(db, row.run), row.round)
        is_over = later.awaits is not None and db.execute(ENDED, (later.awaits,)).fetchone() is not None
        due, awaits = later.wait(is_over)
        replace(
            row, first=first, last=last, left=kept, due=due, state=state, attempt=max(row.attempt, highest),
            owner=None, token=None, awaits=awaits,
        ).insert(db)  # fmt: skip
    if left and len(ended.tasks) < len(part.tasks) and highest > row.attempt:
        db.execute("UPDATE segment SET attempt = ? WHERE id = ?", (highest, row.id))
    if not left:
        adding.discard_of(db, row.token)
    rows.set_left(db, row, left)


def put_back(db: Db, row: SqliteSegment) -> None:
    """Offer a claimed row again as it is, and discard what was staged under it."""
    adding.discard_of(db, row.token)
    row.state, row.owner, row.token = rows.state_for(rows.run_row(db, row.run), row.round), None, None
    db.execute("UPDATE segment SET state = ?, owner = NULL, token = NULL WHERE id = ?", (row.state, row.id))


def come_apart(db: Db, row: SqliteSegment) -> None:
    """Put rows of one lane each in the place of one that has several."""
    if row.lane is not None or not rows.span_at(db, row.span).laned:
        return
    tasks = tasks_in(row.first, row.last, row.left)
    lanes = dict(db.execute("SELECT id, lane FROM task WHERE id BETWEEN ? AND ?", (row.first, row.last)))
    parts = apart(tasks, [lanes[task] for task in tasks])
    rows.drop(db, row)
    pieces = (replace(row, lane=lane, first=first, last=last, left=left) for lane, first, last, left in parts)
    db.executemany(rows.INSERT_SEGMENT, (piece.column_values() for piece in pieces))
