"""Claims in the SQLite store: a few index seeks however many rows wait.

Candidates are read lazily from the partial indexes, one sorted stream per (kind, queue) that has rows, and merged by
rank: kinds of which nothing waits cost nothing, however many a process knows. Rows with a due time come from
`due_rows`. Candidates are chosen first and stamped afterwards, because a row must not move in an index that is being
read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice, takewhile

from ramify.model.claim import Rooms, Want
from ramify.model.process import new_token
from ramify.model.segment import SegmentState, take_head
from ramify.store.sqlite import due_rows, rows
from ramify.store.sqlite.db import Db
from ramify.store.sqlite.rows import IS_APART, SEGMENT_COLUMNS, SqliteSegment
from ramify.store.sqlite.wanted import IS_READY, NEXT_PLACE, fits, rank_order, wanted_places

BY_KIND = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY ready"
    f" WHERE {IS_READY} AND kind = ? AND queue = ? ORDER BY rank, id"
)
BY_RUN = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY ready_run"
    f" WHERE {IS_READY} AND run = ? AND kind = ? AND queue = ? ORDER BY rank, id"
)
NEXT_RUN = f"SELECT min(run) FROM segment INDEXED BY ready_run WHERE {IS_READY} AND run > ?"
#: The most runs a claim looks at to find the next one with work it can do.
TURN_WINDOW = 64
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


@dataclass(slots=True)
class CutRow:
    """A row and the first id that is left in it."""

    row: SqliteSegment
    cut: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of a claim: the tokens, whether suspects wait, and the run that was served first.

    `looked` is the time up to which rows with a due time were looked at.
    """

    tokens: tuple[bytes, ...]
    suspects: bool
    turn: int
    looked: int = 0


def look(db: Db, process: int, want: Want, now: int) -> Taken | None:
    """Return what a claim would answer that finds nothing; None when there is something to take. It writes nothing."""
    held, worst = _held(db, process)
    if worst:
        return Taken((), False, 0, now)
    rooms = _rooms(db)
    suspects = any(True for _ in _suspects(db, want, rooms, now))
    if want.limit > 0:
        found = (
            (suspects and not held)
            or any(True for _ in _candidates(db, want, wanted_places(db, NEXT_PLACE, want), rooms, ()))
            or due_rows.due_now(db, want, rooms, now)
        )
        return None if found else Taken((), suspects, 0, now)
    return Taken((), suspects, 0, now)


def _held(db: Db, process: int) -> tuple[int, int | None]:
    """How many rows a process holds, and whether they run apart."""
    held, worst = db.execute(
        f"SELECT count(*), max({IS_APART}) FROM segment INDEXED BY held WHERE state = 3 AND owner = ?", (process,)
    ).fetchall()[0]
    return held, worst


def take(db: Db, process: int, want: Want, turn: int, now: int) -> Taken:
    """Claim rows for a process. `turn` is the run that was served first last time.

    Only the rows are stamped here. Their tasks are read afterwards, when others may write again: they never change.
    """
    held, worst = _held(db, process)
    if worst:
        return Taken((), False, turn, now)
    rooms = _rooms(db)
    suspects = list(islice(_suspects(db, want, rooms, now), 2))
    if suspects and not held and want.limit > 0:
        alone = stamp(db, process, [_head(suspects[0], want.limit, rooms)])
        return Taken(_tokens(alone), len(suspects) > 1, turn, now)
    due = due_rows.due_now(db, want, rooms, now)
    places = list(wanted_places(db, NEXT_PLACE, want))
    shared, turn = _by_turns(db, want, places, rooms, turn, due)
    taken = stamp(db, process, shared)
    limit = want.limit - sum(row.count for row in taken)
    taken += stamp(db, process, _choose(_candidates(db, want, places, rooms, due), limit, rooms))
    if not shared and taken:
        # It was alone, so this was its turn: who comes now is next.
        turn = taken[0].run
    return Taken(_tokens(taken), bool(suspects), turn, now)


def _rooms(db: Db) -> Rooms:
    """How much room the runs have; where none is bounded, none is looked at."""
    if db.execute(IS_BOUNDED).fetchone() is None:
        return Rooms(lambda run: None)

    def ask(run: int) -> int | None:
        (most,) = db.execute("SELECT max_running FROM run WHERE id = ?", (run,)).fetchall()[0]
        return None if most is None else most - sum(tasks_of(*row) for row in db.execute(CLAIMED_OF, (run,)))

    return Rooms(ask)


def tasks_of(first: int, last: int, mask: bytes | None) -> int:
    """How many unfinished tasks a row stands for."""
    return last - first + 1 if mask is None else int.from_bytes(mask, "little").bit_count()


def _head(row: SqliteSegment, limit: int, rooms: Rooms) -> CutRow:
    """As much of the beginning of a row as may be taken; there is room for some of it."""
    cut, count = take_head(row.first, row.last, row.left, rooms.of(row.run, limit))
    rooms.take(row.run, count)
    return CutRow(row, cut)


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
    rooms = _rooms(db)
    return _count(found, want, rooms) or _count(due_rows.due_tasks(db, want, now, READY_WINDOW), want, rooms)


def _count(found: Iterable[tuple[int, str | None, int, int, bytes | None]], want: Want, rooms: Rooms) -> int:
    return rooms.open_to(
        (run, tasks_of(first, last, mask))
        for run, lane, first, last, mask in found
        if lane not in want.busy_lanes and (want.runs is None or run in want.runs)
    )


def _tokens(taken: Iterable[SqliteSegment]) -> tuple[bytes, ...]:
    return tuple(row.token for row in taken if row.token is not None)


def _suspects(db: Db, want: Want, rooms: Rooms, now: int) -> Iterator[SqliteSegment]:
    found = db.execute(
        f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY suspect WHERE state = 0 AND {IS_APART} ORDER BY rank, id"
    )
    for row in map(rows.segment_row, found):
        if fits(row, want, rooms) and (row.due is None or row.due <= now):
            yield row


def _candidates(
    db: Db, want: Want, places: Iterable[tuple[str, str]], rooms: Rooms, due: Iterable[SqliteSegment]
) -> Iterator[SqliteSegment]:
    """Return what may be claimed, best first."""
    streams: list[Iterable[SqliteSegment]] = [[row for row in due if row.state is SegmentState.READY]]
    for kind, queue in places:
        if want.runs is None:
            streams.append(_of_kind(db, kind, queue, rooms))
        else:
            streams += [_of_run(db, run, kind, queue, rooms) for run in sorted(want.runs)]
    return (row for row in merge(*streams, key=rank_order) if fits(row, want, rooms))


def _of_kind(db: Db, kind: str, queue: str, rooms: Rooms) -> Iterator[SqliteSegment]:
    """The ready rows of a kind and queue. When many of runs without room are in front, the other runs one by one."""
    skipped = 0
    for row in map(rows.segment_row, db.execute(BY_KIND, (kind, queue))):
        if rooms.of(row.run, 1):
            yield row
        elif (skipped := skipped + 1) > SKIPPED:
            break
    else:
        return
    runs = islice((run for run in _ready_runs(db) if rooms.of(run, 1)), TURN_WINDOW)
    others = merge(*(_of_run(db, run, kind, queue, rooms) for run in runs), key=rank_order)
    yield from (other for other in others if rank_order(other) > rank_order(row))


def _of_run(db: Db, run: int, kind: str, queue: str, rooms: Rooms) -> Iterator[SqliteSegment]:
    """Its ready rows, as long as there is room."""
    found = map(rows.segment_row, db.execute(BY_RUN, (run, kind, queue))) if rooms.of(run, 1) else ()
    return takewhile(lambda row: rooms.of(run, 1), found)


def _ready_runs(db: Db) -> Iterator[int]:
    run: int | None = 0
    while (run := db.execute(NEXT_RUN, (run,)).fetchall()[0][0]) is not None:
        yield run


def _choose(candidates: Iterable[SqliteSegment], limit: int, rooms: Rooms) -> list[CutRow]:
    """Rows and heads of rows, until the limit is reached."""
    chosen: list[CutRow] = []
    if limit < 1:
        return chosen
    for row in candidates:
        first, left = row.first, row.left
        while first <= row.last and (room := rooms.of(row.run, limit)) > 0:
            cut, count = take_head(first, row.last, left, room)
            rooms.take(row.run, count)
            chosen.append(CutRow(row, cut))
            limit -= count
            first, left = cut, None if left is None else left >> (cut - first)
        if limit < 1:
            break
    return chosen


def _by_turns(
    db: Db, want: Want, places: Sequence[tuple[str, str]], rooms: Rooms, turn: int, due: Sequence[SqliteSegment]
) -> tuple[list[CutRow], int]:
    """The fair share: a quarter of the claim from the next run that has work, so that none waits behind a long one."""
    first = _next_run(db, 0, due)
    if want.limit < 1 or first is None or _next_run(db, first, due) is None:
        return [], turn
    able: list[tuple[int, SqliteSegment]] = []
    at, turned = turn, False
    for _ in range(TURN_WINDOW):
        run = _next_run(db, at, due)
        if run is None and not turned:
            turned, run = True, first
        if run is None or (turned and run > turn):
            break
        at = run
        best = _best_of(db, run, want, places, rooms, due)
        if best is not None:
            able.append((run, best))
            if len(able) == 2:
                break
    if len(able) < 2:
        return [], turn
    run, best = able[0]
    return [_head(best, max(1, want.limit // 4), rooms)], run


def _next_run(db: Db, after: int, due: Iterable[SqliteSegment]) -> int | None:
    (ready,) = db.execute(NEXT_RUN, (after,)).fetchall()[0]
    later = [row.run for row in due if row.run > after]
    return min(later if ready is None else [ready, *later], default=None)


def _best_of(
    db: Db, run: int, want: Want, places: Iterable[tuple[str, str]], rooms: Rooms, due: Iterable[SqliteSegment]
) -> SqliteSegment | None:
    if (want.runs is not None and run not in want.runs) or not rooms.of(run, 1):
        return None
    heads = [row for row in due if row.run == run][:1]
    for kind, queue in places:
        found = (rows.segment_row(row) for row in db.execute(BY_RUN, (run, kind, queue)))
        heads += islice((row for row in found if fits(row, want, rooms)), 1)
    return min(heads, key=rank_order, default=None)


def stamp(db: Db, process: int, chosen: Sequence[CutRow]) -> list[SqliteSegment]:
    """Claim the chosen rows under fresh tokens, splitting off heads."""
    taken: list[SqliteSegment] = []
    whole: list[tuple[int, bytes, int]] = []
    for candidate in chosen:
        row, token = candidate.row, new_token()
        if candidate.cut > row.last:
            whole.append((process, token, row.id))
            head = row
        else:
            head = rows.split(db, row, candidate.cut)
        head.state, head.owner, head.token = SegmentState.CLAIMED, process, token
        taken.append(head if head is row else head.insert(db))
    db.executemany("UPDATE segment SET state = 3, owner = ?, token = ? WHERE id = ?", whole)
    return taken
