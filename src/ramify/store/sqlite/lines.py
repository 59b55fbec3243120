"""Limits in the SQLite store: what is claimed at their places, and who waits in their lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

import apsw
import msgspec

from ramify.model.claim import Want
from ramify.model.limit import LIMITS, OPENINGS, Limit, Limits, Place, lines_of, read_limits
from ramify.store.rows import COUNTED, SegmentRow
from ramify.store.sqlite import rows
from ramify.store.sqlite.file.db import Db
from ramify.store.tuples import SEGMENT_COLUMNS, segment_row

STORED = "SELECT CAST(value AS BLOB) FROM value WHERE space = ? ORDER BY name"
RUNNING = "SELECT first, last, mask FROM segment INDEXED BY running WHERE state = 3 AND line IS NOT NULL AND kind = ?"
#: By lanes, as a JSON list, because one of them may be none.
IN_LANES = (
    "SELECT lane.value, first, last, mask FROM json_each(?1) AS lane CROSS JOIN segment INDEXED BY running"
    " ON kind = ?2 AND segment.lane IS lane.value WHERE state = 3 AND line IS NOT NULL"
)
#: Of a limit that covers queues: claimed rows are few beside those that wait.
CLAIMED = (
    "SELECT kind, queue, lane, first, last, mask FROM segment INDEXED BY running WHERE state = 3 AND line IS NOT NULL"
)
OPENINGS_EXIST = "SELECT 1 FROM value WHERE space = ? LIMIT 1"
_IN_LINE = "FROM segment INDEXED BY line WHERE line = {line} AND state = 6"
_FIRST = f"SELECT id {_IN_LINE} AND kind = {{kind}} AND queue > {{queue}} ORDER BY queue, rank, id LIMIT 1"
_FIRST_OF_NEXT = f"SELECT id {_IN_LINE} AND kind > {{kind}} ORDER BY kind, queue, rank, id LIMIT 1"
_OF = {"line": "(known.value ->> 0)", "kind": "(known.value ->> 1)", "queue": "(known.value ->> 2)"}
#: The first row of the group after one, for each of some lines: the next queue of a kind, else the next kind; and
#: whether that group has a head. Given as a JSON list of lines with kinds and queues.
NEXT_GROUPS = (
    f"SELECT {SEGMENT_COLUMNS}, EXISTS (SELECT 1 FROM segment AS head INDEXED BY line WHERE head.line = segment.line"
    " AND head.state = 0 AND head.kind = segment.kind AND head.queue = segment.queue)"
    f" FROM (SELECT value FROM json_each(?)) AS known CROSS JOIN segment ON id = ifnull(({_FIRST.format(**_OF)}),"
    f" ({_FIRST_OF_NEXT.format(**_OF)}))"
)
OF_GROUP = f"SELECT {SEGMENT_COLUMNS} {_IN_LINE.format(line='?1')} AND kind = ?2 AND queue = ?3 ORDER BY rank, id"
#: By the runs: others may have very many rows in front of theirs.
OF_RUNS = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY limited WHERE line = ?1 AND state = 6 AND kind = ?2"
    " AND queue = ?3 AND run IN (SELECT value FROM carray(?4)) ORDER BY rank, id"
)
HEAD = "SELECT 1 FROM segment INDEXED BY line WHERE line = ? AND state = 0 AND kind = ? AND queue = ? LIMIT 1"
#: Heads were due when their places open, and at no other time.
END_LINES = "UPDATE segment INDEXED BY line SET state = 0, due = NULL, line = NULL WHERE line BETWEEN ? AND ?"
#: Rows that were claimed before a limit covered them count from now on.
COUNT_HELD = f"UPDATE segment INDEXED BY held SET line = '{COUNTED}' WHERE state = 3 AND line IS NULL"
#: What a process may have to pass over, because it does not serve their runs, say.
_HEADS = (
    f"SELECT {SEGMENT_COLUMNS} FROM segment INDEXED BY head WHERE state = 0 AND line IS NOT NULL"
    " AND kind IN (SELECT value FROM carray(?1)){queues} AND ifnull(due, 0) <= ?2 ORDER BY rank, id"
)
HEADS_OF = _HEADS.format(queues="")
HEADS_IN_QUEUES = _HEADS.format(queues=" AND queue IN (SELECT value FROM carray(?3))")
#: Of these only the heads in front of rows of some runs: others may head very many lines.
HEADS_BEFORE = (
    f"SELECT {SEGMENT_COLUMNS} FROM (SELECT DISTINCT kind AS its_kind, queue AS its_queue, line AS its_line"
    " FROM segment INDEXED BY limited WHERE state = 6 AND run IN (SELECT value FROM carray(?3))"
    " AND kind IN (SELECT value FROM carray(?1)) AND EXISTS (SELECT 1 FROM segment INDEXED BY head WHERE state = 0"
    " AND line IS NOT NULL AND kind IN (SELECT value FROM carray(?1)))) CROSS JOIN segment INDEXED BY line"
    " ON line = its_line AND state = 0 AND kind = its_kind AND queue = its_queue WHERE ifnull(due, 0) <= ?2"
    " ORDER BY rank, id"
)
NEXT_IN_LINE = "SELECT min(run) FROM segment INDEXED BY limited WHERE state = 6 AND run > ?"
HEADED_BY = "SELECT DISTINCT line FROM segment INDEXED BY segment_run WHERE run = ? AND state = 0 AND line IS NOT NULL"


def limits(db: Db) -> Limits:
    """All limits of the store."""
    return read_limits(tuple(value for (value,) in db.execute(STORED, (LIMITS,)).fetchall()))


def running(db: Db, places: Collection[Place]) -> Counter[str]:
    """How many tasks are claimed that take places, by their lines."""
    found: Counter[str] = Counter({place.line: 0 for place in places})
    by_limit: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        by_limit[place.limit.name].append(place)
    for mine in by_limit.values():
        limit = mine[0].limit.limit
        if limit.queues:
            for *what, first, last, mask in db.execute(CLAIMED).fetchall():
                for place in mine:
                    found[place.line] += rows.tasks_of(first, last, mask) if place.counts(*what) else 0
        elif limit.per_lane:
            lines = {place.lane: place.line for place in mine}
            lanes = msgspec.json.encode(list(lines)).decode()
            for kind in limit.kinds:
                for lane, *tasks in db.execute(IN_LANES, (lanes, kind)):
                    found[lines[lane]] += rows.tasks_of(*tasks)
        else:
            tasks_of = (rows.tasks_of(*row) for kind in limit.kinds for row in db.execute(RUNNING, (kind,)))
            found[mine[0].line] += sum(tasks_of)
    return found


def have_openings(db: Db) -> bool:
    """Return whether time decides about any place."""
    return db.execute(OPENINGS_EXIST, (OPENINGS,)).fetchone() is not None


def heads(db: Db, lines: Collection[str]) -> Iterator[SegmentRow]:
    """The first limited row of each kind and queue of lines that has no ready one; all lines are asked at once."""
    known = [(line, "", "") for line in lines]
    while known:
        found = db.execute(NEXT_GROUPS, (msgspec.json.encode(known).decode(),)).fetchall()
        known = []
        for *row, has_one in found:
            first = segment_row(tuple(row))
            known.append((first.line or "", first.kind, first.queue))
            if not has_one:
                yield first


def has_head(db: Db, line: str, kind: str, queue: str) -> bool:
    """Return whether a row is ready as the head of a line."""
    return db.execute(HEAD, (line, kind, queue)).fetchone() is not None


def in_line(db: Db, line: str, kind: str, queue: str, runs: Collection[int] | None) -> Iterator[SegmentRow]:
    """The limited rows of a kind and queue, in their order; of some runs, or of all."""
    if runs is None:
        return map(segment_row, db.execute(OF_GROUP, (line, kind, queue)))
    return map(segment_row, db.execute(OF_RUNS, (line, kind, queue, rows.ids(runs))) if runs else ())


def heads_of(db: Db, want: Want, runs: Collection[int] | None, now: int) -> list[SegmentRow]:
    """The heads of lines that may be taken now, of what is wanted, in their order; before rows of some runs, or all."""
    kinds, queues = want.kinds, want.queues
    if not all(each is None or each for each in (kinds, queues, runs)):
        return []
    values = apsw.carray(tuple(kinds)), now
    if runs is not None:
        found = db.execute(HEADS_BEFORE, (*values, rows.ids(runs)))
    elif queues is not None:
        found = db.execute(HEADS_IN_QUEUES, (*values, apsw.carray(tuple(queues))))
    else:
        found = db.execute(HEADS_OF, values)
    return [row for row in map(segment_row, found) if queues is None or row.queue in queues]


def runs_in_line(db: Db) -> list[int]:
    """The runs that have limited rows, by skipping from one to the next."""
    found, run = list[int](), 0
    while (run := db.execute(NEXT_IN_LINE, (run,)).fetchall()[0][0]) is not None:
        found.append(run)
    return found


def headed_by(db: Db, run: int) -> Collection[str]:
    """The lines that have a row of a run as a head."""
    return [line for (line,) in db.execute(HEADED_BY, (run,)).fetchall()]


def change(db: Db, name: str, limit: Limit | None) -> None:
    """A limit is another now, or none: its lines are over, and what it covers counts."""
    db.execute(END_LINES, lines_of(name))
    if limit is not None:
        for column, names in (("kind", limit.kinds), ("queue", limit.queues)):
            db.executemany(f"{COUNT_HELD} AND {column} = ?", [(each,) for each in names])
