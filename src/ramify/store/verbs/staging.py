"""Rows of a streamed fan-out, written before anything of it is visible; and claims that are put back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ramify.model.lanes import apart
from ramify.model.process import Stamp
from ramify.model.run import StoredRun
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.store.answers import Answer
from ramify.store.changes import Changes, Placed
from ramify.store.rows import SegmentRow, SpanRow, state_for
from ramify.store.tables import Ask, Tables
from ramify.store.verbs import adding
from ramify.store.verbs.lines import lines_of, refill
from ramify.store.verbs.stamps import answered


def stage(tables: Tables, stamp: Stamp, token: bytes, groups: Sequence[NewTasks], now: int) -> bool:
    """Write unpublished rows under staged segments; False when the token is void."""
    loaded = tables.load(Ask(now, stamp, [token], new=adding.ranges(groups)))
    if (again := answered(loaded.session, stamp, "stage")) is not None:
        return again.done
    changes = Changes(stamp.process, stamp.n, now)
    owner = loaded.held.get(token)
    if owner is not None:
        adding.check_room(loaded, groups)
        _stage(tables, changes, loaded.runs[owner.run], owner, groups)
    changes.answer = Answer("stage", owner is not None)
    tables.write(changes)
    return owner is not None


def _stage(tables: Tables, changes: Changes, run: StoredRun, owner: SegmentRow, groups: Sequence[NewTasks]) -> None:
    """Write groups, each extending the range before it where it follows on."""
    before: tuple[SpanRow, SegmentRow, NewTasks | None] | None = None
    for tasks in groups:
        span = adding.new_span(run, tasks, owner.round + 1, published=False)
        span.low_parent, span.high_parent = adding.parents_of(tasks)
        changes.tasks.append(Placed(tasks.first, tasks))
        if before is None or before[0].last != tasks.first - 1:
            before = _range_before(tables, owner, tasks.first)
        if before is not None and before[0].shared() == span.shared() and _is_sibling(tables, before, tasks):
            known, row, _ = before
            known.grow(span)
            row.last = span.last
            if row.id:
                changes.longer.append(known)
                changes.grown.append(row)
        else:
            known, row = span, adding.segment_of(span, span.first, span.last, 0, SegmentState.STAGED)
            row.owner, row.token = owner.owner, owner.token
            changes.spans.append(span)
            changes.segments.append(row)
        before = known, row, tasks


def _range_before(tables: Tables, owner: SegmentRow, first: int) -> tuple[SpanRow, SegmentRow, NewTasks | None] | None:
    """The stored range of this claim that ends right before an id."""
    span = tables.span_before(first)
    rows = () if span is None or span.published else tables.staged_under(owner.token or b"", span.first)
    return (span, rows[0], None) if span is not None and rows else None


def _is_sibling(tables: Tables, before: tuple[SpanRow, SegmentRow, NewTasks | None], tasks: NewTasks) -> bool:
    """Return whether new tasks have the parent of those before them: each parent publishes its own range."""
    span, _, last = before
    parent = tables.parents_at([span.last])[span.last] if last is None else last.parent_column()[-1]
    return parent == tasks.parent_column()[0]


def release(tables: Tables, stamp: Stamp, tokens: Sequence[bytes], now: int) -> tuple[bytes, ...]:
    """Put claims back as they are; the tokens that are void. A row of several lanes comes apart."""
    loaded = tables.load(Ask(now, stamp, tokens))
    if (again := answered(loaded.session, stamp, "release")) is not None:
        return again.refused
    changes = Changes(stamp.process, stamp.n, now)
    rows = [row for token in dict.fromkeys(tokens) if (row := loaded.held.get(token)) is not None]
    lines = lines_of(loaded.limits, rows)
    for row in rows:
        put_back(changes, loaded.runs[row.run], row)
        if row.lane is None and loaded.spans[row.span].laned:
            lanes = tables.lanes_of(row.first, row.last)
            pieces = apart(row.tasks, [lanes[task] for task in row.tasks])
            changes.offered.pop()
            changes.dropped.append(row)
            changes.segments += (
                replace(row, id=0, lane=lane, first=first, last=last, left=left) for lane, first, last, left in pieces
            )
    void = tuple(token for token in tokens if token not in loaded.held)
    changes.answer = Answer("release", refused=void)
    tables.write(changes)
    refill(tables, loaded.limits, lines, now)
    return void


def put_back(changes: Changes, run: StoredRun, row: SegmentRow) -> None:
    """Offer a claimed row again as it is, and discard what was staged under it."""
    assert row.token is not None
    changes.unstaged.append(row.token)
    row.state, row.owner, row.token, row.line = state_for(run, row.round), None, None, None
    changes.offered.append(row)
