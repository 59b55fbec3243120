"""Writing what a verb decided, in bulk: a statement for each sort of row, however many there are.

Nothing is sent here: all of it travels with the next question, or with the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ramify.model.event import Status
from ramify.model.mark import Scope
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import pack
from ramify.model.value import Key
from ramify.store.answers import remember
from ramify.store.changes import Believed, Changes
from ramify.store.postgres import bulk, counters, editions, joins, keys, lines, loading, rows, topics
from ramify.store.postgres.link import Transaction
from ramify.store.tuples import RUN_COLUMNS, SEGMENT_COLUMNS, SPAN_COLUMNS, segment_values, span_values, write_owner

_LONG, _SHORT, _INT, _BOOL, _TEXT, _BYTES = "bigint", "smallint", "int", "bool", "text", "bytea"


def _unnest(types: Sequence[str]) -> str:
    return f"unnest({', '.join(f'${n}::{name}[]' for n, name in enumerate(types, 1))})"


_SPAN_TYPES = (*[_LONG] * 4, *[_TEXT] * 3, *[_LONG] * 2, _SHORT, *[_LONG] * 3, *[_BOOL] * 5, *[_LONG] * 3)
_ROW_TYPES = (
    *[_LONG] * 3, *[_TEXT] * 3, *[_LONG] * 2, _BYTES, *[_LONG] * 2, _SHORT, _INT, *[_LONG] * 2, _BYTES, _LONG,
    _TEXT,
)  # fmt: skip
_RUN_TYPES = (
    _LONG, _TEXT, _LONG, _TEXT, _TEXT, _LONG, _LONG, _BOOL, _BYTES, _BYTES, _BYTES, _TEXT, _LONG, _LONG, _LONG, _TEXT,
    _TEXT, _BYTES, _TEXT, _LONG, _BYTES, *[_LONG] * 3, _TEXT,
)  # fmt: skip
INSERT_SPAN = f"INSERT INTO @span ({SPAN_COLUMNS}) SELECT * FROM {_unnest(_SPAN_TYPES)}"
INSERT_SEGMENT = f"INSERT INTO @segment ({SEGMENT_COLUMNS.removeprefix('id, ')}) SELECT * FROM {_unnest(_ROW_TYPES)}"
INSERT_RUN = f"INSERT INTO @run ({RUN_COLUMNS}, becomes) SELECT * FROM {_unnest(_RUN_TYPES)}"
SAME_COMMIT = "UPDATE @commits SET events = $1::bigint, ranges = $2::bytea WHERE seq = $3::bigint"
DECIDE = "INSERT INTO @decision VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bytea)"
_MARK_TYPES = (_LONG, _SHORT, _LONG, _SHORT, _BYTES, _BYTES, _BYTES)
ADD_MARKS = f"INSERT INTO @mark (run, scope, task, status, reason, value, who) SELECT * FROM {_unnest(_MARK_TYPES)}"
_THEIRS = "FROM @mark USING unnest($1::bigint[], $2::bigint[]) AS x(r, t) WHERE run = x.r AND task = x.t"
UNMARK = f"DELETE {_THEIRS} AND scope = {Scope.TASK:d}"
FORGET_LATENESS = f"DELETE {_THEIRS} AND status = {Status.RETRYING:d}"
DISOWN = (
    "DELETE FROM @waiter USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS x(t, j, s)"
    " WHERE task = x.t AND id = x.j AND slot = x.s"
)
UNSTAGE = "UPDATE @segment SET state = 5, owner = NULL, token = NULL WHERE token = ANY($1::bytea[]) AND state = 4"
DISCARD = "UPDATE @segment SET state = 5, owner = NULL, token = NULL WHERE id = ANY($1::bigint[])"
DROP = "DELETE FROM @segment WHERE id = ANY($1::bigint[])"
GROW_SPANS = (
    "UPDATE @span SET last = x.l, low_parent = x.a, high_parent = x.b"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS x(l, a, b, f) WHERE span.first = x.f"
)
PUBLISH = "UPDATE @span SET published = true, added = $2::bigint WHERE first = $1::bigint"
SWEEP = (
    "INSERT INTO @sweep (run, first, last, mask, seq) SELECT *, $5::bigint"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])"
)
MASK = (
    "UPDATE @segment SET mask = x.m, attempt = x.a FROM unnest($1::bytea[], $2::int[], $3::bigint[]) AS x(m, a, i)"
    " WHERE segment.id = x.i"
)
GROW = "UPDATE @segment SET last = x.l FROM unnest($1::bigint[], $2::bigint[]) AS x(l, i) WHERE segment.id = x.i"
OFFER = (
    "UPDATE @segment SET state = x.s, rank = x.r, owner = x.o, token = x.t, line = x.l"
    " FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::bigint[])"
    " AS x(s, r, o, t, l, i)"
    " WHERE segment.id = x.i"
)
CUT = (
    "UPDATE @segment SET first = x.f, mask = x.m FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS x(f, m, i)"
    " WHERE segment.id = x.i"
)
CLAIM = (
    "UPDATE @segment SET state = 3, owner = $1::bigint, token = x.t, line = x.l"
    " FROM unnest($2::bytea[], $3::text[], $4::bigint[]) AS x(t, l, i)"
    " WHERE segment.id = x.i"
)
LINE = (
    "UPDATE @segment SET state = x.s, due = x.d, line = x.l"
    " FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::bigint[]) AS x(s, d, l, i) WHERE segment.id = x.i"
)
_CONTEXT_TYPES = (_LONG, _TEXT, _BYTES, _LONG, _LONG, _LONG)
ADD_CONTEXT = f"INSERT INTO @context SELECT * FROM {_unnest(_CONTEXT_TYPES)}"
SET_CONTEXT = (
    "UPDATE @context SET value = x.v, task = x.t, first_set = x.a, last_set = x.b"
    f" FROM {_unnest(_CONTEXT_TYPES)} AS x(r, n, v, t, a, b) WHERE run = x.r AND name = x.n"
)
_VALUE_TYPES = (_TEXT, _TEXT, _BYTES, _LONG, _LONG)
ADD_VALUES = f"INSERT INTO @value SELECT * FROM {_unnest(_VALUE_TYPES)}"
SET_VALUES = (
    f"UPDATE @value SET value = x.v, version = x.e, expires = x.u FROM {_unnest(_VALUE_TYPES)} AS x(s, n, v, e, u)"
    " WHERE space = x.s AND name = x.n"
)
DELETE_VALUES = "DELETE FROM @value USING unnest($1::text[], $2::text[]) AS x(s, n) WHERE space = x.s AND name = x.n"
REFUSE = (
    "INSERT INTO @refusal SELECT $1::bigint, $2::bigint, t, n, $3::bigint FROM unnest($4::bytea[], $5::bigint[])"
    " AS x(t, n) ON CONFLICT DO NOTHING"
)
LEAVE = "UPDATE @session SET gone_at = $1::bigint WHERE process = $2::bigint"
REVIVE = "UPDATE @run SET state = 'open', reason = $1::bytea, ended = NULL WHERE id = $2::bigint"
CONSUME = "UPDATE @session SET last = $1::bigint, answer = $2::bytea WHERE process = $3::bigint"
DRAIN = "UPDATE @run SET state = 'draining', becomes = $1::text, reason = $2::bytea WHERE id = $3::bigint"
#: The head of a line was due when its place opens: it asks again when it is back.
GATE = (
    "UPDATE @segment SET state = 1, due = CASE WHEN line IS NULL THEN due END, line = NULL"
    " WHERE run = $1::bigint AND state IN (0, 6)"
)
OPEN = "UPDATE @run SET round = x.n FROM unnest($1::bigint[], $2::bigint[]) AS x(n, r) WHERE run.id = x.r"
UNGATE = (
    "UPDATE @segment SET state = 0 FROM unnest($1::bigint[], $2::bigint[]) AS x(r, n)"
    " WHERE run = x.r AND round <= x.n AND state = 1"
)
END = (
    "UPDATE @run SET state = x.s, reason = x.w, ended = $1::bigint"
    " FROM unnest($2::bigint[], $3::text[], $4::bytea[]) AS x(r, s, w) WHERE run.id = x.r"
)
#: Rows that the end of a run makes due.
WAKE = "UPDATE @segment SET due = NULL, awaits = NULL WHERE awaits = ANY($1::bigint[])"

#: A run is the newest of its name and where it is believed to be, and ids are reserved and free; otherwise an error.
HOLDS = (
    "WITH newest AS (SELECT id, state, round, ended FROM @run WHERE id ="
    " (SELECT id FROM @run WHERE name = $1::text ORDER BY generation DESC LIMIT 1) FOR SHARE)"
    " SELECT 1 / (EXISTS (SELECT 1 FROM newest WHERE id = $2::bigint AND state = $3::text AND round = $4::bigint"
    f" AND ended IS NULL) AND ({loading.RESERVED}) > $6::bigint"
    " AND coalesce((SELECT last FROM @span WHERE first <= $6::bigint ORDER BY first DESC LIMIT 1), 0)"
    " < $5::bigint)::int"
)
#: A row that nobody has touched since a client of this store made it so; otherwise an error.
EXTEND = (
    "WITH extended AS (UPDATE @segment SET last = last + 1 WHERE first = $1::bigint AND last = $2::bigint"
    " AND state IN (0, 1, 6) AND mask IS NULL AND attempt = 0 AND deaths = 0 RETURNING 1)"
    " SELECT 1 / count(*) FROM extended"
)


def columns(some: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as columns. There must be at least one."""
    return list(map(list, zip(*some, strict=True)))


def believe(db: Transaction, believed: Believed) -> None:
    """Rely on what is believed: if it is not so, nothing of the transaction is carried out."""
    run, first, last, tail = believed
    db.later(HOLDS, run.name, run.id, run.state.value, run.round, first, last)
    if tail is not None:
        db.later(EXTEND, tail.row.first, tail.row.last)


class Known:
    """The names that a verb has loaded: others that it writes are new, and nobody else may have added them since."""

    def __init__(self) -> None:
        self.context: Collection[tuple[int, str]] = ()
        self.values: Collection[Key] = ()


def write(db: Transaction, changes: Changes, known: Known) -> int:
    """Write changes; their place in the log."""
    for number, reason in changes.revived:
        counters.reopen(db, [number])
        db.later(REVIVE, rows.stored(reason), number)
    if changes.replaced:
        editions.replace(db, changes)
    if changes.is_logged:
        _write_log(db, changes)
    if changes.runs:
        db.later(INSERT_RUN, *columns(_run_values(run, changes.seq) for run in changes.runs))
    _write_names(db, changes, known)
    process = changes.process or db.client
    if changes.lowered:
        # By themselves: a task may end in a new life as it ended before, which counts in the totals once more.
        counters.count_all(db, {counter: -by for counter, by in changes.lowered.items()}, process)
    counters.count_all(db, changes.counts, process)
    if changes.marks:
        marks = ((m.run, m.scope, m.task, m.status, m.reason.encode(), m.value, m.by.encode()) for m in changes.marks)
        db.later(ADD_MARKS, *columns(marks))
    if changes.unmarked:
        db.later(UNMARK, *columns(changes.unmarked))
    if changes.timely:
        db.later(FORGET_LATENESS, *columns(changes.timely))
    _write_keys(db, changes)
    for number, new in changes.new_joins:
        joins.create(db, number, new)
    _write_tasks(db, changes)
    if changes.disowned:
        db.later(DISOWN, *columns(changes.disowned))
    joins.save(db, changes.reset)
    if changes.waiters:
        joins.write_waiters(db, changes.waiters)
    if changes.behind:
        db.later(joins.PUT_BEHIND, *columns(sorted(changes.behind.items())))
    joins.save(db, changes.joins)
    _write_rows(db, changes)
    _write_runs(db, changes)
    if changes.has_left:
        db.later(LEAVE, changes.now, changes.process)
        if changes.has_died:
            counters.died(db, changes.offered_again)
    if changes.refused:
        db.later(REFUSE, changes.process, changes.n, changes.now, *columns(changes.refused))
    if changes.answer is not None:
        answer = remember(replace(changes.answer, seq=changes.seq))
        db.later(CONSUME, changes.n, answer, changes.process)
    if changes.publications:
        topics.write(db, changes.publications, changes.now)
    return changes.seq


def _run_values(run: StoredRun, seq: int) -> tuple[Any, ...]:
    follows, lead = (None, None) if run.follows is None else (run.follows.run, run.follows.lead)
    return (
        run.id, run.name, run.generation, run.shape, run.order.value, follows, lead, run.endless, run.params,
        run.digest, rows.stored(run.shown), write_owner(run.owner), run.max_running, run.max_tasks, run.deadline,
        run.fails_as.value, run.tolerates.value, rows.stored(run.definition), run.state.value, run.round, None,
        run.created, None, seq - 1, RunState.DONE.value,
    )  # fmt: skip


def _write_log(db: Transaction, changes: Changes) -> None:
    """The events, and the ranges they lie in, so that a tail finds them."""
    ranges = msgspec.json.encode(sorted(set(changes.ranges)))
    if changes.seq:
        db.later(SAME_COMMIT, changes.told, ranges, changes.seq)
    else:
        changes.seq = db.next_place()
        db.later(editions.NEW_COMMIT, changes.seq, changes.process, changes.n, changes.now, changes.told, ranges)
    for events in changes.events:
        bulk.insert_events(db, changes.seq, events)


def _write_names(db: Transaction, changes: Changes, known: Known) -> None:
    """Context and values, those that were there and those that are new."""
    for is_known, statement in ((True, SET_CONTEXT), (False, ADD_CONTEXT)):
        some = [
            (run, v.name, v.value, v.task, v.first_set, v.last_set)
            for (run, _), v in sorted(changes.context.items(), key=lambda each: each[0])
            if ((run, v.name) in known.context) is is_known
        ]
        if some:
            db.later(statement, *columns(some))
    if gone := sorted(key for key, value in changes.values.items() if value is None):
        db.later(DELETE_VALUES, *columns(gone))
    kept = [(key, value) for key, value in changes.values.items() if value is not None]
    for is_known, statement in ((True, SET_VALUES), (False, ADD_VALUES)):
        put = [
            (*key, value.value, value.version, value.expires)
            for key, value in kept
            if (key in known.values) is is_known
        ]
        if put:
            db.later(statement, *columns(put))


def _write_keys(db: Transaction, changes: Changes) -> None:
    """Keys in their own order, so that nobody waits for another in a circle. First those that are let go."""
    if changes.freed:
        db.later(keys.FREE, *columns(sorted(changes.freed)))
    if changes.kept:
        db.later(keys.KEEP, *columns(sorted(changes.kept, key=lambda each: each[1])))
    keys.add(db, keys.ADD, changes.unique.items())
    keys.add(db, keys.ADD_ONCE, changes.once.items())
    keys.add(db, keys.ADD_LABELS, changes.labels)


def _write_tasks(db: Transaction, changes: Changes) -> None:
    if changes.spans:
        db.later(INSERT_SPAN, *columns(map(span_values, changes.spans)))
    if changes.tasks:
        bulk.insert_tasks(db, changes.tasks)
    if changes.late:
        bulk.insert_tasks(db, changes.late, changes.now)
    if changes.longer:
        longer = {span.first: (span.last, span.low_parent, span.high_parent, span.first) for span in changes.longer}
        db.later(GROW_SPANS, *columns(longer.values()))
    for span in changes.published:
        db.later(PUBLISH, span.first, span.added)


def _write_rows(db: Transaction, changes: Changes) -> None:
    """Live rows: what goes first, then what changes, then what is new."""
    if changes.swept:
        swept = ((row.run, row.first, row.last, pack(row.left)) for row in changes.swept)
        db.later(SWEEP, *columns(swept), changes.seq)
    if changes.unstaged:
        db.later(UNSTAGE, changes.unstaged)
    if changes.garbage:
        db.later(DISCARD, [row.id for row in changes.garbage])
    if changes.dropped:
        db.later(DROP, [row.id for row in changes.dropped])
    if changes.masked:
        masked = {row.id: (pack(row.left), row.attempt, row.id) for row in changes.masked}
        db.later(MASK, *columns(masked.values()))
    if changes.grown:
        db.later(GROW, *columns({row.id: (row.last, row.id) for row in changes.grown}.values()))
    if changes.offered:
        offered = {row.id: (row.state, row.rank, row.owner, row.token, row.line, row.id) for row in changes.offered}
        db.later(OFFER, *columns(offered.values()))
    if changes.cut:
        cut = {row.id: (row.first, pack(row.left), row.id) for row in changes.cut}
        db.later(CUT, *columns(cut.values()))
    if changes.lined:
        lined = {row.id: (row.state, row.due, row.line, row.id) for row in changes.lined}
        db.later(LINE, *columns(lined.values()))
    if changes.claimed:
        db.later(CLAIM, changes.process, *columns((row.token, row.line, row.id) for row in changes.claimed))
    if changes.segments:
        db.later(INSERT_SEGMENT, *columns(map(segment_values, changes.segments)))


def _write_runs(db: Transaction, changes: Changes) -> None:
    """Where runs stand from now on; last of all, because the counters of those that end go into the totals."""
    for run, state, decision in changes.decided:
        db.later("UPDATE @run SET state = $1::text WHERE id = $2::bigint", state.value, run)
        db.later(DECIDE, run, decision.n, changes.seq, msgspec.json.encode(decision))
    for run, into, reason in changes.drained:
        db.later(DRAIN, into.value, rows.stored(reason), run)
    for name, limit in changes.relimited:
        lines.change(db, name, limit)
    for run in changes.gated:
        db.later(GATE, run)
    if changes.opened:
        db.later(OPEN, *columns(changes.opened))
    if changes.ungated:
        db.later(UNGATE, *columns(changes.ungated))
    if changes.ended:
        closed = sorted((run, state.value, rows.stored(reason)) for run, state, reason in changes.ended)
        db.later(END, changes.now, *columns(closed))
        ended = [run for run, *_ in closed]
        counters.close(db, ended)
        db.later("DELETE FROM @mark WHERE run = ANY($1::bigint[])", ended)
        db.later(WAKE, ended)
