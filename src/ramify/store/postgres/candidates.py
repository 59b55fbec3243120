"""The rows a claim may look at in the PostgreSQL store: a few index probes for each kind, however many rows wait.

They come with the questions of the verb (`asked`), locked, and leave out what another process has locked; whoever only
looks locks nothing. A page of the best of each kind and queue is enough for most claims; when one runs out of it, a
longer page is asked. Rows with a due time come by rank as well, of those of each place that have been due longest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ramify.model.claim import Rooms, Want
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.postgres.rows import IS_APART
from ramify.store.rows import SegmentRow
from ramify.store.tables import Left
from ramify.store.tuples import SEGMENT_COLUMNS, segment_row
from ramify.store.verbs.claim import TURN_WINDOW, fits

IS_READY = "state = 0 AND due IS NULL AND deaths & 1 = 0"
IS_DUE = "state = 0 AND due IS NOT NULL AND deaths & 1 = 0"
#: The first page of each place, and how much longer the next one is.
PAGE, LONGER = 8, 8
#: Of one place the rows that have been due longest are put in order of rank.
DUE_WINDOW = 256

#: What a want covers: kinds $1, queues $2, runs $3, busy lanes $4.
_WANTED = "$1::text[], $2::text[], $3::bigint[], $4::text[]"
_IS_WANTED = (
    "($2::text[] IS NULL OR queue = ANY($2::text[])) AND ($3::bigint[] IS NULL OR run = ANY($3::bigint[]))"
    " AND (lane IS NULL OR lane <> ALL($4::text[]))"
)
#: The kinds that are wanted, with each queue that has rows, by skipping from one queue to the next.
_PLACES = (
    "WITH RECURSIVE place(kind, queue) AS (SELECT k, (SELECT min(queue) FROM @segment WHERE {is_it} AND kind = k)"
    " FROM unnest($1::text[]) AS k UNION ALL SELECT kind, (SELECT min(s.queue) FROM @segment s WHERE {is_it}"
    " AND s.kind = place.kind AND s.queue > place.queue) FROM place WHERE queue IS NOT NULL)"
)
#: Who has room is told by $5, the runs that have none; $6 is the length of the page.
_HAS_ROOM = "run <> ALL($5::bigint[])"
_BY_KIND = (
    f"{_PLACES.format(is_it=IS_READY)} SELECT c.* FROM place CROSS JOIN LATERAL (SELECT {SEGMENT_COLUMNS} FROM @segment"
    f" WHERE {IS_READY} AND kind = place.kind AND queue = place.queue AND {_IS_WANTED} AND {_HAS_ROOM}"
    " ORDER BY rank, id LIMIT $6::bigint {lock}) c"
    " WHERE place.queue IS NOT NULL AND ($2::text[] IS NULL OR place.queue = ANY($2::text[]))"
)
_BY_RUN = (
    f"SELECT c.* FROM unnest($3::bigint[]) AS r CROSS JOIN unnest($1::text[]) AS k CROSS JOIN LATERAL"
    f" (SELECT {SEGMENT_COLUMNS} FROM @segment WHERE {IS_READY} AND run = r AND kind = k AND {_IS_WANTED}"
    f" AND {_HAS_ROOM} ORDER BY rank, id LIMIT $6::bigint {{lock}}) c"
)
#: Of each place those rows that have been due longest.
_WINDOW = (
    f"{_PLACES.format(is_it=IS_DUE)} SELECT c.id FROM place CROSS JOIN LATERAL (SELECT id FROM @segment"
    f" WHERE {IS_DUE} AND kind = place.kind AND queue = place.queue AND due <= $7::bigint AND {_IS_WANTED}"
    f" AND {_HAS_ROOM} ORDER BY due, id LIMIT {DUE_WINDOW}) c"
    " WHERE place.queue IS NOT NULL AND ($2::text[] IS NULL OR place.queue = ANY($2::text[]))"
)
_DUE = (
    f"SELECT {SEGMENT_COLUMNS} FROM @segment WHERE {IS_DUE} AND id = ANY(ARRAY({_WINDOW}))"
    " ORDER BY rank, id LIMIT $6::bigint {lock}"
)
#: The runs that they are of, also where a page does not hold all of them.
_DUE_RUNS = f"SELECT DISTINCT run FROM @segment WHERE id = ANY(ARRAY({_WINDOW})) AND $6::bigint > 0 ORDER BY run"
_SUSPECTS = (
    f"SELECT {SEGMENT_COLUMNS} FROM @segment WHERE state = 0 AND {IS_APART} AND kind = ANY($1::text[]) AND {_IS_WANTED}"
    f" AND {_HAS_ROOM} AND (due IS NULL OR due <= $7::bigint) ORDER BY rank, id LIMIT $6::bigint {{lock}}"
)
_SKIP = "FOR UPDATE SKIP LOCKED"
_HELD = f"SELECT count(*), count(*) FILTER (WHERE {IS_APART}) FROM @segment WHERE state = 3 AND owner = $1::bigint"
_CHAIN = (
    "WITH RECURSIVE r(run, n) AS (SELECT (SELECT min(run) FROM @segment WHERE {is_ready} AND run > $1::bigint), 1"
    " UNION ALL SELECT (SELECT min(s.run) FROM @segment s WHERE {is_ready} AND s.run > r.run), n + 1 FROM r"
    " WHERE run IS NOT NULL AND n < {most})"
)
_RUNS = f"{_CHAIN.format(is_ready=IS_READY, most=TURN_WINDOW)} SELECT run FROM r WHERE run IS NOT NULL ORDER BY run"
_TWO_RUNS = f"{_CHAIN.format(is_ready=IS_READY, most=2)} SELECT run FROM r WHERE run IS NOT NULL ORDER BY run"
#: The best row of a run.
_BEST = (
    "SELECT c.* FROM unnest($1::text[]) AS k CROSS JOIN LATERAL"
    f" (SELECT {SEGMENT_COLUMNS} FROM @segment WHERE {IS_READY} AND run = $5::bigint AND kind = k AND {_IS_WANTED}"
    " ORDER BY rank, id LIMIT 1 {lock}) c ORDER BY rank, id LIMIT 1"
)

#: Runs that bound, where they have work: whoever takes of them waits for whoever does.
LOCK_BOUNDED = (
    "SELECT id FROM @run WHERE max_running IS NOT NULL AND ended IS NULL AND EXISTS (SELECT 1 FROM @segment s"
    " WHERE s.run = run.id AND s.state = 0 AND s.kind = ANY($1::text[])) ORDER BY id FOR NO KEY UPDATE"
)
#: What is left in them, by way of the living processes, whose claims are few.
ROOMS = (
    "SELECT run.id, max_running - coalesce((SELECT sum(coalesce(bit_count(s.mask), s.last - s.first + 1))::bigint"
    " FROM @session JOIN @segment s ON s.owner = session.process AND s.run = run.id AND s.state = 3"
    " WHERE gone_at IS NULL), 0) FROM @run WHERE max_running IS NOT NULL AND ended IS NULL"
)
_PLACE = attrgetter("rank", "id")


def covered(want: Want) -> tuple[Any, ...]:
    """A want as values of a statement."""
    queues = None if want.queues is None else sorted(want.queues)
    runs = None if want.runs is None else sorted(want.runs)
    return sorted(want.kinds), queues, runs, sorted(want.busy_lanes)


def rooms_of(found: Rows) -> Mapping[int, int]:
    """How many more tasks may be claimed of the runs that bound."""
    return dict(found)


class PgCandidates:
    """See `ramify.store.tables.Candidates`. `is_looking`: nothing is locked."""

    def __init__(self, db: Transaction, process: int, want: Want, now: int, turn: int, *, is_looking: bool) -> None:
        self._db, self._process, self._want, self._now, self._turn = db, process, want, now, turn
        self._lock = "" if is_looking else _SKIP
        self._values = covered(want)
        self._page = PAGE
        self.held = self.apart = 0
        self._rooms: Mapping[int, int] = {}
        self._ready: list[SegmentRow] = []
        self._due: list[SegmentRow] = []
        self._suspects: list[SegmentRow] = []
        self._has_more = False
        self._runs_due: list[int] = []
        #: Runs that have ready rows: the first two, and those behind the turn.
        self._first: list[int] = []
        self._behind: list[int] = []
        self._best: dict[int, SegmentRow | None] = {}
        self.told = Left()

    def asked(self) -> list[Asked]:
        """Return all that is asked at once."""
        return [
            (ROOMS, ()),
            (_HELD, (self._process,)),
            *self._pages(()),
            (_TWO_RUNS, (0,)),
            (_RUNS, (self._turn,)),
            self._due_runs(),
        ]

    def answer(self, found: Sequence[Rows]) -> None:
        """Take what was found."""
        rooms, held, suspects, ready, due, first, behind, due_runs = found
        self._rooms = rooms_of(rooms)
        ((self.held, self.apart),) = held
        self._take(suspects, ready, due)
        self._first = [run for (run,) in first]
        self._behind = [run for (run,) in behind]
        self._runs_due = [run for (run,) in due_runs]

    def _pages(self, full: Sequence[int]) -> list[Asked]:
        page = (*self._values, full, self._page)
        ready = (_BY_KIND if self._want.runs is None else _BY_RUN).format(lock=self._lock)
        due = (_DUE.format(lock=self._lock), (*page, self._now))
        suspects = (_SUSPECTS.format(lock=self._lock), (*page, self._now))
        return [suspects, (ready, page), due]

    def _due_runs(self) -> Asked:
        return _DUE_RUNS, (*self._values, (), self._page, self._now)

    def _take(self, suspects: Rows, ready: Rows, due: Rows) -> None:
        self._suspects = [segment_row(row) for row in suspects]
        # Of a place that has more there may be rows before those that come later of another.
        by_place: dict[tuple[object, ...], list[SegmentRow]] = {}
        for row in map(segment_row, ready):
            by_place.setdefault((row.kind, row.queue if self._want.runs is None else row.run), []).append(row)
        streams = [sorted(some, key=_PLACE) for some in by_place.values()]
        self._due = [segment_row(row) for row in due]
        streams.append(self._due)
        ends = [_PLACE(some[-1]) for some in streams if len(some) >= self._page]
        self._has_more = bool(ends)
        end = min(ends, default=None)
        rows = (row for some in streams for row in some if end is None or _PLACE(row) <= end)
        self._ready = sorted(rows, key=_PLACE)

    @property
    def is_bounded(self) -> bool:
        """True if any run is."""
        return bool(self._rooms)

    def room(self, run: int) -> int | None:
        """How many more tasks of a run may be claimed; None for no bound."""
        return self._rooms.get(run)

    def suspects(self, rooms: Rooms) -> Iterator[SegmentRow]:
        """Rows that must run apart, in their order."""
        return (row for row in self._suspects if fits(row, self._want, rooms))

    def ready(self, rooms: Rooms) -> Iterator[SegmentRow]:
        """Return what may be claimed, best first; page by page."""
        seen: set[int] = set()
        while True:
            for row in self._ready:
                if row.id not in seen:
                    seen.add(row.id)
                    if fits(row, self._want, rooms):
                        yield row
            if not self._has_more:
                return
            self._page *= LONGER
            full = [run for run in self._rooms if not rooms.of(run, 1)]
            _, ready, due = self._db.trip(self._pages(full))
            self._take((), ready, due)

    def next_run(self, after: int, rooms: Rooms) -> int | None:
        """The run after this one that has work."""
        later = [run for run in self._runs_due if run > after and rooms.of(run, 1) > 0]
        ready = self._next_ready(after)
        return min(later if ready is None else [ready, *later], default=None)

    def _next_ready(self, after: int) -> int | None:
        for known, begin, most in ((self._first, 0, 2), (self._behind, self._turn, TURN_WINDOW)):
            if after >= begin:
                found = next((run for run in known if run > after), None)
                if found is not None or len(known) < most:
                    return found
        found_rows = self._db.ask(_RUNS, after)
        self._behind, self._turn = [run for (run,) in found_rows], after
        return self._behind[0] if self._behind else None

    def best_of(self, run: int, rooms: Rooms) -> SegmentRow | None:
        """The first of its rows that may be taken now."""
        heads = [row for row in self._due if row.run == run and fits(row, self._want, rooms)][:1]
        if not heads and run in self._runs_due and len(self._due) >= self._page:
            kinds, queues, _, lanes = self._values
            found = self._db.ask(_DUE.format(lock=self._lock), kinds, queues, [run], lanes, (), 1, self._now)
            heads = [segment_row(row) for row in found]
        if run not in self._best:
            known = next((row for row in self._ready if row.run == run and row.due is None), None)
            if known is None and self._has_more:
                found = self._db.ask(_BEST.format(lock=self._lock), *self._values, run)
                known = segment_row(found[0]) if found else None
            self._best[run] = known
        best = self._best[run]
        return min(
            heads if best is None or not fits(best, self._want, rooms) else [best, *heads], key=_PLACE, default=None
        )

    def left(self) -> Left:
        """Return what there is to take now."""
        return self.told
