"""Limits of a whole store: rows wait in the line of a place, and whoever frees one readies the next in line.

How many places are taken is never stored: it is how many tasks are claimed. A claim that meets a full place puts the
row into its line. Every verb that frees a place, or takes away a line's head, readies the first row of each kind, in
its transaction. A place that is shut by time has a head that is due when it opens. See `ramify.model.limit`.

Checked in every reachable state:
  S1  no claim takes a place that is not there, nor one that is shut
  S3  for each kind in a line the place is full, or one row is ready as the head, in a run that is open
  S4  a row is in at most one line and leaves it when it is claimed, gated or over; no kind has two heads in a line
  L   with no further faults all tasks end that somebody serves and nobody has paused: no place is lost

Nothing is counted down: each fault that a setting names may happen any number of times.

Limits: verbs are atomic (statements interleave in `limit_lock`). A row is one task, so a commit of a part is one of
some rows. A kind stands for a kind and queue. When a row is due and a place opens is free, which covers every clock. A
process that leaves does to the store what a reap does. Stamps and tokens are in `core`; here a verb that is sent again
is done once, and a reaped process is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.protocol.checker import Label, members
from tests.protocol.limit_rows import (
    CLAIMED,
    DRAINING,
    GATED,
    LIMITED,
    OPEN,
    OVER,
    PAUSED,
    READY,
    TOTAL,
    Numbers,
    Process,
    Request,
    Row,
    Setting,
    State,
    canonical,
    kind_of,
    put,
    says,
)
from tests.protocol.rows import CLAIM, COMMIT, DEAD, FROZEN, RELEASE, UP, singles

Moves = Iterator[tuple[Label, bool, State]]


class Limit:
    """The right protocol, in a setting. A shortcut is a subclass that overrides one of its rules."""

    def __init__(self, setting: str) -> None:
        self.setting = Setting.of(setting)
        self.works, self.options = self.setting.works, self.setting.options
        #: The faults that may happen, and what else the setting names.
        self.can = frozenset(self.options)
        self.among = int(self.options.get("processes", 2))
        #: How many rows a process holds at most.
        self.holds = int(self.options.get("holds", 1))

    def start(self) -> State:
        runs = 1 + max(work.run for work in self.works)
        return State((Row(),) * len(self.works), (Process(),) * self.among, (OPEN,) * runs, self.setting.numbers)

    def ended(self, s: State) -> bool:
        return all(row.state == OVER or self.is_excused(s, r) for r, row in enumerate(s.rows))

    def is_excused(self, s: State, r: int) -> bool:
        return not self.is_served(s, r) or s.runs[self.works[r].run] == PAUSED or self.is_endless(r)

    def is_served(self, s: State, r: int) -> bool:
        work = self.works[r]
        return not s.left or self.options["leaves"] not in (work.kind, str(work.run))

    def is_endless(self, r: int) -> bool:
        """Nobody wants to wait for it, and its run has one place."""
        return self.options.get("long") == str(self.works[r].run)

    def canonical(self, s: State) -> State:
        return canonical(s, self.setting.alike)

    def moves(self, s: State) -> Moves:
        anyone_up = any(process.state == UP for process in s.processes)
        for i, process in enumerate(s.processes):
            if process.state == UP:
                yield from self.work(s, i)
            yield from self.mishaps(s, i)
            if anyone_up and not process.reaped:
                yield from self.reaping(s, i)
        if sum(process.state != DEAD for process in s.processes) < self.among or not anyone_up:
            yield Label("a new process starts"), False, s._replace(processes=(*s.processes, Process()))
        yield from self.time(s)
        yield from self.people(s)

    # What a process does.

    def work(self, s: State, i: int) -> Moves:
        """One verb at a time: what it is in doubt about comes first."""
        me = s.processes[i]
        if me.reaped:
            gone = s.with_process(i, Process(DEAD, reaped=True))
            yield Label("has its late commit refused, as it was reaped", i), False, gone
            return
        if me.request:
            again = s.with_process(i, Process())
            results = [(0, again)] if me.used else self.execute(again, i, me.request)
            for mask, after in results:
                yield Label(f"sends its {me.request.verb} again", i, mask or me.request.rows), False, after
            return
        for request, fault in self.wishes(s, i):
            for mask, after in self.execute(s, i, request):
                yield Label(says(request, after, mask), i, mask or request.rows), fault, after
            if "lost" in self.can:
                lost = s.with_process(i, Process(request=request))
                yield Label(f"loses the connection over its {request.verb}", i, request.rows), True, lost

    def wishes(self, s: State, i: int) -> Iterator[tuple[Request, bool]]:
        """The verbs this process may send now, and whether the protocol must not count on them."""
        held = s.held(i)
        if held.bit_count() < self.holds and any(True for _ in self.choices(s)):
            yield Request(CLAIM), False
        for one in singles(held):
            (r,) = members(one)
            if not self.is_endless(r):
                yield Request(COMMIT, one), False
            if "defer" in self.can:
                yield Request(COMMIT, one, one), True
            if "close" in self.can:
                for line in self.places(s, r):
                    yield Request(COMMIT, one, one, line), True
            if "release" in self.can:
                yield Request(RELEASE, one), True
        if held.bit_count() > 1:
            yield Request(COMMIT, held), False

    # What the store does: each verb is one transaction.

    def execute(self, s: State, i: int, request: Request) -> Iterator[tuple[int, State]]:
        """Carry out one verb; yields (rows that it met, next state), once for each row a claim could meet."""
        if request.verb == CLAIM:
            some = False
            for r in self.choices(s):
                some = True
                yield 1 << r, self.meet(s, i, r)
                if "pairs" in self.can and s.held(i).bit_count() + 1 < self.holds:
                    yield from self.meet_two(s, i, r)
            if not some:
                yield 0, s
        elif request.rows & ~s.held(i):
            yield 0, s
        else:
            yield 0, self.give_back(s, i, request)

    def meet_two(self, s: State, i: int, first: int) -> Iterator[tuple[int, State]]:
        """A claim that meets two rows sees the place that the first one takes."""
        between = self.meet(s, i, first)
        for second in self.choices(between):
            if second != first:
                yield 1 << first | 1 << second, self.meet(between, i, second)

    def choices(self, s: State) -> Iterator[int]:
        """The rows that a claim may meet: which one is free, which covers every rank."""
        for r, row in enumerate(s.rows):
            if row.state == READY and not row.due and self.fits(s, r):
                yield r

    def fits(self, s: State, r: int) -> bool:
        """May it be claimed, if there is a place: somebody serves it, and its run has room."""
        run = self.works[r].run
        if self.is_endless(r) and any(self.works[other].run == run for other in self.takers(s, TOTAL)):
            return False
        return s.runs[run] == OPEN and self.is_served(s, r)

    def meet(self, s: State, i: int, r: int) -> State:
        """A claim meets a row: it is taken, or goes into the line of the first place that has no room for it."""
        before = s.rows[r]
        for line in self.checked(s, r):
            if self.is_full(s, line):
                return self.followed(s.with_row(r, Row(LIMITED, line)), before, r)
            if line in s.shut:
                return self.followed(self.wait_for_opening(s, r, line), before, r)
        return self.followed(self.take(s, i, r), before, r)

    def checked(self, s: State, r: int) -> list[str]:
        """The places that a claim looks at, those of lanes first."""
        return self.places(s, r)

    def wait_for_opening(self, s: State, r: int, line: str) -> State:
        """Time readies nobody, so that one row of each kind waits for it."""
        behind = self.head(s, line, r) not in (None, r)
        return s.with_row(r, Row(LIMITED, line) if behind else Row(READY, line, due=True))

    def take(self, s: State, i: int, r: int) -> State:
        broken, places = s.broken, self.places(s, r)
        for line in places:
            if len(self.takers(s, line)) >= self.capacity(s, line):
                broken = broken or f"S1 more tasks are claimed than the {line} has places"
            if line in s.shut:
                broken = broken or f"S1 a task starts while the {line} is shut"
        shut = {line for line in places if kind_of(line) == self.options.get("rate")}
        return s.with_row(r, Row(CLAIMED, owner=i))._replace(shut=tuple(sorted({*s.shut, *shut})), broken=broken)

    def followed(self, s: State, before: Row, r: int) -> State:
        """A head that is one no more is followed by the next."""
        now = s.rows[r]
        if before.line and (now.state, now.line) != (READY, before.line):
            return self.ready_next(s, before.line)
        return s

    def give_back(self, s: State, i: int, request: Request) -> State:
        """Commit, defer, release: the rows are over or offered again, and their places are free."""
        for r in members(request.rows):
            if request.verb == COMMIT and not request.deferred >> r & 1:
                s = s.with_row(r, Row(OVER))
            else:
                s = self.offered(s, r, later=bool(request.deferred))
        if request.closes:
            s = s._replace(shut=tuple(sorted({*s.shut, request.closes})))
        return self.freed(s, i, says(request, s), members(request.rows))

    def offered(self, s: State, r: int, *, later: bool = False) -> State:
        return s.with_row(r, Row(READY if s.runs[self.works[r].run] == OPEN else GATED, due=later))

    def freed(self, s: State, _i: int, _verb: str, rows: Iterable[int]) -> State:
        """In the transaction that frees places, their lines go on."""
        for line in sorted({line for r in rows for line in self.places(s, r)}):
            s = self.ready_next(s, line)
        return s

    def ready_next(self, s: State, line: str) -> State:
        """The first row of each kind of a line, if there is room, and none of that kind is ready."""
        if self.is_full(s, line):
            return s
        for r, row in enumerate(s.rows):
            if row.state == LIMITED and row.line == line and self.head(s, line, r) is None:
                s = s.with_row(r, Row(READY, line))
        return s

    # Places and lines.

    def places(self, s: State, r: int) -> list[str]:
        """The places that a row takes, by the limits that hold now."""
        return [line for line in (f"lane {self.works[r].lane}", TOTAL) if self.capacity(s, line)]

    def capacity(self, s: State, line: str) -> int:
        return s.numbers.total if line == TOTAL else s.numbers.lane

    def takers(self, s: State, line: str) -> list[int]:
        """The claimed rows that take a place."""
        mine = (r for r, row in enumerate(s.rows) if row.state == CLAIMED)
        return [r for r in mine if line in (TOTAL, f"lane {self.works[r].lane}")]

    def is_full(self, s: State, line: str) -> bool:
        capacity = self.capacity(s, line)
        return bool(capacity) and self.running(s, line) >= capacity

    def running(self, s: State, line: str) -> int:
        """How many places are taken: derived from what is claimed."""
        return len(self.takers(s, line))

    def head(self, s: State, line: str, r: int) -> int | None:
        """The row of the group of `r` that is ready as the head of a line."""
        group = self.group(r)
        for other, row in enumerate(s.rows):
            if row.state == READY and row.line == line and self.group(other) == group:
                return other
        return None

    def group(self, r: int) -> object:
        """Rows that stand behind each other: those of a kind and queue."""
        return self.works[r].kind

    # What goes wrong.

    def mishaps(self, s: State, i: int) -> Moves:
        me = s.processes[i]
        # A successor of them all is spared until one of them is reaped: it would be as if it had not started yet.
        may_fail = sum(not each.is_over for each in s.processes) <= self.among
        if "freeze" in self.can and me.state == UP and may_fail:
            yield Label("is frozen", i), True, s.with_process(i, me._replace(state=FROZEN))
        if me.state == FROZEN:
            yield Label("thaws", i), True, s.with_process(i, me._replace(state=UP))
        if "crash" in self.can and me.state != DEAD and may_fail:
            yield Label("is killed", i), True, s.with_process(i, me._replace(state=DEAD, todo=()))
        if me.request and not me.used and not me.reaped:
            used = s.with_process(i, me._replace(used=True))
            for mask, after in self.execute(used, i, me.request):
                yield Label(f"has its lost {me.request.verb} carried out late", i, mask or me.request.rows), True, after

    def reaping(self, s: State, i: int) -> Moves:
        if s.processes[i].state != UP:
            yield Label("is reaped", i), False, self.reap(s, i)
        elif "false_reap" in self.can:
            yield Label("is reaped though alive", i), True, self.reap(s, i)

    def reap(self, s: State, i: int) -> State:
        """Void the claims of a process, and ready who waited for their places, in one transaction."""
        me, held = s.processes[i], s.held(i)
        s = s.with_process(i, Process(me.state, reaped=True))
        for r in members(held):
            s = self.offered(s, r)
        return self.freed(s, i, "reap", members(held))

    def time(self, s: State) -> Moves:
        for line in s.shut:
            yield Label(f"the {line} opens"), False, s._replace(shut=tuple(each for each in s.shut if each != line))
        for r, row in enumerate(s.rows):
            if row.due and row.state == READY:
                yield Label("due are", tasks=1 << r), False, s.with_row(r, row._replace(due=False))

    # What people do.

    def people(self, s: State) -> Moves:
        for run, state in enumerate(s.runs):
            if "pause" in self.can and state == OPEN:
                yield Label(f"run {run} is paused"), True, self.pause(s, run)
            if "pause" in self.can and state == PAUSED:
                yield Label(f"run {run} is resumed"), True, self.resume(s, run)
            if "cancel" in self.can and state != DRAINING:
                draining = s._replace(runs=put(s.runs, run, DRAINING))
                yield Label(f"run {run} is cancelled"), True, self.sweep(draining, self.unclaimed(s, run))
            if state == DRAINING and (left := self.unclaimed(s, run)):
                yield Label(f"run {run} is swept"), False, self.sweep(s, left)
        for r, row in enumerate(s.rows):
            if "cancel_task" in self.can and row.state in (READY, LIMITED):
                yield Label("cancelled while it waits is", tasks=1 << r), True, self.sweep(s, [r])
        if "leaves" in self.can and not s.left:
            yield Label(f"nobody serves {self.options['leaves']} any more"), True, s._replace(left=True)
        if "change" in self.can:
            which = self.options["change"]
            for number in range(3):
                numbers = s.numbers._replace(**{which: number})
                if numbers != s.numbers:
                    yield Label(f"somebody sets {which} to {number}"), True, self.change(s, numbers, which)

    def unclaimed(self, s: State, run: int) -> list[int]:
        mine = (r for r, work in enumerate(self.works) if work.run == run)
        return [r for r in mine if s.rows[r].state in (READY, LIMITED, GATED)]

    def pause(self, s: State, run: int) -> State:
        """All that nobody holds goes behind the gate, out of its lines; these go on."""
        before, mine = s.rows, self.unclaimed(s, run)
        for r in mine:
            s = s.with_row(r, Row(GATED, due=before[r].due and not before[r].line))
        return self.left_behind(s._replace(runs=put(s.runs, run, PAUSED)), before, mine)

    def resume(self, s: State, run: int) -> State:
        s = s._replace(runs=put(s.runs, run, OPEN))
        for r in self.unclaimed(s, run):
            s = s.with_row(r, s.rows[r]._replace(state=READY))
        return s

    def sweep(self, s: State, rows: list[int]) -> State:
        before = s.rows
        for r in rows:
            s = s.with_row(r, Row(OVER))
        return self.left_behind(s, before, rows)

    def left_behind(self, s: State, before: tuple[Row, ...], rows: Iterable[int]) -> State:
        """The lines of which these rows were heads go on."""
        for line in sorted({before[r].line for r in rows if before[r].line and before[r].state == READY}):
            s = self.ready_next(s, line)
        return s

    def change(self, s: State, numbers: Numbers, which: str) -> State:
        """All rows of the lines of a limit are ready, and claims put back what must wait."""
        s = s._replace(numbers=numbers)
        for r, row in enumerate(s.rows):
            if row.line and kind_of(row.line) == which:
                s = s.with_row(r, Row(READY))
        return s

    # What must hold.

    def wrong(self, s: State) -> str:
        if s.broken:
            return s.broken
        heads = set()
        for r, row in enumerate(s.rows):
            if row.line and row.state not in (READY, LIMITED):
                return f"S4 a row that is {row.state} is in the line of the {row.line}"
            if row.line and row.state == READY:
                if (row.line, self.group(r)) in heads:
                    return f"S4 one kind has two heads in the line of the {row.line}"
                heads.add((row.line, self.group(r)))
        for r, row in enumerate(s.rows):
            if row.state == LIMITED and not self.has_hope(s, r, row.line):
                return f"S3 a row waits for the {row.line}, which has room, behind nobody"
        return ""

    def has_hope(self, s: State, r: int, line: str) -> bool:
        capacity = self.capacity(s, line)
        if capacity and len(self.takers(s, line)) >= capacity:
            return True
        head = self.head(s, line, r)
        return head is not None and s.runs[self.works[head].run] == OPEN
