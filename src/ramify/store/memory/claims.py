"""Claims in the reference store: what may be taken, in which order, and what goes along with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter

import msgspec

from ramify.model.arrivals import Standing
from ramify.model.claim import Claim, Claimed, Details, Rooms, Want, within_bounds
from ramify.model.event import History, Status, fold
from ramify.model.join import SMALL
from ramify.model.lanes import apart
from ramify.model.limit import MOST_LIMITED
from ramify.model.mark import Mark, Scope
from ramify.model.policy import PARKED, SECOND
from ramify.model.process import new_token
from ramify.model.run import RunState, seconds_left
from ramify.model.segment import MASK_WIDTH, SegmentState, cut_mask, take_head, tasks_in
from ramify.store.memory import joins, lines
from ramify.store.memory.tables import MemorySegment, MemoryTables


def take(tables: MemoryTables, process: int, want: Want, turn: int, now: int) -> tuple[Claimed, int]:
    """Claim rows for a process. `turn` is the run that was served first last time; the new one is returned."""
    claimed, turn = _take(tables, process, want, turn, now)
    if not claimed.claims and not claimed.ready:
        claimed = msgspec.structs.replace(claimed, next_due=_next_due(tables, want, now, now))
    return claimed, turn


def answered_again(tables: MemoryTables, claimed: Claimed, want: Want | None, now: int) -> Claimed:
    """Return an answer as it is at `now`: the next row is due sooner than it was, or not at all by now."""
    if claimed.next_due is None or want is None:
        return claimed
    return msgspec.structs.replace(claimed, next_due=_next_due(tables, want, claimed.now, now))


def _next_due(tables: MemoryTables, want: Want, looked: int, now: int) -> float | None:
    """Seconds until the next row is due that this want could take and that was not when it `looked`. It is exact."""
    dues = [row.due for row in tables.segments.values() if row.due is not None and _fits(row, want, PARKED - 1)]
    return min((max(0, due - now) / SECOND for due in dues if due > looked), default=None)


def _take(tables: MemoryTables, process: int, want: Want, turn: int, now: int) -> tuple[Claimed, int]:
    held, rooms = tables.held_by(process), Rooms(lambda run: _room(tables, run))
    taking = Taking(tables, process, want, rooms, now)
    open_to = (row for row in tables.segments.values() if _fits(row, want, now) and rooms.of(row.run, 1))
    fitting = sorted(open_to, key=lambda row: (row.rank, row.id))
    suspects = [row for row in fitting if row.deaths.apart]
    rows = [row for row in fitting if not row.deaths.apart]
    if any(row.deaths.apart for row in held):
        return Claimed(ready=_left(tables, want, rooms, now), now=now), turn
    if suspects and not held and want.limit > 0:
        taken = list(islice(taking.heads(suspects[0], want.limit), 1))
        if taken:
            return _answer(tables, taken, len(suspects) > 1, _left(tables, want, rooms, now), now), turn
    taken, turn = _by_turns(taking, rows, want.limit, turn)
    by_rank = taking.by_rank(rows, want.limit - sum(row.count for row in taken))
    if not taken and not by_rank:
        by_rank = taking.behind_others(want.limit, holds_some=bool(held))
    if not taken and by_rank:
        # It was alone, so this was its turn: who comes now is next.
        turn = by_rank[0].run
    return _answer(tables, taken + by_rank, bool(suspects), _left(tables, want, rooms, now), now), turn


def _answer(tables: MemoryTables, taken: list[MemorySegment], suspects: bool, ready: int, now: int) -> Claimed:
    left = time_left(tables, sorted({row.run for row in taken}), now)
    return Claimed(within_bounds(_claim(tables, row) for row in taken), suspects, ready, left, now)


def _room(tables: MemoryTables, run: int) -> int | None:
    """How many more tasks of a run may be claimed; None for no bound."""
    most = tables.run(run).new.max_running
    return None if most is None else most - sum(row.count for row in tables.tokens.values() if row.run == run)


def _left(tables: MemoryTables, want: Want, rooms: Rooms, now: int) -> int:
    """How many tasks could be claimed, but for suspects. Here it is exact; a store may look at a few rows only."""
    rows = (row for row in tables.segments.values() if _fits(row, want, now) and not row.deaths.apart)
    return rooms.open_to((row.run, row.count) for row in rows)


def _fits(row: MemorySegment, want: Want, now: int) -> bool:
    return (
        row.state is SegmentState.READY
        and row.span.kind in want.kinds
        and (want.queues is None or row.span.queue in want.queues)
        and (want.runs is None or row.run in want.runs)
        and row.lane not in want.busy_lanes
        and (row.due is None or row.due <= now)
    )


def _by_turns(taking: Taking, rows: list[MemorySegment], limit: int, turn: int) -> tuple[list[MemorySegment], int]:
    """The fair share: a quarter of the claim from the next run that has work, so that none waits behind a long one."""
    runs = sorted({row.run for row in rows})
    if len(runs) < 2 or limit < 1:
        return [], turn
    next_turn = next((run for run in runs if run > turn), runs[0])
    best = next(row for row in rows if row.run == next_turn)
    taken = list(islice(taking.heads(best, max(1, limit // 4)), 1))
    return taken, next_turn if taken else turn


class Taking:
    """A claim that takes rows, and puts those in line that a limit holds back."""

    def __init__(self, tables: MemoryTables, process: int, want: Want, rooms: Rooms, now: int) -> None:
        self._tables, self._process, self._want, self._rooms, self._now = tables, process, want, rooms, now
        self._few = dict(want.few)
        self._headless: list[lines.Group] = []
        self._waiting_room = MOST_LIMITED

    def by_rank(self, rows: Iterable[MemorySegment], limit: int) -> list[MemorySegment]:
        """Claim from rows in their order; behind the head of a line that was taken, the rest of that line."""
        taken: list[MemorySegment] = []
        # First what follows the one whose turn it was.
        for row in (None, *rows) if limit > 0 else ():
            behind = row if row is not None else self._behind()
            while behind is not None:
                for head in self.heads(behind, limit):
                    taken.append(head)
                    limit -= head.count
                if limit < 1 or self._waiting_room < 1:
                    return taken
                behind = self._behind()
        return taken

    def behind_others(self, limit: int, *, holds_some: bool) -> list[MemorySegment]:
        """Claim rows behind heads that this claim may not take, each of which stays the head. A suspect is alone."""
        taken: list[MemorySegment] = []
        tables, in_order = self._tables, attrgetter("rank", "id")
        heads = [row for row in tables.segments.values() if row.state is SegmentState.READY and row.line is not None]
        for head in sorted(heads, key=in_order) if limit > 0 else ():
            is_due = head.due is None or head.due <= self._now
            if head.span.kind not in self._want.kinds or not is_due or self._fits(head):
                continue
            group = lines.group_of(head)
            behind = [r for r in tables.segments.values() if r.state is SegmentState.LIMITED]
            for row in sorted((r for r in behind if lines.group_of(r) == group), key=in_order):
                row.state = SegmentState.READY
                if not self._fits(row) or (row.deaths.apart and (holds_some or taken)):
                    row.state = SegmentState.LIMITED
                    continue
                if not lines.has_room(tables, row, self._now):
                    row.state = SegmentState.LIMITED
                    break
                row.line = None
                for piece in islice(self.heads(row, limit), 1 if row.deaths.apart else None):
                    taken.append(piece)
                    limit -= piece.count
                if row.state is SegmentState.READY:
                    row.state, row.line = SegmentState.LIMITED, group[0]
                if limit < 1 or (row.deaths.apart and taken):
                    return taken
        return taken

    def heads(self, row: MemorySegment, limit: int) -> Iterator[MemorySegment]:
        """Claim pieces of a row, as much as may be taken, splitting the head off what is too large."""
        able = row.state is SegmentState.READY and limit > 0 and self._rooms.of(row.run, limit) > 0
        if self._few.get(row.span.kind, limit) < 1 and lines.places(self._tables, row):
            able = False
        for piece in self._apart(row) if able else ():
            while limit > 0 and piece.state is SegmentState.READY and self._rooms.of(piece.run, limit) > 0:
                head = self._head(piece, limit)
                if head is None:
                    break
                limit -= head.count
                yield head

    def _head(self, row: MemorySegment, limit: int) -> MemorySegment | None:
        tables, now, line = self._tables, self._now, row.line
        room = self._rooms.of(row.run, limit)
        is_limited = bool(lines.places(tables, row))
        if is_limited:
            room = min(room, self._few.get(row.span.kind, room))
            if room < 1:
                return None
            room = lines.room(tables, row, room, now)
            if line is not None and row.line != line:
                self._lost(line, row)
            if room < 1:
                self._waiting_room -= 1
                return None
        cut, count = take_head(row.first, row.last, row.left, room)
        self._rooms.take(row.run, count)
        head = row if cut > row.last else split(tables, row, cut)
        head.state, head.owner, head.token, head.line = SegmentState.CLAIMED, self._process, new_token(), None
        tables.tokens[head.token] = head
        if is_limited:
            lines.take(tables, head, count, now)
            if row.span.kind in self._few:
                self._few[row.span.kind] -= count
        if line is not None and head is row:
            self._lost(line, row)
        if is_limited and head is not row:
            # A row that must wait now is not met again by the next claim to find that out.
            lines.room(tables, row, 1, now)
            if line is not None and row.line != line:
                self._lost(line, row)
        return head

    def _lost(self, line: str, row: MemorySegment) -> None:
        """A line lost its head."""
        group = line, row.span.kind, row.span.queue
        if group in self._headless:
            return
        self._headless.append(group)

    def _behind(self) -> MemorySegment | None:
        """The next row of a line whose head was taken, if this claim may take it; else it stays the head."""
        while self._headless:
            row = lines.next_head(self._tables, self._headless.pop(0), self._now)
            if row is not None and row.due is None and self._fits(row):
                return row
        return None

    def _fits(self, row: MemorySegment) -> bool:
        return _fits(row, self._want, self._now) and self._rooms.of(row.run, 1) > 0

    def _apart(self, row: MemorySegment) -> Iterable[MemorySegment]:
        """Rows of one lane each in the place of one that has several, where a limit is per lane."""
        tables, span = self._tables, row.span
        if row.lane is not None or not span.lanes or not tables.limits.is_per_lane(span.kind, span.queue):
            return (row,)
        if row.last - row.first >= MASK_WIDTH:
            row = split_off(tables, row, row.first + MASK_WIDTH)
        elif row.line is not None:
            self._lost(row.line, row)
            row.due = row.line = None
        lanes = lanes_of(row) or []
        tables.drop_segment(row)
        row.state = SegmentState.GARBAGE
        return [
            tables.copy_segment(row, lane=lane, first=first, last=last, left=left, state=SegmentState.READY)
            for lane, first, last, left in apart(tasks_in(row.first, row.last, row.left), lanes)
        ]


def split(tables: MemoryTables, row: MemorySegment, cut: int) -> MemorySegment:
    """The tasks below `cut` as a row of their own; `row` keeps the rest, so that a tail row goes on growing."""
    below, rest = cut_mask(row.first, row.last, row.left, cut)
    head = tables.copy_segment(row, last=cut - 1, left=below)
    row.first, row.left = cut, rest
    return head


def split_off(tables: MemoryTables, row: MemorySegment, cut: int) -> MemorySegment:
    """Do `split`. Of the head of a line, `row` is what stays the head: there is one of each kind and queue."""
    below = split(tables, row, cut)
    if below.state is SegmentState.READY and below.line is not None:
        below.due = below.line = None
    return below


def around(tables: MemoryTables, row: MemorySegment, task: int) -> MemorySegment:
    """A row of maskable width that holds `task`, split off a wider one if need be."""
    while row.last - row.first + 1 > MASK_WIDTH:
        head = split_off(tables, row, row.first + MASK_WIDTH * max(1, (task - row.first) // MASK_WIDTH))
        row = head if task <= head.last else row
    return row


def _claim(tables: MemoryTables, row: MemorySegment) -> Claim:
    span = row.span
    assert row.token is not None
    tasks = tasks_in(row.first, row.last, row.left)
    at = [task - span.first for task in tasks]
    return Claim(
        token=row.token,
        run=span.run,
        round=row.round,
        kind=span.kind,
        queue=span.queue,
        lane=row.lane,
        tasks=tasks,
        bodies=[span.bodies[i] for i in at],
        parents=[span.parents[i] for i in at],
        details=_details(tables, row, tasks),
        history=_histories(tables, row, tasks),
        marks=_marked(tables, span.run, tasks),
        deaths=row.deaths,
        awaited=span.awaited or span.join is not None,
        limited=bool(lines.places(tables, row)),
        lanes=lanes_of(row) if row.lane is None else None,
    )


def lanes_of(row: MemorySegment) -> list[str] | None:
    """The lane of each of its tasks, where they have one each."""
    span = row.span
    return span.lanes and [span.lanes[task - span.first] for task in tasks_in(row.first, row.last, row.left)]


def _details(tables: MemoryTables, row: MemorySegment, tasks: Iterable[int]) -> dict[int, Details]:
    span = row.span
    found: dict[int, Details] = {}
    if span.keys is None and span.details is None and not tables.joins:
        return found
    for task in tasks:
        key = span.keys[task - span.first] if span.keys is not None else None
        extra = span.details[task - span.first] if span.details is not None else None
        join = tables.joins.get(task)
        if join is not None:
            found[task] = Details(key, extra, join.ends, join.rule, _results(tables, join))
        elif key is not None or extra is not None:
            found[task] = Details(key, extra)
    return found


def _results(tables: MemoryTables, join: Standing) -> tuple[bytes | None, ...] | None:
    """Return what the members of a small join came to, by slot, if it brings that along and all of them ended well."""
    if not join.brings or join.needs > SMALL or join.ends.broken:
        return None
    ends = (reversed(tables.events[task]) for _, task in sorted(joins.members(tables, join.id).items()))
    # One that was replaced since counts here as it ended.
    return tuple(next(event.value for event in each if event.status is Status.DONE) for each in ends)


def _histories(tables: MemoryTables, row: MemorySegment, tasks: Iterable[int]) -> dict[int, History]:
    if not row.attempt:
        return {}
    return {task: fold(tables.events[task]) for task in tasks if task in tables.events}


def _marked(tables: MemoryTables, run: int, tasks: Iterable[int]) -> dict[int, Mark]:
    marks = tables.marks.get(run)
    if not marks:
        return {}
    single = {mark.task: mark for mark in marks if mark.scope is Scope.TASK}
    trees = {mark.task: mark for mark in marks if mark.scope is Scope.SUBTREE}
    found = {task: single.get(task) or _above(tables, trees, task) for task in tasks}
    return {task: mark for task, mark in found.items() if mark is not None}


def _above(tables: MemoryTables, trees: dict[int | None, Mark], task: int | None) -> Mark | None:
    """The mark on the task or on one of its ancestors."""
    while task is not None:
        if (mark := trees.get(task)) is not None:
            return mark
        span = tables.span_of(task)
        task = span.parents[task - span.first] if span is not None else None
    return None


def marks_for(tables: MemoryTables, process: int) -> tuple[Mark, ...]:
    """The marks on the runs a process holds claims of."""
    found: list[Mark] = []
    for run in _held_runs(tables, process):
        row = tables.run(run)
        if row.state is RunState.DRAINING:
            found.append(Mark(run, Scope.RUN, None, Status.CANCELLED, row.reason or ""))
        # That a task ran out of time concerns its next claim alone.
        found += (mark for mark in tables.marks.get(run, ()) if mark.status is not Status.RETRYING)
    return tuple(found)


def paused_for(tables: MemoryTables, process: int) -> tuple[int, ...]:
    """The paused ones of the runs a process holds claims of."""
    return tuple(run for run in _held_runs(tables, process) if tables.run(run).state is RunState.PAUSED)


def time_left_for(tables: MemoryTables, process: int, now: int) -> tuple[tuple[int, float], ...]:
    """The open ones of those runs that have a deadline, and the seconds until it."""
    return time_left(tables, _held_runs(tables, process), now)


def time_left(tables: MemoryTables, runs: Iterable[int], now: int) -> tuple[tuple[int, float], ...]:
    """The open ones of these runs that have a deadline, and the seconds until it."""
    held = [row for row in map(tables.run, runs) if row.state is RunState.OPEN]
    return tuple(
        (row.new.id, left) for row in held if (left := seconds_left(row.new.deadline, row.into, now)) is not None
    )


def _held_runs(tables: MemoryTables, process: int) -> list[int]:
    return sorted({row.run for row in tables.held_by(process)})
