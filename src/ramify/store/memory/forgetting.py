"""Forgetting in the reference store: whole runs page by page, and single tasks of runs that go on.

What may go is said by `ramify.model.forgetting`; here it is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from ramify.model import forgetting
from ramify.model.event import Status, Tally
from ramify.model.forgetting import NEVER, Forgot, Piece, Reader, Removal
from ramify.model.join import Rule
from ramify.model.key import Hold, digest
from ramify.model.policy import SECOND
from ramify.model.run import RunState
from ramify.model.segment import LIVE_STATES, stretches
from ramify.store.contract import SESSION_SECONDS
from ramify.store.memory import context, deciding, joins, keys
from ramify.store.memory.runs import as_run
from ramify.store.memory.tables import MemorySpan, MemoryTables, RunRow


def forget(tables: MemoryTables, run: RunRow, removal: Removal, now: int) -> Forgot:
    """Remove ended work; see the contract."""
    if removal.tasks is not None:
        forgetting.check_remembered(as_run(run))
        return _forget_tasks(tables, run, removal, removal.tasks, now)
    number, before = run.new.id, as_run(run)
    moved = forgetting.begin(before, removal.said, lambda: _reader(tables, number), now)
    if moved is not None:
        tables.new_commit(0, 0, now)
        deciding.keep(tables, run, moved)
        run.reason = forgetting.ended_as(before)
        for row in [row for row in tables.segments.values() if row.run == number]:
            tables.drop_segment(row)
    left = removal.limit - _remove_lines(
        tables, [line.seq for line in tables.lines if line.line.run == number][: removal.limit]
    )
    tasks = _remove_tasks(tables, number, left)
    left -= tasks
    gone = [join.id for _, join in sorted(tables.joins.items()) if join.run == number][:left]
    _remove_joins(tables, gone)
    left -= len(gone)
    left -= context.remove(tables, number, left)
    _remove_sweeps(tables, number, left)
    return Forgot(tasks, _is_any_left(tables, number))


def _reader(tables: MemoryTables, run: int) -> Reader | None:
    """The first task of another run that has results of this one."""
    for span in _spans(tables, run):
        for task in range(span.first, span.last + 1) if span.published else ():
            for number, _ in joins.memberships(tables, task):
                join = tables.joins[number]
                if join.run == run or join.rule is Rule.BEHIND:
                    continue
                if tables.run(join.run).state is not RunState.FORGOTTEN:
                    return Reader(task, join.id, join.run)
    return None


def _spans(tables: MemoryTables, run: int) -> list[MemorySpan]:
    return [span for _, span in sorted(tables.spans.items()) if span.run == run]


def _is_any_left(tables: MemoryTables, run: int) -> bool:
    return bool(
        _spans(tables, run)
        or tables.sweeps.get(run)
        or tables.context.get(run)
        or any(join.run == run for join in tables.joins.values())
        or any(line.line.run == run for line in tables.lines)
    )


def _remove_tasks(tables: MemoryTables, run: int, left: int) -> int:
    """Remove up to so many tasks of a run; of a span that is too long, the last ones."""
    removed = 0
    for span in _spans(tables, run):
        size = min(span.last - span.first + 1, left - removed)
        if size:
            _remove(tables, span, span.last - size + 1, span.last)
        removed += size
    return removed


def _remove(tables: MemoryTables, span: MemorySpan, first: int, last: int) -> None:
    """Remove neighbouring tasks of a span, with all that is theirs."""
    for task in range(first, last + 1):
        _free_key(tables, span, task)
        tables.behind.pop(task, None)
        for join, slot in tables.waiters.pop(task, ()):
            tables.linked.get(join, {}).pop(slot, None)
        for event in tables.events.pop(task, ()):
            tables.commits[event.seq - 1][1].remove(event)
            _drop_if_empty(tables, event.seq)
    _cut(tables, span, first, last)


def _cut(tables: MemoryTables, span: MemorySpan, first: int, last: int) -> None:
    """Take a range out of a span; what lies above it becomes a span of its own."""
    above, below = last + 1 - span.first, first - span.first
    columns = ("bodies", "parents", "keys", "details", "lanes")
    full = {name: getattr(span, name) for name in columns}
    if last < span.last:
        rest = replace(span, first=last + 1, **{name: column and column[above:] for name, column in full.items()})
        tables.add_span(rest)
        for row in tables.segments.values():
            if row.span is span and row.first > last:
                row.span = rest
    if below:
        for column in full.values():
            if column is not None:
                del column[below:]
        return
    tables.firsts.remove(span.first)
    del tables.spans[span.first]
    if span.join is not None:
        tables.grouped[span.join].remove(span)


def _free_key(tables: MemoryTables, span: MemorySpan, task: int) -> None:
    key = span.keys[task - span.first] if span.keys is not None else None
    if key is None:
        return
    held = tables.keys.get(name := digest(span.hold, span.run, span.kind, key))
    if held is not None and held.task == task:
        del tables.keys[name]
    label = digest(Hold.LABEL, span.run, span.kind, key)
    if task in tables.labels.get(label, ()):
        tables.labels[label].remove(task)


def _remove_joins(tables: MemoryTables, gone: Collection[int]) -> None:
    for number in gone:
        del tables.joins[number]
        tables.linked.pop(number, None)
    for task, pairs in list(tables.waiters.items()):
        tables.waiters[task] = [pair for pair in pairs if pair[0] not in gone]


def _remove_lines(tables: MemoryTables, gone: Collection[int]) -> int:
    # A line that is gone is not here: whoever sends it again may keep it.
    tables.noted.difference_update((line.process, line.line.n) for line in tables.lines if line.seq in gone)
    tables.lines = [line for line in tables.lines if line.seq not in gone]
    return len(gone)


def _remove_sweeps(tables: MemoryTables, run: int, left: int) -> None:
    gone, tables.sweeps[run] = tables.sweeps[run][:left], tables.sweeps[run][left:]
    for sweep in gone:
        tables.commits[sweep.seq - 1][2].remove(sweep)
        _drop_if_empty(tables, sweep.seq)


def _drop_if_empty(tables: MemoryTables, seq: int) -> None:
    """Remove a commit of which nothing is left; the newest one tells what time it is, and where the log goes on."""
    _, events, sweeps = tables.commits[seq - 1]
    runs = tables.runs.values()
    is_kept = any(run.since == seq - 1 or any(each.seq == seq for each in run.decisions) for run in runs)
    if not events and not sweeps and not is_kept and seq < len(tables.commits):
        tables.forgotten_commits.add(seq)


# single tasks


def _forget_tasks(tables: MemoryTables, run: RunRow, removal: Removal, tasks: range, now: int) -> Forgot:
    spans = [span for span in _spans(tables, run.new.id) if span.published]
    found, more = forgetting.pieces(((span.first, span.last) for span in spans), tasks, removal.limit)
    if not found:
        return Forgot(after=tasks.stop - 1)
    latest = now - SESSION_SECONDS * SECOND
    ended: dict[int, Status] = {}
    for piece in found:
        ended |= forgetting.settled(removal, tables.spans[piece.span].kind, _ended(tables, piece), latest)
    if not ended:
        return Forgot(0, more, found[-1].last)
    live = [row for row in tables.segments.values() if row.run == run.new.id and row.state in LIVE_STATES]
    chosen = forgetting.chosen(
        ended,
        endless=run.new.endless,
        named=[task for task in ended if _has_key(tables, task, now)],
        rows=[(row.first, row.last) for row in live],
        not_before=_not_before(tables, run.new.id, set(ended)),
    )
    if removal.dry:
        return Forgot(len(chosen), more, found[-1].last)
    for stretch in stretches(chosen):
        _uncount(tables, stretch, ended)
        at = stretch[0]
        while at <= stretch[-1]:
            span = tables.span_of(at)
            assert span is not None
            last = min(span.last, stretch[-1])
            _remove(tables, span, at, last)
            at = last + 1
    _remove_joins(tables, {task for task in chosen if task in tables.joins})
    _remove_lines(tables, {line.seq for line in tables.lines if line.line.task in set(chosen)})
    return Forgot(len(chosen), more, found[-1].last)


def _ended(tables: MemoryTables, piece: Piece) -> Iterator[tuple[int, Status, int]]:
    """The tasks whose last event is an end, and when that was. What a sweep ended stays with its run."""
    for task in range(piece.first, piece.last + 1):
        events = tables.events.get(task)
        if events and events[-1].status.is_end:
            yield task, events[-1].status, tables.commits[events[-1].seq - 1][0].at


def _has_key(tables: MemoryTables, task: int, now: int) -> bool:
    """Return whether a task has a key that keeps others from its name."""
    span = tables.span_of(task)
    assert span is not None
    key = span.keys[task - span.first] if span.keys is not None else None
    if key is None or span.hold is Hold.LABEL:
        return False
    return keys.holder(tables, span.hold, span.run, span.kind, key, now) == task


def _not_before(tables: MemoryTables, run: int, ended: Collection[int]) -> Iterator[tuple[int, int]]:
    """Which tasks must not go before which others: parents and children, continuations and members."""
    for span in tables.spans.values():
        yield from ((p, span.first + i) for i, p in enumerate(span.parents) if p is not None and p in ended)
    for number, join in tables.joins.items():
        if join.rule is Rule.BEHIND:
            continue
        reader = number if join.run == run else NEVER
        # All that ever had a slot: one that another has taken over counts too.
        members = {task for task, pairs in tables.waiters.items() if any(pair[0] == number for pair in pairs)}
        members.update(tables.linked.get(number, {}).values())
        for span in tables.grouped.get(number, ()):
            members.update(range(span.first, span.last + 1) if span.published else ())
        for task in members:
            yield task, reader
            yield reader, task


def _uncount(tables: MemoryTables, tasks: Collection[int], ended: dict[int, Status]) -> None:
    """Take tasks out of the counters, as if they had never been."""
    counts: Counter[tuple[int, str, str, Status | Tally]] = Counter()
    for task in tasks:
        span = tables.span_of(task)
        assert span is not None
        whats: list[Status | Tally] = [event.status for event in tables.events[task] if not event.status.is_end]
        counts.update((span.run, span.kind, span.queue, what) for what in [*whats, Tally.ADDED, ended[task]])
    for (run, kind, queue, what), times in counts.items():
        tables.count(run, kind, queue, what, 0, -times)
