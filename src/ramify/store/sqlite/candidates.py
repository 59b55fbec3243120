"""The rows a claim may look at in the SQLite store: a few index seeks however many rows wait.

They are read lazily from the partial indexes, one sorted stream per (kind, queue) that has rows, and merged by rank:
kinds of which nothing waits cost nothing, however many a process knows. Rows with a due time come from `due_rows`.
Nothing may be written while one of the streams is read: a row must not move in an index that is being read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from heapq import merge
from itertools import islice, takewhile
from operator import attrgetter

from ramify.model.claim import Rooms, Want
from ramify.store import tuples
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import due_rows, rows
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.rows import IS_APART
from ramify.store.sqlite.wanted import IS_READY, NEXT_PLACE, wanted_places
from ramify.store.tables import Left
from ramify.store.tuples import SEGMENT_COLUMNS
from ramify.store.verbs.claim import TURN_WINDOW, fits

BY_KIND = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY ready"
    f" WHERE {IS_READY} AND kind = ? AND queue = ? ORDER BY rank, id"
)
BY_RUN = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY ready_run"
    f" WHERE {IS_READY} AND run = ? AND kind = ? AND queue = ? ORDER BY rank, id"
)
SUSPECTS = f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY suspect WHERE state = 0 AND {IS_APART} ORDER BY rank, id"
NEXT_RUN = f"SELECT min(run) FROM segment INDEXED BY ready_run WHERE {IS_READY} AND run > ?"
HELD = f"SELECT count(*), ifnull(sum({IS_APART}), 0) FROM segment INDEXED BY held WHERE state = 3 AND owner = ?"
#: The most rows of runs without room that are passed over one by one.
SKIPPED = 64
#: The most rows that are looked at to say how many tasks are left.
READY_WINDOW = 32
IS_BOUNDED = "SELECT 1 FROM run INDEXED BY run_bounded WHERE max_running IS NOT NULL AND ended IS NULL LIMIT 1"
#: By way of the living processes, whose claims are few, and not of all live rows of the run.
CLAIMED_OF = (
    "SELECT first, segment.last, mask FROM session INDEXED BY living CROSS JOIN segment INDEXED BY held"
    " ON owner = session.process AND run = ? WHERE gone_at IS NULL AND state = 3"
)
LEFT = "SELECT run, lane, first, last, mask FROM segment INDEXED BY"
_PLACE = attrgetter("rank", "id")


class SqliteCandidates:
    """See `ramify.store.tables.Candidates`."""

    def __init__(self, db: Db, process: int, want: Want, now: int) -> None:
        self._db, self._want, self._now = db, want, now
        self._due_rows: list[SegmentRow] | None = None
        self.held, self.apart = db.execute(HELD, (process,)).fetchall()[0]

    @cached_property
    def is_bounded(self) -> bool:
        """True if any run is: where none is, none is looked at."""
        return self._db.execute(IS_BOUNDED).fetchone() is not None

    def room(self, run: int) -> int | None:
        """How many more tasks of a run may be claimed; None for no bound."""
        return room_of(self._db, run) if self.is_bounded else None

    def suspects(self, rooms: Rooms) -> Iterator[SegmentRow]:
        """Rows that must run apart, in their order."""
        for row in map(tuples.segment_row, self._db.execute(SUSPECTS)):
            if fits(row, self._want, rooms) and (row.due is None or row.due <= self._now):
                yield row

    @cached_property
    def _places(self) -> list[tuple[str, str]]:
        return list(wanted_places(self._db, NEXT_PLACE, self._want))

    def _due(self, rooms: Rooms) -> list[SegmentRow]:
        """The rows whose time has come; they are read once."""
        if self._due_rows is None:
            self._due_rows = due_rows.due_now(self._db, self._want, rooms, self._now)
        return self._due_rows

    def ready(self, rooms: Rooms) -> Iterator[SegmentRow]:
        """Return what may be claimed, best first."""
        streams: list[Iterable[SegmentRow]] = [self._due(rooms)]
        for kind, queue in self._places:
            if self._want.runs is None:
                streams.append(self._of_kind(kind, queue, rooms))
            else:
                streams += [self._of_run(run, kind, queue, rooms) for run in sorted(self._want.runs)]
        return (row for row in merge(*streams, key=_PLACE) if fits(row, self._want, rooms))

    def _of_kind(self, kind: str, queue: str, rooms: Rooms) -> Iterator[SegmentRow]:
        """The ready rows of a kind and queue. When many of runs without room are in front, the others one by one."""
        skipped = 0
        for row in map(tuples.segment_row, self._db.execute(BY_KIND, (kind, queue))):
            if (kind, queue) in rooms.enough:
                return
            if rooms.of(row.run, 1):
                yield row
            elif (skipped := skipped + 1) > SKIPPED:
                break
        else:
            return
        runs = islice((run for run in self._ready_runs() if rooms.of(run, 1)), TURN_WINDOW)
        others = merge(*(self._of_run(run, kind, queue, rooms) for run in runs), key=_PLACE)
        yield from (other for other in others if _PLACE(other) > _PLACE(row))

    def _of_run(self, run: int, kind: str, queue: str, rooms: Rooms) -> Iterator[SegmentRow]:
        """Its ready rows, as long as there is room."""
        found = map(tuples.segment_row, self._db.execute(BY_RUN, (run, kind, queue))) if rooms.of(run, 1) else ()
        return takewhile(lambda row: rooms.of(run, 1) > 0 and (kind, queue) not in rooms.enough, found)

    def _ready_runs(self) -> Iterator[int]:
        run: int | None = 0
        while (run := self._db.execute(NEXT_RUN, (run,)).fetchall()[0][0]) is not None:
            yield run

    def next_run(self, after: int, rooms: Rooms) -> int | None:
        """The run after this one that has work."""
        (ready,) = self._db.execute(NEXT_RUN, (after,)).fetchall()[0]
        later = [row.run for row in self._due(rooms) if row.run > after]
        return min(later if ready is None else [ready, *later], default=None)

    def best_of(self, run: int, rooms: Rooms) -> SegmentRow | None:
        """The first of its rows that may be taken now."""
        heads = [row for row in self._due(rooms) if row.run == run][:1]
        for kind, queue in self._places:
            found = (tuples.segment_row(row) for row in self._db.execute(BY_RUN, (run, kind, queue)))
            heads += islice((row for row in found if fits(row, self._want, rooms)), 1)
        return min(heads, key=_PLACE, default=None)

    def left(self) -> Left:
        """Return what there is to take now."""
        return left(self._db, self._want, self._now, self._now)


def left(db: Db, want: Want, looked: int | None, now: int) -> Left:
    """Return what is left of a want; if that is nothing, when more is due than was when it was `looked` at."""
    many = ready(db, want, now)
    return Left(many, None if many or looked is None else due_rows.next_due(db, want, looked, now))


def room_of(db: Db, run: int) -> int | None:
    """How many more tasks of a run may be claimed; None for no bound."""
    # One that the same verb opens is not there yet.
    most = next((most for (most,) in db.execute("SELECT max_running FROM run WHERE id = ?", (run,)).fetchall()), None)
    return None if most is None else most - sum(rows.tasks_of(*row) for row in db.execute(CLAIMED_OF, (run,)))


def ready(db: Db, want: Want, now: int) -> int:
    """How many tasks could be taken now, as far as `READY_WINDOW` rows tell; what became due only if there are none."""
    columns: dict[str, Collection[object] | None] = {"run": want.runs, "kind": want.kinds, "queue": want.queues}
    chosen = {name: values for name, values in columns.items() if values is not None}
    if not all(chosen.values()):
        return 0
    index = "ready" if want.runs is None else "ready_run"
    among = "".join(f" AND {name} IN ({','.join('?' * len(values))})" for name, values in chosen.items())
    values = tuple(value for column in chosen.values() for value in column)
    found = db.execute(f"{LEFT} {index} WHERE {IS_READY}{among} LIMIT ?", (*values, READY_WINDOW))
    is_bounded = db.execute(IS_BOUNDED).fetchone() is not None
    rooms = Rooms(lambda run: room_of(db, run) if is_bounded else None)
    return _count(found, want, rooms) or _count(due_rows.due_tasks(db, want, now, READY_WINDOW), want, rooms)


def _count(found: Iterable[tuple[int, str | None, int, int, bytes | None]], want: Want, rooms: Rooms) -> int:
    return rooms.open_to(
        (run, rows.tasks_of(first, last, mask))
        for run, lane, first, last, mask in found
        if lane not in want.busy_lanes and (want.runs is None or run in want.runs)
    )
