"""Claims: which rows a process gets, and how much of each.

Order: a quarter (at least one row) by turns over the runs that have work, the rest by rank, then by age. A row that
must run apart is given only to a process that holds nothing. Rows that the same verb makes ready are taken into account
as if they were stored: nothing is loaded after something was decided about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice, takewhile
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from ramify.model.claim import Claimed, Rooms, Want
from ramify.model.lanes import apart
from ramify.model.limit import MOST_LIMITED, limit_of_line
from ramify.model.process import Stamp, new_token
from ramify.model.segment import MASK_WIDTH, SegmentState, take_head
from ramify.store.answers import Answer
from ramify.store.changes import AskAfter, Changes
from ramify.store.rows import COUNTED, SegmentRow
from ramify.store.tables import Ask, Candidates, Loaded, Reported, Tables
from ramify.store.verbs.lines import Places
from ramify.store.verbs.stamps import answered

#: The most runs a claim looks at to find the next one with work it can do.
TURN_WINDOW = 64
_PLACE = attrgetter("place")


class Taken(NamedTuple):
    """The rows that are claimed, whether suspects wait, and the run that was served first."""

    rows: Sequence[SegmentRow]
    suspects: bool
    turn: int

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """The tokens of the rows."""
        return tuple(row.token for row in self.rows if row.token is not None)


class Outcome(NamedTuple):
    """The answer to a verb, what is asked after it, the run that was served first, and if it was answered before."""

    answer: Answer
    after: AskAfter
    turn: int
    again: bool = False


def claim(tables: Tables, stamp: Stamp, want: Want, turn: int, now: int, *, keeps: bool = False) -> Outcome:
    """Take rows. `turn` is the run that was served first last time. Unless a row is put in line, a claim that finds
    nothing writes nothing, unless it `keeps` its answer all the same.
    """
    loaded = tables.load(Ask(now, stamp, want=want, turn=turn))
    if (again := answered(loaded.session, stamp, "claim")) is not None:
        return Outcome(again, after_again(again, want), turn, again=True)
    changes = Changes(stamp.process, stamp.n, now)
    taken = Claiming(tables, loaded, want, changes).take(turn)
    answer = Answer("claim", tokens=taken.tokens, suspects=taken.suspects, looked=0 if taken.rows else now)
    after = after_taking(taken, want, now)
    if taken.rows or keeps:
        changes.answer, changes.after = answer, after
    # Rows that were put in line are where they belong, whether or not this claim is heard of again.
    if taken.rows or keeps or changes.puts_in_line:
        tables.write(changes)
    return Outcome(answer, after, taken.turn)


def look(tables: Tables, stamp: Stamp, want: Want, now: int) -> Claimed | None:
    """Return the answer to a claim that finds nothing; None when there is something to take. It writes nothing."""
    loaded = tables.load(Ask(now, stamp, want=want, looks=True))
    if (again := answered(loaded.session, stamp, "claim")) is not None:
        return claimed(again, want, tables.report(after_again(again, want), now), now)
    suspects = Claiming(tables, loaded, want, Changes(stamp.process, stamp.n, now)).find()
    if suspects is None:
        return None
    return claimed(Answer("claim", suspects=suspects), want, Reported(left=_candidates(loaded).left()), now)


def after_taking(taken: Taken, want: Want, now: int) -> AskAfter:
    """Return what is asked after a claim. One that got nothing asks when more is due: a process that got something
    claims again before it rests.
    """
    rows = taken.rows
    has_emptied = _has_emptied(want, rows and rows[0].is_apart, [row.count for row in rows])
    return AskAfter(taken.tokens, None if has_emptied else want, None if rows else now)


def after_again(answer: Answer, want: Want) -> AskAfter:
    """Return what is asked after a claim that is sent again: what is left now, whatever was left then."""
    return AskAfter(answer.tokens, want, answer.looked)


def claimed(answer: Answer, want: Want, report: Reported, now: int) -> Claimed:
    """Return the answer as it is given: claims are read from their rows, the first time and every time it is sent."""
    found, left = tuple(report.claims), report.left
    has_emptied = _has_emptied(want, found and found[0].deaths.apart, [len(each.tasks) for each in found])
    ready = 0 if has_emptied else left.ready
    return Claimed(found, answer.suspects, ready, report.time_left, now, None if found else left.next_due)


def _has_emptied(want: Want, is_apart: object, counts: Sequence[int]) -> bool:
    """Return whether a claim has left nothing, because it got less than it asked for."""
    return bool(counts) and not is_apart and sum(counts) < want.limit


def _new_lanes(changes: Changes, first: int) -> Mapping[int, str]:
    """The lane of each task of a span that the same verb has added."""
    placed = next(each for each in changes.tasks if each.first == first)
    lanes = placed.tasks.lanes or ()
    chosen = lanes if placed.chosen is None else [lanes[i] for i in placed.chosen]
    return dict(enumerate(chosen, first))


def _candidates(loaded: Loaded) -> Candidates:
    assert loaded.candidates is not None
    return loaded.candidates


def is_wanted(want: Want, kind: str, queue: str) -> bool:
    """Return whether a kind and queue is asked for."""
    return kind in want.kinds and (want.queues is None or queue in want.queues)


def may_fit(want: Want, kind: str, queue: str, run: int, lane: str | None) -> bool:
    """Return whether rows like this are asked for, whether or not their run has room now."""
    return is_wanted(want, kind, queue) and (want.runs is None or run in want.runs) and lane not in want.busy_lanes


def fits(row: SegmentRow, want: Want, rooms: Rooms) -> bool:
    """Return whether a row may be taken, if it is due."""
    return may_fit(want, row.kind, row.queue, row.run, row.lane) and rooms.of(row.run, 1) > 0


class Claiming:
    """One claim, as a verb of its own or as the end of a commit.

    `fresh` are rows that the commit has made ready, and `let_go` how many tasks of each run it gives back. It has freed
    `places`.
    """

    def __init__(
        self,
        tables: Tables,
        loaded: Loaded,
        want: Want,
        changes: Changes,
        fresh: Iterable[SegmentRow] = (),
        let_go: Counter[int] | None = None,
        places: Places | None = None,
    ) -> None:
        self._tables, self._want, self._changes = tables, want, changes
        self._found = found = _candidates(loaded)
        self._places = places or Places(tables, loaded.limits, changes)
        self._few = dict(want.few)
        #: How many more rows may be put in line.
        self._waiting_room = MOST_LIMITED
        more = let_go or Counter[int]()

        def room(run: int) -> int | None:
            left = found.room(run)
            return None if left is None else left + more[run]

        self._rooms = Rooms(room)
        mine = (row for row in fresh if row.due is None or row.due <= changes.now)
        self._fresh = sorted((row for row in mine if fits(row, want, self._rooms)), key=_PLACE)
        #: Rows of which a part was taken, so that what is read again of them is what is left.
        self._touched: dict[int, SegmentRow] = {}
        self._cut: set[int] = set()

    def find(self) -> bool | None:
        """Return whether suspects wait, if there is nothing to take; None when there is."""
        if self._found.apart:
            return False
        suspects = any(True for _ in self._found.suspects(self._rooms))
        if self._want.limit < 1:
            return suspects
        if suspects and not self._found.held:
            return None
        if any(True for _ in self._found.ready(self._rooms)) or any(True for _ in self._passed_over()):
            return None
        return suspects

    def take(self, turn: int) -> Taken:
        """Choose rows and claim them."""
        found, want = self._found, self._want
        if found.apart:
            return Taken((), False, turn)
        fresh_suspects = [row for row in self._fresh if row.is_apart]
        self._fresh = [row for row in self._fresh if not row.is_apart] if fresh_suspects else self._fresh
        suspects = list(islice(merge(found.suspects(self._rooms), fresh_suspects, key=_PLACE), 2))
        taken: list[SegmentRow] = []
        if suspects and not found.held and want.limit > 0:
            self._take(suspects[0], want.limit, taken, most=1)
            if taken:
                self._close()
                return Taken(taken, len(suspects) > 1, turn)
        shared = self._by_turns(turn)
        if shared is not None:
            self._take(shared, max(1, want.limit // 4), taken, most=1)
        taken += self._by_rank(want.limit - sum(row.count for row in taken))
        if not taken:
            self._behind_others(want.limit, taken)
        self._close()
        # One that was alone had its turn: who comes now is next.
        turn = taken[0].run if taken else turn
        return Taken(taken, bool(suspects), turn)

    def _by_rank(self, limit: int) -> list[SegmentRow]:
        """Rows and heads of rows, best first, until the limit is reached."""
        taken: list[SegmentRow] = []
        if limit < 1:
            return taken
        rows = merge(self._ready(), self._fresh, key=_PLACE) if self._fresh else self._ready()
        # First what follows the one whose turn it was.
        for row in chain((None,), rows):
            if row is not None:
                limit = self._take(row, limit, taken)
            while limit > 0 and (behind := self._behind()) is not None:
                limit = self._take(behind, limit, taken)
            if limit < 1 or self._waiting_room < 1:
                break
        return taken

    def _take(self, row: SegmentRow, limit: int, taken: list[SegmentRow], most: int | None = None) -> int:
        """Claim pieces of a row, as much as may be taken, or `most` of them; how many more tasks are wanted then."""
        if row.state is not SegmentState.READY or limit < 1 or self._rooms.of(row.run, limit) < 1:
            return limit
        if self._few.get(row.kind, limit) < 1 and self._places.of(row):
            # It stays whole as well: a row of several lanes comes apart when it is taken from.
            self._rooms.enough.add((row.kind, row.queue))
            return limit
        for piece in self._apart(row) if self._places.are_any else (row,):
            while limit > 0 and piece.state is SegmentState.READY and self._rooms.of(piece.run, limit) > 0:
                head = self._head(piece, limit)
                if head is None:
                    break
                taken.append(head)
                limit -= head.count
                if len(taken) == most:
                    return limit
        return limit

    def _apart(self, row: SegmentRow) -> Iterable[SegmentRow]:
        """Rows of one lane each in the place of one of several lanes whose limit is per lane."""
        if row.lane is not None or not self._places.is_per_lane(row):
            return (row,)
        changes, whole = self._changes, row
        new = next((span for span in changes.spans if span.first == row.span), None)
        if not (new or self._tables.spans([row.span])[row.span]).laned:
            return (row,)
        if row.last - row.first >= MASK_WIDTH:
            # What is left of a wide row comes apart when a claim meets it.
            whole = row.split_off(row.first + MASK_WIDTH)
            if row.id and row.id not in self._cut:
                self._cut.add(row.id)
                changes.cut.append(row)
            self._touched[row.id] = row
        elif row.id:
            changes.dropped.append(row)
            self._touched[row.id] = row
            self._places.leave(row, row.line)
            row.without_line()
        else:
            changes.segments.remove(row)
        lanes = self._tables.lanes_of(whole.first, whole.last) if new is None else _new_lanes(changes, row.span)
        found = apart(whole.tasks, [lanes[task] for task in whole.tasks])
        pieces = [replace(whole, id=0, lane=lane, first=a, last=z, left=left) for lane, a, z, left in found]
        changes.segments += pieces
        whole.state = SegmentState.GARBAGE
        return pieces

    def _behind_others(self, limit: int, taken: list[SegmentRow]) -> None:
        """Take rows behind heads that this claim may not take, each of which stays the head. A suspect is alone."""
        for row in self._passed_over():
            if row.is_apart and taken:
                continue
            line = row.line
            row.state, row.line = SegmentState.READY, None
            limit = self._take(row, limit, taken, most=1 if row.is_apart else None)
            if row.state is SegmentState.READY:
                row.state, row.line = SegmentState.LIMITED, line
            if limit < 1 or (row.is_apart and taken):
                return

    def _passed_over(self) -> Iterator[SegmentRow]:
        """The rows that this claim may take behind heads that it may not, because it does not serve their runs, say."""
        if not self._places.are_any or self._want.limit < 1:
            return
        runs = self._runs_behind()
        for head in self._tables.heads_of(self._want, runs, self._changes.now):
            if fits(head, self._want, self._rooms) or head.id in self._touched or head.line is None:
                continue
            if limit_of_line(head.line)[1] in self._want.busy_lanes:
                # All that waits there is of that lane.
                continue
            for row in self._tables.in_line(head.line, head.kind, head.queue, runs):
                may_take = fits(row, self._want, self._rooms) and not (row.is_apart and self._found.held)
                if may_take and not self._places.has_moved(row):
                    if not self._places.has_room(row):
                        break
                    yield row

    def _runs_behind(self) -> Collection[int] | None:
        """The runs of which rows may be taken behind heads of others; None for all, where none bounds its tasks."""
        if self._want.runs is None and not self._found.is_bounded:
            return None
        runs = self._tables.runs_in_line() if self._want.runs is None else self._want.runs
        return [run for run in runs if self._rooms.of(run, 1) > 0]

    def _behind(self) -> SegmentRow | None:
        """The next row of a line whose head was taken, if this claim may take it; else it stays the head."""
        while (row := self._places.follow()) is not None:
            if fits(row, self._want, self._rooms):
                return row
        return None

    def _close(self) -> None:
        """Leave a head in each line whose place has room."""
        while self._places.follow() is not None:
            pass

    def _ready(self) -> Iterator[SegmentRow]:
        """The stored rows, as this claim has left them."""
        for row in self._found.ready(self._rooms):
            yield self._touched.get(row.id, row)

    def _by_turns(self, turn: int) -> SegmentRow | None:
        """The best row of the next run that has work, so that none waits behind a long one; None without another."""
        if self._want.limit < 1 or len(list(islice(self._runs_after(0), 2))) < 2:
            return None
        able: list[SegmentRow] = []
        up_to_it = takewhile(lambda run: run <= turn, self._runs_after(0))
        for run in islice(chain(self._runs_after(turn), up_to_it), TURN_WINDOW):
            if (best := self._best_of(run)) is not None:
                able.append(best)
                if len(able) == 2:
                    return able[0]
        return None

    def _runs_after(self, after: int) -> Iterator[int]:
        """The runs that have work, wanted or not, by id."""
        mine = sorted({row.run for row in self._fresh})
        while True:
            later = [run for run in mine if run > after]
            stored = self._found.next_run(after, self._rooms)
            if stored is None and not later:
                return
            after = min(later[:1] if stored is None else [stored, *later[:1]])
            yield after

    def _best_of(self, run: int) -> SegmentRow | None:
        if (self._want.runs is not None and run not in self._want.runs) or not self._rooms.of(run, 1):
            return None
        stored = self._found.best_of(run, self._rooms)
        heads = [row for row in self._fresh if row.run == run][:1]
        return min(heads if stored is None else [stored, *heads], key=_PLACE, default=None)

    def _head(self, row: SegmentRow, limit: int) -> SegmentRow | None:
        """Claim as much of the beginning of a row as may be taken; its run has room for some of it. None if a limit of
        the store has not, or enough of its kind was taken.
        """
        places, limit = self._places, self._rooms.of(row.run, limit)
        is_limited = bool(places.of(row))
        if is_limited:
            limit = min(limit, self._few.get(row.kind, limit))
            if limit < 1:
                return None
            limit = places.room(row, limit)
            if limit < 1:
                self._waiting_room -= 1
                self._touched[row.id] = row
                return None
        cut, count = take_head(row.first, row.last, row.left, limit)
        self._rooms.take(row.run, count)
        changes = self._changes
        if is_limited:
            places.take(row, count)
            if row.kind in self._few:
                self._few[row.kind] -= count
        if cut > row.last:
            head = row
            places.leave(row, row.line)
            if row.id:
                changes.claimed.append(row)
        else:
            head = row.split(cut)
            changes.segments.append(head)
            if row.id and row.id not in self._cut:
                self._cut.add(row.id)
                changes.cut.append(row)
        if row.id:
            self._touched[row.id] = row
        head.state, head.owner, head.token = SegmentState.CLAIMED, changes.process, new_token()
        head.line = COUNTED if is_limited else None
        if is_limited and head is not row:
            # A row that must wait now is not met again by the next claim to find that out.
            places.room(row, 1)
        return head
