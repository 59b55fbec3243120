"""Tempting shortcuts of the limits, each one rule of `limit` replaced, and one rule more that the lines may need.

The sentence that says why a shortcut is wrong stands with its case in `limit_cases`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.protocol.checker import Label
from tests.protocol.limit import Limit, Moves
from tests.protocol.limit_rows import GATED, LIMITED, PAUSED, READY, Numbers, Row, State, put


class PassesOver(Limit):
    """Right, and more than `Limit`: a claim that must pass a head over may meet the first row behind it."""

    def choices(self, s: State) -> Iterator[int]:
        yield from super().choices(s)
        met = set()
        for r, row in enumerate(s.rows):
            if row.state != LIMITED or self.is_full(s, row.line) or (row.line, self.group(r)) in met:
                continue
            head = self.head(s, row.line, r)
            if head is not None and not self.fits(s, head) and self.fits(s, r):
                met.add((row.line, self.group(r)))
                yield r


# Places.


class StoredCounter(Limit):
    """Places are counted as they are taken and given back; the reaper knows nothing of it."""

    def running(self, s: State, line: str) -> int:
        return dict(s.stored).get(line, 0)

    def take(self, s: State, i: int, r: int) -> State:
        return self.counted(super().take(s, i, r), [r], 1)

    def freed(self, s: State, i: int, how: str, rows: Iterable[int]) -> State:
        return super().freed(s if how == "reap" else self.counted(s, rows, -1), i, how, rows)

    def counted(self, s: State, rows: Iterable[int], by: int) -> State:
        count = Counter(dict(s.stored))
        for r in rows:
            count.update(dict.fromkeys(self.places(s, r), by))
        return s._replace(stored=tuple(sorted(count.items())))


class FirstPlaceOnly(Limit):
    """A claim looks at the first place of a row."""

    def checked(self, s: State, r: int) -> list[str]:
        return self.places(s, r)[:1]


class CountsOncePerClaim(Limit):
    """A claim counts when it begins, and takes what had room then."""

    def meet_two(self, s: State, i: int, first: int) -> Iterator[tuple[int, State]]:
        between = self.meet(s, i, first)
        for second in self.choices(between):
            room = not any(self.is_full(s, line) for line in self.places(s, second))
            if second != first:
                yield 1 << first | 1 << second, (self.take if room else self.meet)(between, i, second)


# Who readies the next.


class ReadiesLess(Limit):
    """Some verb frees a place, and readies nobody."""

    silent = ""

    def freed(self, s: State, i: int, how: str, rows: Iterable[int]) -> State:
        return s if how.startswith(self.silent) else super().freed(s, i, how, rows)


class ReleaseReadiesNobody(ReadiesLess):
    silent = "release"


class DeferReadiesNobody(ReadiesLess):
    silent = "defer"


class ReapReadiesNobody(ReadiesLess):
    silent = "reap"


class SecondTransaction(Limit):
    """Commit and release free their places, and their process readies the next in a transaction of its own.

    What a living process still means to do is excused: states are judged as if it had been done.
    """

    def freed(self, s: State, i: int, how: str, rows: Iterable[int]) -> State:
        if how == "reap":
            return super().freed(s, i, how, rows)
        lines = sorted({line for r in rows for line in self.places(s, r)})
        return s.with_process(i, s.processes[i]._replace(todo=tuple(lines)))

    def finish(self, s: State, i: int) -> State:
        for line in s.processes[i].todo:
            s = self.ready_next(s, line)
        return s.with_process(i, s.processes[i]._replace(todo=()))

    def wrong(self, s: State) -> str:
        for i, process in enumerate(s.processes):
            if process.todo:
                s = self.finish(s, i)
        return super().wrong(s)

    def work(self, s: State, i: int) -> Moves:
        if s.processes[i].todo:
            yield Label("readies the next in a second transaction", i), False, self.finish(s, i)
        else:
            yield from super().work(s, i)


class OneHeadPerLine(Limit):
    """A line has one head, of any kind."""

    def group(self, r: int) -> object:
        return ""


class TakenWithoutNext(Limit):
    """A head that is claimed is followed by nobody: the one who frees its place will do that."""

    def followed(self, s: State, before: Row, r: int) -> State:
        return super().followed(s, before, r) if s.rows[r].line else s


class MovedWithoutNext(Limit):
    """A head that meets another full place moves to its line, and is followed by nobody."""

    def followed(self, s: State, before: Row, r: int) -> State:
        return s if s.rows[r].line else super().followed(s, before, r)


class PausedWithoutNext(Limit):
    """A pause gates heads as it gates other rows."""

    def pause(self, s: State, run: int) -> State:
        for r in self.unclaimed(s, run):
            s = s.with_row(r, Row(GATED))
        return s._replace(runs=put(s.runs, run, PAUSED))


class CancelledWithoutNext(Limit):
    """What is cancelled while it waits is followed by nobody."""

    def left_behind(self, s: State, before: tuple[Row, ...], rows: Iterable[int]) -> State:
        return s


class PausedStayInLine(Limit):
    """A pause gates what is ready; what waits in a line can start nothing, and stays."""

    def pause(self, s: State, run: int) -> State:
        before = s.rows
        mine = [r for r in self.unclaimed(s, run) if before[r].state == READY]
        for r in mine:
            s = s.with_row(r, Row(GATED))
        return self.left_behind(s._replace(runs=put(s.runs, run, PAUSED)), before, mine)


# Limits that change, and places that time has shut.


class ChangeForgets(Limit):
    """A limit is changed, and its lines go on when a place is freed."""

    def change(self, s: State, numbers: Numbers, which: str) -> State:
        return s._replace(numbers=numbers)


class ShutWithoutHead(Limit):
    """A row that meets a place which is shut waits in its line like all others."""

    def wait_for_opening(self, s: State, r: int, line: str) -> State:
        return s.with_row(r, Row(LIMITED, line))


class ShutHasNoRoom(Limit):
    """A place that is shut has no room, so that nobody is readied for it."""

    def ready_next(self, s: State, line: str) -> State:
        return s if line in s.shut else super().ready_next(s, line)


class KeepsItsLine(Limit):
    """A row that is claimed keeps the line that it came from."""

    def take(self, s: State, i: int, r: int) -> State:
        after = super().take(s, i, r)
        return after.with_row(r, after.rows[r]._replace(line=s.rows[r].line))


class OfBefore(Limit):
    """A claim that meets two rows asks the store something, to which it has not yet written the first."""

    before: State | None = None

    def meet_two(self, s: State, i: int, first: int) -> Iterator[tuple[int, State]]:
        between = self.meet(s, i, first)
        for second in self.choices(between):
            if second != first:
                self.before = s
                after = self.meet(between, i, second)
                self.before = None
                yield 1 << first | 1 << second, after


class HeadsOfBefore(OfBefore):
    """It asks for the head of a line, and has taken it."""

    def wait_for_opening(self, s: State, r: int, line: str) -> State:
        behind = any(self.head(each, line, r) not in (None, r) for each in (s, self.before or s))
        return s.with_row(r, Row(LIMITED, line) if behind else Row(READY, line, due=True))


class LineOfBefore(OfBefore):
    """It asks who is next in a line, into which it has put somebody."""

    def ready_next(self, s: State, line: str) -> State:
        after = super().ready_next(s, line)
        rows = zip(s.rows, after.rows, (self.before or s).rows, strict=True)
        return after._replace(
            rows=tuple(now if now != new and then.state != LIMITED else new for now, new, then in rows)
        )
