"""Writing what a verb decided, in bulk: a few statements for each sort of row, however many there are."""

from __future__ import annotations

from collections.abc import Mapping

import apsw
import msgspec
from msgspec.structs import replace

from ramify.model.event import Status
from ramify.model.mark import Scope
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import pack
from ramify.store import tuples
from ramify.store.answers import remember
from ramify.store.changes import Believed, Changes, Placed
from ramify.store.sqlite import bulk, context, counters, editions, joins, lines, once, rows, topics, values
from ramify.store.sqlite.bulk import TaskColumns
from ramify.store.sqlite.file.db import Db

NEW_COMMIT = "INSERT INTO commits VALUES (NULL, ?, ?, ?, ?, ?)"
SAME_COMMIT = "UPDATE commits SET events = ?, ranges = ? WHERE seq = ?"
INSERT_RUN = f"INSERT INTO run ({tuples.RUN_COLUMNS}, becomes) VALUES ({','.join('?' * 25)})"
DECIDE = "INSERT INTO decision VALUES (?, ?, ?, ?)"
UNMARK = f"DELETE FROM mark WHERE run = ? AND task = ? AND scope = {Scope.TASK:d}"
FORGET_LATENESS = f"DELETE FROM mark WHERE run = ? AND task = ? AND status = {Status.RETRYING:d}"
DISOWN = "DELETE FROM waiter WHERE task = ? AND id = ? AND slot = ?"
UNSTAGE = (
    "UPDATE segment INDEXED BY fence SET state = 5, owner = NULL, token = NULL"
    " WHERE token IN (SELECT value FROM carray(?)) AND state = 4"
)
DROP = "DELETE FROM segment WHERE id IN (SELECT value FROM carray(?))"
GROW_SPAN = "UPDATE span SET last = ?, low_parent = ?, high_parent = ? WHERE first = ?"
REFUSE = "INSERT OR IGNORE INTO refusal VALUES (?,?,?,?,?)"
LEAVE = "UPDATE session SET gone_at = ? WHERE process = ?"
REVIVE = "UPDATE run SET state = ?, reason = ?, ended = NULL WHERE id = ?"
CONSUME = "UPDATE session SET last = ?, answer = ? WHERE process = ?"

#: The head of a line was due when its place opens: it asks again when it is back.
GATE = "UPDATE segment SET state = 1, due = iif(line IS NULL, due, NULL), line = NULL WHERE run = ? AND state IN (0, 6)"
UNGATE = "UPDATE segment INDEXED BY gated SET state = 0 WHERE run = ? AND round <= ? AND state = 1"
WAKE = (
    "UPDATE segment INDEXED BY awaiting SET due = NULL, awaits = NULL"
    " WHERE awaits IS NOT NULL AND awaits IN (SELECT value FROM carray(?))"
)

#: True if a run is the newest of its name and where it is believed to be, and ids are reserved and free.
HOLDS = (
    "SELECT 1 FROM run WHERE id = (SELECT id FROM run WHERE name = ?1 ORDER BY generation DESC LIMIT 1)"
    " AND id = ?2 AND state = ?3 AND round = ?4 AND ended IS NULL AND (SELECT next FROM ids) > ?6"
    " AND ifnull((SELECT last FROM span WHERE first <= ?6 ORDER BY first DESC LIMIT 1), 0) < ?5"
)
#: A row that nobody has touched since a client of this store made it so.
EXTEND = (
    "UPDATE segment INDEXED BY segment_first SET last = last + 1"
    " WHERE first = ? AND last = ? AND state IN (0, 1, 6) AND mask IS NULL AND attempt = 0 AND deaths = 0"
)


def write_if(db: Db, changes: Changes, columns: Mapping[int, TaskColumns], believed: Believed) -> bool:
    """Write changes if what is believed is so."""
    run, first, last, tail = believed
    if db.execute(HOLDS, (run.name, run.id, run.state.value, run.round, first, last)).fetchone() is None:
        return False
    if tail is not None:
        db.execute(EXTEND, (tail.row.first, tail.row.last))
        if db.changes():
            changes.extend(tail)
    write(db, changes, columns)
    return True


def write(db: Db, changes: Changes, columns: Mapping[int, TaskColumns]) -> int:
    """Write changes; `columns` are those of new tasks that were prepared. Their place in the log."""
    for number, reason in changes.revived:
        counters.reopen(db, rows.ids([number]))
        db.execute(REVIVE, (RunState.OPEN.value, reason, number))
    if changes.replaced:
        editions.replace(db, changes)
    if changes.is_logged:
        _write_log(db, changes)
    for begun in changes.runs:
        _write_run(db, begun, changes.seq)
    if changes.context:
        sets = ((run, v.name, v.value, v.task, v.first_set, v.last_set) for (run, _), v in changes.context.items())
        db.executemany(context.PUT, sets)
    if changes.values:
        values.write(db, changes.values)
    if changes.lowered:
        # By themselves: a task may end in a new life as it ended before, which counts in the totals once more.
        counters.count_all(db, {counter: -by for counter, by in changes.lowered.items()}, changes.process)
    counters.count_all(db, changes.counts, changes.process)
    if changes.marks:
        rows.add_marks(db, changes.marks)
    if changes.unmarked or changes.timely:
        db.executemany(UNMARK, changes.unmarked)
        db.executemany(FORGET_LATENESS, changes.timely)
    _write_keys(db, changes)
    for run, new in changes.new_joins:
        joins.create(db, run, new)
    _write_tasks(db, changes, columns)
    if changes.disowned:
        db.executemany(DISOWN, changes.disowned)
    if changes.reset:
        joins.save(db, changes.reset)
    if changes.waiters:
        joins.write_waiters(db, changes.waiters)
    if changes.behind:
        db.executemany(joins.PUT_BEHIND, changes.behind.items())
    if changes.joins:
        joins.save_settled(db, changes.joins)
    if changes.small:
        joins.save_small(db, changes.small)
    _write_rows(db, changes)
    _write_runs(db, changes)
    if changes.has_left:
        db.execute(LEAVE, (changes.now, changes.process))
        if changes.has_died:
            counters.died(db, changes.offered_again)
    if changes.refused:
        late = ((changes.process, changes.n, token, tasks, changes.now) for token, tasks in changes.refused)
        db.executemany(REFUSE, late)
    if changes.answer is not None:
        answer = remember(replace(changes.answer, seq=changes.seq))
        db.execute(CONSUME, (changes.n, answer, changes.process))
    if changes.publications:
        topics.write(db, changes.publications, changes.now)
    return changes.seq


def _write_run(db: Db, run: StoredRun, seq: int) -> None:
    follows, lead = (None, None) if run.follows is None else (run.follows.run, run.follows.lead)
    db.execute(
        INSERT_RUN,
        (
            run.id, run.name, run.generation, run.shape, run.order.value, follows, lead, run.endless, run.params,
            run.digest, run.shown, tuples.write_owner(run.owner), run.max_running, run.max_tasks, run.deadline,
            run.fails_as.value, run.tolerates.value, run.definition, run.state.value, run.round, None,
            run.created, None, seq - 1, RunState.DONE.value,
        ),
    )  # fmt: skip


def _write_log(db: Db, changes: Changes) -> None:
    """The events, and the ranges they lie in, so that a tail finds them."""
    ranges = msgspec.json.encode(sorted(set(changes.ranges))).decode()
    if changes.seq:
        db.execute(SAME_COMMIT, (changes.told, ranges, changes.seq))
    else:
        db.execute(NEW_COMMIT, (changes.process, changes.n, changes.now, changes.told, ranges))
        changes.seq = db.last_insert_rowid()
    for events in changes.events:
        bulk.insert_events(db, changes.seq, *events)


def _write_keys(db: Db, changes: Changes) -> None:
    """Keys in their own order, so that a batch visits each page of a table once. First those that are let go."""
    if changes.freed:
        db.executemany("DELETE FROM key WHERE digest = ? AND task = ?", sorted(changes.freed))
    if changes.kept:
        later = sorted(changes.kept, key=lambda each: each[1])
        db.executemany("UPDATE key SET expires = ? WHERE digest = ? AND task = ?", later)
    if changes.unique:
        db.executemany("INSERT OR REPLACE INTO key VALUES (?, ?, NULL)", sorted(changes.unique.items()))
    if changes.once:
        names = sorted(changes.once)
        once.add(db, names, list(map(changes.once.__getitem__, names)))
    if changes.labels:
        db.executemany("INSERT OR IGNORE INTO label VALUES (?, ?)", sorted(changes.labels))


def _write_tasks(db: Db, changes: Changes, columns: Mapping[int, TaskColumns]) -> None:
    if changes.spans:
        db.executemany(rows.INSERT_SPAN, map(tuples.span_values, changes.spans))
    if changes.tasks:
        bulk.insert_all(db, ((placed.first, _columns(placed, columns)) for placed in changes.tasks))
    for placed in changes.late:
        bulk.insert_late(db, placed.first, _columns(placed, columns), changes.now)
    if changes.longer:
        longer = ((span.last, span.low_parent, span.high_parent, span.first) for span in changes.longer)
        db.executemany(GROW_SPAN, longer)
    for span in changes.published:
        db.execute("UPDATE span SET published = 1, added = ? WHERE first = ?", (span.added, span.first))


def _columns(placed: Placed, columns: Mapping[int, TaskColumns]) -> TaskColumns:
    if placed.chosen is None and (prepared := columns.get(placed.tasks.first)) is not None:
        return prepared
    return TaskColumns.of(placed.tasks, placed.chosen)


def _write_rows(db: Db, changes: Changes) -> None:
    """Live rows: what goes first, then what changes, then what is new."""
    if changes.swept:
        swept = ((row.run, row.first, row.last, pack(row.left), changes.seq) for row in changes.swept)
        db.executemany("INSERT INTO sweep VALUES (?,?,?,?,?)", swept)
    if changes.unstaged:
        db.execute(UNSTAGE, (apsw.carray(tuple(changes.unstaged)),))
    for row in changes.garbage:
        db.execute("UPDATE segment SET state = 5, owner = NULL, token = NULL WHERE id = ?", (row.id,))
    if changes.dropped:
        db.execute(DROP, (rows.ids(row.id for row in changes.dropped),))
    for row in changes.masked:
        db.execute("UPDATE segment SET mask = ?, attempt = ? WHERE id = ?", (pack(row.left), row.attempt, row.id))
    for row in changes.grown:
        db.execute("UPDATE segment SET last = ? WHERE id = ?", (row.last, row.id))
    for row in changes.offered:
        values = (row.state, row.rank, row.owner, row.token, row.line, row.id)
        db.execute("UPDATE segment SET state = ?, rank = ?, owner = ?, token = ?, line = ? WHERE id = ?", values)
    if changes.cut:
        cut = ((row.first, pack(row.left), row.id) for row in changes.cut)
        db.executemany("UPDATE segment SET first = ?, mask = ? WHERE id = ?", cut)
    if changes.lined:
        lined = ((row.state, row.due, row.line, row.id) for row in changes.lined)
        db.executemany("UPDATE segment SET state = ?, due = ?, line = ? WHERE id = ?", lined)
    if changes.claimed:
        claimed = ((row.owner, row.token, row.line, row.id) for row in changes.claimed)
        db.executemany("UPDATE segment SET state = 3, owner = ?, token = ?, line = ? WHERE id = ?", claimed)
    if changes.segments:
        db.executemany(rows.INSERT_SEGMENT, map(tuples.segment_values, changes.segments))


def _write_runs(db: Db, changes: Changes) -> None:
    """Where runs stand from now on; last of all, because the counters of those that end go into the totals."""
    for run, state, decision in changes.decided:
        db.execute("UPDATE run SET state = ? WHERE id = ?", (state.value, run))
        db.execute(DECIDE, (run, decision.n, changes.seq, msgspec.json.encode(decision).decode()))
    for run, into, reason in changes.drained:
        values = (RunState.DRAINING.value, into.value, reason, run)
        db.execute("UPDATE run SET state = ?, becomes = ?, reason = ? WHERE id = ?", values)
    for name, limit in changes.relimited:
        lines.change(db, name, limit)
    for run in changes.gated:
        db.execute(GATE, (run,))
    if changes.opened:
        db.executemany("UPDATE run SET round = ? WHERE id = ?", changes.opened)
    if changes.ungated:
        db.executemany(UNGATE, changes.ungated)
    if changes.ended:
        closed = ((state.value, reason, changes.now, run) for run, state, reason in changes.ended)
        db.executemany("UPDATE run SET state = ?, reason = ?, ended = ? WHERE id = ?", closed)
        ended = rows.ids(run for run, *_ in changes.ended)
        counters.close(db, ended)
        db.execute("DELETE FROM mark WHERE run IN (SELECT value FROM carray(?))", (ended,))
        db.execute(WAKE, (ended,))
