"""Commits: the one path that writes ends.

Order within a part: what tasks set in the context; events with their counters and key releases; then joins, children,
waiters and staged ranges; then arrivals. Keys are released before children ask for them, so that a task may hand its
key to its successor. What all parts mean to joins is settled together, and the next claim sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from ramify.errors import BadPayload
from ramify.model.arrivals import Arrival
from ramify.model.claim import Want
from ramify.model.commit import Part, check_together
from ramify.model.context import SetValue, after_set, outrun_by
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.links import check_once
from ramify.model.own_topics import FAILURES
from ramify.model.process import Stamp
from ramify.model.run import StoredRun, too_many
from ramify.model.segment import SegmentState, bounds, mask_of, trim
from ramify.model.task import NewTasks
from ramify.store.answers import Answer
from ramify.store.changes import AskAfter, Changes, Events
from ramify.store.rows import SegmentRow, SpanRow, state_for
from ramify.store.tables import Ask, Loaded, Tables
from ramify.store.verbs import adding, advancing, telling
from ramify.store.verbs.adding import Adding
from ramify.store.verbs.arriving import Arriving, EndedTasks
from ramify.store.verbs.claim import Claiming, Outcome, after_again, after_taking
from ramify.store.verbs.keys import Keys
from ramify.store.verbs.lines import Places
from ramify.store.verbs.opening import OpeningRuns, may_open
from ramify.store.verbs.stamps import answered
from ramify.store.verbs.values import SwappedValues

#: The most tasks of a part whose events are written together with those of others: more are worth a statement.
NARROW = 16


def commit(tables: Tables, stamp: Stamp, parts: Sequence[Part], want: Want | None, turn: int, now: int) -> Outcome:
    """Write the parts whose token is valid and record the others; then take the next rows."""
    loaded = tables.load(_ask(stamp, parts, want, turn, now))
    if (again := answered(loaded.session, stamp, "commit")) is not None:
        after = AskAfter() if want is None else after_again(again, want)
        return Outcome(again, after._replace(process=stamp.process), turn, again=True)
    changes = Changes(stamp.process, stamp.n, now)
    changes.refused = [(part.token, len(part.tasks)) for part in parts if part.token not in loaded.held]
    guarded, lost = _swapped(_guarded(tables, parts, loaded), loaded, changes)
    publications = [new for _, part in guarded for new in part.publications]
    publications += telling.failures(tables, loaded, guarded, now)
    answer = Answer("commit", refused=tuple(token for token, _ in changes.refused), lost=lost)
    places = Places(tables, loaded.limits, changes)
    places.count(row for row, _ in guarded)
    if guarded:
        changes.is_logged = True
        Commit(tables, loaded, changes).write(guarded)
    heads = _free(places, guarded)
    claiming = None if want is None else _claiming(tables, loaded, want, changes, guarded, heads, places)
    if (halted := overgrown(loaded, changes)) or (want is not None and changes.seq):
        # The rest of the verb goes by what is there then.
        changes.seq = tables.write(changes)
        changes.go_on()
        publications += telling.ends(tables, advancing.halt(tables, halted, now), now)
        loaded = tables.load(Ask(now, stamp, want=want, turn=turn))
        claiming = None if want is None else _claiming(tables, loaded, want, changes, ())
    after = AskAfter()
    if claiming is not None and want is not None:
        taken = claiming.take(turn)
        turn, after = taken.turn, after_taking(taken, want, now)
        looked = 0 if taken.rows else now
        answer = replace(answer, tokens=taken.tokens, suspects=taken.suspects, looked=looked)
    after = after._replace(process=stamp.process)
    changes.answer, changes.after = answer, after
    # Last of all, so that nobody who has the last number of a topic waits for anything else.
    changes.publications = publications
    seq = tables.write(changes)
    return Outcome(replace(answer, seq=seq), after, turn)


def _ask(stamp: Stamp, parts: Sequence[Part], want: Want | None, turn: int, now: int) -> Ask:
    return Ask(
        now,
        stamp,
        [part.token for part in parts],
        [part.ended() for part in parts],
        all(map(_is_plain, parts)),
        [(part.token, first) for part in parts for first in (*part.publish, *part.discard)],
        [(part.token, new.name) for part in parts for new in part.sets],
        adding.ranges(tasks for part in parts for tasks in _all_new(part)),
        {later.awaits for part in parts for later in part.later if later.awaits is not None},
        opens=may_open(each for part in parts for each in part.additions),
        want=want,
        turn=turn,
        values={swap.key for part in parts for swap in part.swaps}.union(
            [FAILURES] if any(map(telling.has_failures, parts)) else ()
        ),
    )


def _all_new(part: Part) -> Iterable[NewTasks]:
    """Children, and what goes into other runs."""
    return chain(part.children, (tasks for each in part.additions for tasks in each.tasks))


def _is_plain(part: Part) -> bool:
    """Return whether all tasks of a part are done, and nothing else of it can arrive at a join.

    A swap may lose, and then they are not done.
    """
    links = part.waiters or part.heirs or part.joins or part.publish or part.swaps
    return part.statuses is Status.DONE and not links and all(tasks.join is None for tasks in part.children)


def _guarded(tables: Tables, parts: Sequence[Part], loaded: Loaded) -> list[tuple[SegmentRow, Part]]:
    """The parts whose token is valid, each with its row. Refuses the whole batch when one of those does not fit."""
    check_together(parts)
    guarded: list[tuple[SegmentRow, Part]] = []
    children: list[NewTasks] = []
    new_joins: list[NewJoins] = []
    for part in parts:
        row = loaded.held.get(part.token)
        if row is None:
            continue
        guarded.append((row, part))
        tasks = part.tasks
        if tasks and not is_whole(row, tasks) and (min(tasks) < row.first or mask_of(tasks, row.first) & ~row.bits):
            raise BadPayload("a part names a task that is not unfinished in its claim")
        adding.check_joins(tables, part.children, part.joins, part.waiters)
        for first in (*part.publish, *part.discard):
            if (part.token, first) not in loaded.staged:
                raise BadPayload(f"no staged range of this claim begins at {first}")
        children += _all_new(part)
        new_joins += part.joins
    check_once(new_joins)
    adding.check_room(loaded, children)
    return guarded


def _swapped(
    guarded: list[tuple[SegmentRow, Part]], loaded: Loaded, changes: Changes
) -> tuple[list[tuple[SegmentRow, Part]], tuple[int, ...]]:
    """Swap values in the order of the parts; the parts that are applied, and the tasks of those that lost a swap."""
    values = SwappedValues(loaded, changes)
    applied: list[tuple[SegmentRow, Part]] = []
    lost: list[int] = []
    for row, part in guarded:
        if part.swaps and not values.swap(part.swaps):
            lost += part.tasks
        else:
            applied.append((row, part))
    return applied, tuple(lost)


def is_whole(row: SegmentRow, tasks: Sequence[int]) -> bool:
    """Return whether these are all the tasks of a row without gaps."""
    return row.left is None and isinstance(tasks, range) and tasks == range(row.first, row.last + 1)


def _free(places: Places, guarded: Sequence[tuple[SegmentRow, Part]]) -> Sequence[SegmentRow]:
    """Free the places of what the commit gives back; the rows that are next in lines."""
    if not places.are_any:
        return ()
    for row, part in guarded:
        places.free(row, len(part.ended()) + sum(len(later.tasks) for later in part.later))
        for later in part.later:
            if later.closes is not None:
                places.close(row, later.closes, later.due)
    return places.freed()


def _claiming(
    tables: Tables,
    loaded: Loaded,
    want: Want,
    changes: Changes,
    guarded: Sequence[tuple[SegmentRow, Part]],
    heads: Sequence[SegmentRow] = (),
    places: Places | None = None,
) -> Claiming:
    """The claim at the end, which sees what the commit has made ready and given back."""
    found = loaded.candidates
    assert found is not None
    gone = [row for row in changes.dropped if row.owner == changes.process]
    found.held -= len(gone)
    found.apart -= sum(row.is_apart for row in gone)
    fresh = [row for row in changes.segments if row.state is SegmentState.READY]
    fresh += (row for row in changes.offered if row.state is SegmentState.READY)
    fresh += heads
    let_go: Counter[int] = Counter()
    for row, part in guarded:
        let_go[row.run] += len(part.ended()) + sum(len(later.tasks) for later in part.later)
    return Claiming(tables, loaded, want, changes, fresh, let_go, places)


def overgrown(loaded: Loaded, changes: Changes) -> list[int]:
    """The runs that have more tasks now than they may have."""
    if not loaded.counted:
        return []
    added = changes.all_added()
    grown = ((run, many + added[run]) for run, many in loaded.counted.items() if added[run])
    return [run for run, many in grown if too_many(loaded.runs[run], many) is not None]


class Commit:
    """A commit being decided: what its parts have in common. Neither runs nor spans change while it is."""

    def __init__(self, tables: Tables, loaded: Loaded, changes: Changes) -> None:
        self._tables, self._loaded, self._changes = tables, loaded, changes
        self._arriving = Arriving(tables, changes, loaded.runs, loaded.waiters)
        self._context = dict(loaded.context)
        self._opening = OpeningRuns(loaded, changes)
        #: Narrow parts, whose events are written together.
        self._near = _Columns()

    def write(self, guarded: Sequence[tuple[SegmentRow, Part]]) -> None:
        """Decide parts in their order, each with the row that it may end tasks of."""
        groups = [(row.run, tasks) for row, part in guarded for tasks in part.children]
        into = [(self._opening.run(each), each) for _, part in guarded for each in part.additions]
        groups += [(run.id, tasks) for run, each in into for tasks in each.tasks]
        self._keys = Keys(self._tables, self._changes, groups)
        self._adding = Adding(self._changes, self._keys, self._arriving)
        #: Whether a part may make others wait for tasks that end here.
        self._links = any(part.waiters or part.heirs or part.publish for _, part in guarded) or any(
            tasks.join is not None and tasks.keys is not None for _, part in guarded for tasks in part.children
        )
        for row, part in guarded:
            self._write(row, self._loaded.spans[row.span], part)
        self._near.tell(self._changes)
        self._arriving.settle(self._loaded.slots)

    def _write(self, row: SegmentRow, span: SpanRow, part: Part) -> None:
        """Decide one part."""
        run = self._loaded.runs[row.run]
        below = row.round + 1
        outrun = self._set(row, part.sets) if part.sets else {}
        ended = EndedTasks.of(part.tasks, part.statuses)
        highest = self._tell(row, part, outrun)
        if span.releases_keys and ended.tasks:
            self._keys.release(span, self._loaded.keys, ended)
        if row.run in self._loaded.marked:
            self._changes.unmarked += ((row.run, task) for task in ended.tasks)
            self._changes.timely += ((row.run, task) for task in part.tasks)
        if self._links:
            self._arriving.end(ended)
        arrivals: list[Arrival] = []
        if part.joins:
            self._arriving.create(row.run, part.joins, below)
        became: dict[int, int] = {}
        for tasks in part.children:
            added = self._adding.add(run, tasks, below)
            arrivals += added.arrivals
            if part.waiters or part.heirs:
                became.update(added.moved())
        if part.waiters:
            arrivals += self._arriving.wait(part.children, part.waiters, became)
        if part.heirs:
            inherited = [(part.heirs[t], join, slot) for t, join, slot in self._arriving.memberships(span, part.heirs)]
            heirs = [NewWaiters.of(inherited)] if inherited else []
            arrivals += self._arriving.wait(part.children, heirs, became)
        for each in part.additions:
            other = self._opening.run(each)
            for tasks in each.tasks:
                self._adding.add(other, tasks, 0)
        self._changes.garbage += (self._loaded.staged[part.token, first] for first in part.discard)
        for first in part.publish:
            arrivals += self._publish(run, self._loaded.staged[part.token, first])
        if ended.tasks or arrivals:
            self._arriving.add(row.run, below, span, ended, part.heirs, arrivals)
        self._shrink(run, row, part, ended, highest)

    def _set(self, row: SegmentRow, sets: Sequence[SetValue]) -> Mapping[int, int]:
        """Set values in order; who comes too late gets an event: the tasks that did, with how many they got."""
        changes = self._changes
        outrun: Counter[int] = Counter()
        for new in sets:
            known = self._context.get((row.run, new.name))
            after = after_set(known, new, changes.now)
            if after is not known:
                self._context[row.run, new.name] = changes.context[row.run, new.name] = after
                continue
            outrun[new.task] += 1
            number = self._loaded.numbers.get(new.task, 0) + outrun[new.task]
            changes.tell([new.task], (new.task, new.task), number, Status.OUTRUN, [outrun_by(after)])
            changes.counts[row.run, row.kind, row.queue, Status.OUTRUN] += 1
        return outrun

    def _tell(self, row: SegmentRow, part: Part, outrun: Mapping[int, int]) -> int:
        """One event for each task of the part; the highest event number."""
        tasks, statuses = part.tasks, part.statuses
        if not tasks:
            return 0
        counts = self._changes.counts
        if isinstance(statuses, Status):
            counts[row.run, row.kind, row.queue, statuses] += len(tasks)
        else:
            for status, times in Counter(statuses).items():
                counts[row.run, row.kind, row.queue, status] += times
        numbers: int | list[int] = 1
        if row.attempt or outrun:
            known = self._loaded.numbers
            numbers = [known.get(task, 0) + outrun.get(task, 0) + 1 for task in tasks]
        if len(tasks) < NARROW:
            self._near.add(part, numbers)
        else:
            self._changes.tell(tasks, bounds(tasks), numbers, statuses, part.values, part.took)
        return numbers if isinstance(numbers, int) else max(numbers)

    def _publish(self, run: StoredRun, row: SegmentRow) -> list[Arrival]:
        span = self._loaded.spans[row.span]
        if not span.keyed:
            self._adding.publish(run, span, row)
            return []
        # There may be a million keys: the store resolves them by itself, after all that was decided before.
        self._near.tell(self._changes)
        self._changes.seq = self._tables.write(self._changes)
        self._changes.go_on()
        return self._adding.publish_keyed(run, span, row)

    def _shrink(self, run: StoredRun, row: SegmentRow, part: Part, ended: EndedTasks, highest: int) -> None:
        """Clear the bits of what ended and of what comes back later; a row without bits goes, what it staged too."""
        changes = self._changes
        if not part.later and len(ended.tasks) == len(part.tasks) and is_whole(row, part.tasks):
            changes.dropped.append(row)
            changes.unstaged.append(part.token)
            return
        left = row.bits & ~mask_of(ended.tasks, row.first)
        for later in part.later:
            mask = mask_of(later.tasks, row.first)
            left &= ~mask
            first, last, kept = trim(row.first, mask)
            due, awaits = later.wait(later.awaits in self._loaded.over)
            changes.segments.append(
                replace(
                    row, id=0, first=first, last=last, left=kept, due=due, state=state_for(run, row.round),
                    attempt=max(row.attempt, highest), owner=None, token=None, awaits=awaits, line=None,
                )
            )  # fmt: skip
        if not left:
            changes.dropped.append(row)
            changes.unstaged.append(part.token)
            return
        if len(ended.tasks) < len(part.tasks):
            row.attempt = max(row.attempt, highest)
        row.left = left
        if not changes.masked or changes.masked[-1] is not row:
            changes.masked.append(row)


class _Columns:
    """Events of narrow parts as one column: in lanes of their own, tasks have a row each."""

    def __init__(self) -> None:
        self._tasks: list[int] = []
        self._numbers: list[int] = []
        self._statuses: list[Status] = []
        self._values: list[bytes | None] = []
        self._took: dict[int, int] = {}
        self._ranges: list[tuple[int, int]] = []

    def add(self, part: Part, numbers: int | Sequence[int]) -> None:
        """Add the events of a part."""
        count = len(part.tasks)
        self._ranges.append(bounds(part.tasks))
        self._tasks += part.tasks
        self._numbers += [numbers] * count if isinstance(numbers, int) else numbers
        self._statuses += part.status_column()
        self._values += part.value_column()
        self._took |= part.took

    def tell(self, changes: Changes) -> None:
        """Write them down, as alike as they are."""
        if not self._tasks:
            return
        count = len(self._tasks)
        numbers = 1 if self._numbers.count(1) == count else self._numbers
        statuses = self._statuses[0] if self._statuses.count(self._statuses[0]) == count else self._statuses
        values = self._values if self._values.count(None) < count else None
        changes.told += count
        changes.ranges += self._ranges
        changes.events.append(Events(self._tasks, numbers, statuses, values, self._took))
        self.__init__()  # type: ignore[misc]
