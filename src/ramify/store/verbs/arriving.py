"""Arrivals: joins learn of ends, and the tasks of those that fired are offered.

A verb collects arrivals in the order of its parts and settles them together at its end. What it adds itself counts as
if it were stored: new joins, new waiters, tasks that have just ended, rows that have just been made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat

from msgspec.structs import replace

from ramify.model.arrivals import Arrival, Arrivals, Slot, Standing, created, dues, settle, skipped_as
from ramify.model.event import Status
from ramify.model.join import AHEAD, BEFORE, NewJoins, NewWaiters, Rule
from ramify.model.links import older_tasks
from ramify.model.run import StoredRun
from ramify.model.segment import SegmentState, mask_of, trim
from ramify.model.task import NewTasks
from ramify.store.changes import Changes, Waiters
from ramify.store.rows import SegmentRow, SpanRow, state_for
from ramify.store.tables import At, SmallJoin, Tables


class EndedTasks:
    """Tasks that ended: with one status for all, or one each."""

    def __init__(self, tasks: Sequence[int], statuses: Status | Sequence[Status]) -> None:
        self.tasks, self._statuses = tasks, statuses

    @classmethod
    def of(cls, tasks: Sequence[int], statuses: Status | Sequence[Status]) -> EndedTasks:
        """The tasks of some whose life ends with their status."""
        if isinstance(statuses, Status):
            return cls(tasks if statuses.is_end else (), statuses)
        pairs = [(t, s) for t, s in zip(tasks, statuses, strict=True) if s.is_end]
        return cls([t for t, _ in pairs], [s for _, s in pairs])

    @property
    def all_done(self) -> bool:
        """True if it is known without a look at each that all of them ended well."""
        return self._statuses is Status.DONE

    def __iter__(self) -> Iterator[tuple[int, Status]]:
        one_for_all = isinstance(self._statuses, Status)
        return zip(self.tasks, repeat(self._statuses) if one_for_all else self._statuses, strict=False)  # type: ignore[arg-type]


class Arriving:
    """The arrivals of a verb."""

    def __init__(
        self,
        tables: Tables,
        changes: Changes,
        runs: Mapping[int, StoredRun],
        waiters: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        """`runs` are those that were loaded, and `waiters` those of the tasks that end."""
        self._tables, self._changes, self._runs = tables, changes, runs
        self._waiting: dict[int, list[Slot]] = {}
        for task, join, slot in waiters:
            self._waiting.setdefault(task, []).append((join, slot))
        self._ended: dict[int, Status] = {}
        self._arrivals: list[Arrivals] = []
        self._empty: dict[int, At] = {}
        #: By task, the last one behind it.
        self._behind: dict[int, int] = {}

    def create(self, run: int, joins: Iterable[NewJoins], round: int) -> None:
        """Add joins; those that wait for nobody fire."""
        for new in joins:
            self._changes.new_joins.append((run, new))
            if 0 in new.needs:
                self._empty.update((join, (run, round)) for join, n in zip(new.ids, new.needs, strict=True) if not n)

    def end(self, ended: EndedTasks) -> None:
        """These have just ended: whoever waits for them from now on need not."""
        self._ended.update(ended)

    def wait(self, new: Iterable[NewTasks], waiters: Sequence[NewWaiters], became: Mapping[int, int]) -> list[Arrival]:
        """Make the ends of tasks arrivals; the answer are those of tasks that have ended, which no `new` one has.

        `became` are the ids that tasks have in place of those that they were given.
        """
        if not waiters:
            return []
        if any(some.behind for some in waiters):
            waiters = self._in_order(waiters, became)
        older = older_tasks(new, waiters) | set(became.values())
        stored = older - self._ended.keys()
        ended = {task: self._ended[task] for task in older - stored}
        ended |= self._tables.endings(stored) if stored else {}
        self._arriving(ended)
        arrivals: list[Arrival] = []
        for some in waiters:
            tasks = [became.get(task, task) for task in some.tasks] if became else some.tasks
            self._changes.waiters.append(Waiters(tasks, some.joins, some.slots))
            if not older.isdisjoint(tasks):
                for task, join, slot in zip(tasks, some.joins, some.slots, strict=True):
                    if task in ended:
                        arrivals.append((join, slot, ended[task]))
                    if task in older:
                        self._waiting.setdefault(task, []).append((join, slot))
        return arrivals

    def _in_order(self, waiters: Sequence[NewWaiters], became: Mapping[int, int]) -> Sequence[NewWaiters]:
        """The same, with those who came before in place of the tasks that somebody is behind.

        A task that lost its key is not there, so nobody can be behind it.
        """
        ahead = {task for some in waiters if some.behind for task in some.tasks}
        unknown = ahead - self._behind.keys()
        for task, last in (self._tables.last_behind(unknown) if unknown else {}).items():
            self._behind[task] = self._in_line(last, task)
        return [self._before(some, became) if some.behind else some for some in waiters]

    def _before(self, some: NewWaiters, became: Mapping[int, int]) -> NewWaiters:
        before: list[tuple[int, int, int]] = []
        for task, join, slot in zip(some.tasks, some.joins, some.slots, strict=True):
            if join not in became:
                before.append((self._behind.get(task, task), join, slot))
                self._behind[task] = self._changes.behind[task] = join
        return NewWaiters.of(before)

    def _in_line(self, task: int, ahead: int) -> int:
        """The task, or if it was ended before its join fired, the nearest one before it that was not."""
        while task != ahead and self._has_left(task) and (before := self._named(task, BEFORE)):
            task = max(before)
        return task

    def _named(self, join: int, slot: int) -> Sequence[int]:
        """The tasks that arrive in a slot of a join: a task, and whoever continues it."""
        return [task for _, task, _, _ in self._tables.heirs([(0, join, slot)])]

    def _has_left(self, task: int) -> bool:
        """Return whether a task was behind another one and is ended although its join has not fired."""
        if task not in self._ended and task not in self._tables.endings([task]):
            return False
        join = self._tables.joins({task: ()}).get(task)
        return join is not None and join.rule == Rule.BEHIND and not join.fired

    def leave(self, run: int, round: int, ended: Iterable[EndedTasks]) -> None:
        """These end, all whose waiters are known, and may wait themselves: whoever came next waits for who was before.

        What arrives by that goes to a round of a run.
        """
        slots = [(task, *pair) for task, pairs in self._waiting.items() for pair in pairs if pair[1] == BEFORE]
        if not slots:
            return
        for some in ended:
            self.end(some)
        next_ones = self._tables.joins({join: () for _, join, _ in slots})
        for task, join, slot in slots:
            if join not in next_ones or next_ones[join].rule != Rule.BEHIND or not self._has_left(task):
                continue
            ahead = min(self._named(join, AHEAD[0]), default=0)
            self._waiting[task].remove((join, slot))
            self._changes.disowned.append((task, join, slot))
            self.arrive(run, round, self.wait_for(self._in_line(task, ahead), join, slot))

    def wait_for(self, task: int, join: int, slot: int) -> list[Arrival]:
        """Make the end of one task an arrival."""
        return self.wait((), [NewWaiters.one(task, join, slot)], {})

    def memberships(self, span: SpanRow, tasks: Iterable[int]) -> list[tuple[int, int, int]]:
        """The join slots that the ends of tasks of one span fill: the task, the join and the slot of each."""
        return [(task, *each) for task in tasks for each in (*self._own(span, task), *self._waiting.get(task, ()))]

    def _own(self, span: SpanRow, task: int) -> Sequence[Slot]:
        return () if span.join is None else ((span.join, task + span.shift),)

    def add(
        self, run: int, round: int, span: SpanRow, ended: EndedTasks, left_out: Collection[int] = (),
        more: Sequence[Arrival] = (),
    ) -> None:  # fmt: skip
        """Tasks of one span ended, but for those `left_out`; what fires goes to a round of a run, as of `more`."""
        if ended.all_done and not left_out:
            done = self._slots(span, ended.tasks)
            members = more
        else:
            done, members = [], [*more, *self._members(span, ended, left_out)]
        if done or members:
            self._arrivals.append(Arrivals(run, round, members, done))

    def arrive(self, run: int, round: int, members: Sequence[Arrival]) -> None:
        """These have arrived."""
        if members:
            self._arrivals.append(Arrivals(run, round, members))

    def _slots(self, span: SpanRow, tasks: Sequence[int]) -> list[Slot]:
        found = [] if span.join is None else [(span.join, task + span.shift) for task in tasks]
        for task in self._waited_for(tasks):
            found += self._waiting[task]
        return found

    def _members(self, span: SpanRow, ended: EndedTasks, left_out: Collection[int]) -> list[Arrival]:
        concerned = set(ended.tasks if span.join is not None else self._waited_for(ended.tasks)).difference(left_out)
        status_of = self._arriving({task: status for task, status in ended if task in concerned}) if concerned else {}
        return [(join, slot, status_of[task]) for task, join, slot in self.memberships(span, sorted(status_of))]

    def _waited_for(self, tasks: Sequence[int]) -> Sequence[int]:
        """The tasks of these that somebody waits for."""
        if not self._waiting:
            return ()
        if isinstance(tasks, range) and len(tasks) > len(self._waiting):
            return [task for task in self._waiting if task in tasks]
        return [task for task in tasks if task in self._waiting]

    def _arriving(self, ended: dict[int, Status]) -> dict[int, Status]:
        """How tasks arrive that ended like this."""
        if skipped := [task for task, status in ended.items() if status is Status.SKIPPED]:
            own = self._tables.joins(dict.fromkeys(skipped, ()))
            ended.update((task, skipped_as(own.get(task))) for task in skipped)
        return ended

    # at the end

    def settle(self, slots: Mapping[At, Sequence[SmallJoin]] | None = None) -> None:
        """Let all of them arrive, and offer the tasks of the joins that fired; `slots` are those of small joins."""
        fired = self._settle_small(slots) if slots else {}
        joins: Mapping[int, Standing] = {}
        if self._arrivals or self._empty:
            settled = settle(self._arrivals, self._empty, self._load)
            self._changes.joins += settled.changed
            fired.update(settled.fired)
            joins = settled.joins
        if fired:
            self._publish(fired, joins)

    def _settle_small(self, slots: Mapping[At, Sequence[SmallJoin]]) -> dict[int, At]:
        """Members that are done arrive at joins whose bits are a number: the latest of them decides where it fires."""
        fired: dict[int, At] = {}
        arrived: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for at, joins in sorted(slots.items()):
            for join, here, before, size in joins:
                arrived[join] = arrived.get(join, before) | here
                sizes[join] = size
                if arrived[join] == (1 << size) - 1:
                    fired[join] = at
        self._changes.small += [(join, bits, join in fired) for join, bits in arrived.items()]
        return fired

    def _load(self, wanted: Mapping[int, Collection[int]]) -> Mapping[int, Standing]:
        """Joins, those that this verb creates included."""
        fresh: dict[int, Standing] = {}
        for run, new in self._changes.new_joins:
            if not wanted.keys().isdisjoint(new.ids):
                fresh.update((join.id, join) for join in created(run, new) if join.id in wanted)
        stored = {join: parts for join, parts in wanted.items() if join not in fresh}
        return {**fresh, **self._tables.joins(stored)} if stored else fresh

    def _filled(self, join: int) -> Standing:
        """A small join as it is now that its last members have arrived, all of them done."""
        standing = self._load({join: (0,)})[join]
        bits = standing.parts[0]
        standing.arrive(0, ((1 << bits.size) - 1) & ~bits.arrived)
        return standing

    def _publish(self, fired: Mapping[int, At], joins: Mapping[int, Standing]) -> None:
        """Offer tasks that waited. What lies in one row and was fired in one round is offered in one row."""
        waiting = _Waiting(self._changes, self._tables, sorted(fired))
        #: By row and round; without a round, what another run fired waits for the next one of its own.
        alike: dict[tuple[int, int | None], list[int]] = {}
        found: dict[int, SegmentRow] = {}
        at: At | None = None
        row: SegmentRow | None = None
        members: list[int] = []
        for task in sorted(fired):
            # Neighbours mostly lie in one row and fire in one round.
            if row is None or fired[task] != at or not row.covers(task):
                row, at, members = waiting.row_of(task), fired[task], []
                if row is not None:
                    found[id(row)] = row
                    members = alike.setdefault((id(row), at[1] if row.run == at[0] else None), members)
            members.append(task)
        runs = self._known_runs({row.run for row in found.values()})
        for (number, fired_in), members in alike.items():
            row = found[number]
            its = runs[row.run]
            round = its.round + 1 if fired_in is None else fired_in
            state = state_for(its, round)
            by_due = dues(members, row.due, self._changes.now, lambda join: joins.get(join) or self._filled(join))
            left = row.bits & ~mask_of(members, row.first)
            for due, some in by_due.items():
                first, last, kept = trim(row.first, mask_of(some, row.first))
                self._changes.segments.append(
                    replace(row, id=0, round=round, first=first, last=last, left=kept, due=due, state=state)
                )
            row.left = left
        waiting.leave(found.values())

    def _known_runs(self, wanted: set[int]) -> Mapping[int, StoredRun]:
        if missing := wanted - self._runs.keys():
            self._runs = {**self._runs, **self._tables.runs(missing)}
        return self._runs


class _Waiting:
    """The rows of waiting tasks: stored ones, and those that the verb itself has just made."""

    def __init__(self, changes: Changes, tables: Tables, tasks: Sequence[int]) -> None:
        self._changes = changes
        self._new = sorted(
            (row for row in changes.segments if row.state is SegmentState.WAITING), key=lambda row: row.first
        )
        self._firsts = [row.first for row in self._new]
        stored = [task for task in tasks if self._made(task) is None] if self._new else tasks
        #: As the verb has left them, where it has taken tasks out already.
        known, gone = {row.id: row for row in changes.masked}, {row.id for row in changes.dropped}
        covering = (row for row in tables.covering(stored) if row.id not in gone) if stored else ()
        self._stored = [known.get(row.id, row) for row in covering]
        self._near: list[SegmentRow] = []
        self._next = 0

    def _made(self, task: int) -> SegmentRow | None:
        at = bisect_right(self._firsts, task) - 1
        return self._new[at] if at >= 0 and self._new[at].last >= task else None

    def row_of(self, task: int) -> SegmentRow | None:
        """The row of a waiting task; they are asked in order. None when it does not wait."""
        if (made := self._made(task)) is not None:
            return made
        while self._next < len(self._stored) and self._stored[self._next].first <= task:
            self._near.append(self._stored[self._next])
            self._next += 1
        self._near = [row for row in self._near if row.last >= task]
        row = next((row for row in self._near if row.covers(task)), None)
        return row if row is not None and row.state is SegmentState.WAITING else None

    def leave(self, rows: Iterable[SegmentRow]) -> None:
        """Tasks were taken out of these rows; one that stands for nothing any more goes."""
        gone: set[int] = set()
        for row in rows:
            if row.id:
                (self._changes.masked if row.left else self._changes.dropped).append(row)
            elif not row.left:
                gone.add(id(row))
        if gone:
            self._changes.segments[:] = [row for row in self._changes.segments if id(row) not in gone]
