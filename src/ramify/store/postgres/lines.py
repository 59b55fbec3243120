"""Limits in the PostgreSQL store: what is claimed at their places, and who waits in their lines.

Whoever claims, ends claims or makes heads has the limits of the store alone until the end (`LOCK`): so what it counted
stays so, and lines change in its hands only. Whoever changes limits waits for all of these (`LOCK_ALL`), also where
there was no limit before. Without limits nobody waits for anybody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from ramify.model.claim import Want
from ramify.model.limit import LIMITS, OPENINGS, Limit, Limits, Place, lines_of, read_limits
from ramify.store.postgres import rows
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.rows import COUNTED, SegmentRow
from ramify.store.tuples import SEGMENT_COLUMNS, segment_row

#: That there are limits, or none, is relied on; `@` makes it a lock of this store.
LOCK = "SELECT pg_advisory_xact_lock_shared(hashtextextended('@limits', 0))"
LOCK_ALL = "SELECT pg_advisory_xact_lock(hashtextextended('@limits', 0))"
STORED = "SELECT value FROM @value WHERE space = $1::text ORDER BY name"
ALONE = " FOR UPDATE"
_RUNNING = (
    "SELECT kind, queue, lane, sum(coalesce(bit_count(mask), last - first + 1))::bigint FROM @segment"
    " WHERE state = 3 AND line IS NOT NULL {} GROUP BY kind, queue, lane"
)
#: Of a limit that covers queues: claimed rows are few beside those that wait.
RUNNING = _RUNNING.format("")
RUNNING_OF = _RUNNING.format("AND kind = ANY($1::text[])")
RUNNING_IN = _RUNNING.format("AND kind = ANY($1::text[]) AND (lane = ANY($2::text[]) OR $3::bool AND lane IS NULL)")
OPENINGS_EXIST = "SELECT EXISTS (SELECT 1 FROM @value WHERE space = $1::text)"
_OF_LINE = "FROM @segment s WHERE s.line = {line} AND s.state = 6"
#: The kinds and queues that wait in lines, by skipping from one to the next, and the first row of those without a head.
HEADS = (
    "WITH RECURSIVE g(line, kind, queue) AS (SELECT c.* FROM unnest($1::text[]) AS l(line) CROSS JOIN LATERAL"
    f" (SELECT s.line, s.kind, s.queue {_OF_LINE.format(line='l.line')} ORDER BY s.kind, s.queue LIMIT 1) c"
    " UNION ALL SELECT n.* FROM g CROSS JOIN LATERAL"
    f" (SELECT s.line, s.kind, s.queue {_OF_LINE.format(line='g.line')} AND (s.kind, s.queue) > (g.kind, g.queue)"
    " ORDER BY s.kind, s.queue LIMIT 1) n)"
    f" SELECT f.* FROM g CROSS JOIN LATERAL (SELECT {SEGMENT_COLUMNS} {_OF_LINE.format(line='g.line')}"
    " AND s.kind = g.kind AND s.queue = g.queue ORDER BY rank, id LIMIT 1 FOR UPDATE) f"
    " WHERE NOT EXISTS (SELECT 1 FROM @segment h WHERE h.line = g.line AND h.state = 0 AND h.kind = g.kind"
    " AND h.queue = g.queue)"
)
OF_GROUP = (
    f"{rows.SEGMENT} WHERE line = $1::text AND state = 6 AND kind = $2::text AND queue = $3::text"
    " AND (rank, id) > ($4::bigint, $5::bigint) AND ($7::bigint[] IS NULL OR run = ANY($7::bigint[]))"
    " ORDER BY rank, id LIMIT $6::bigint"
)
HEAD = (
    "SELECT EXISTS (SELECT 1 FROM @segment WHERE line = $1::text AND state = 0 AND kind = $2::text"
    " AND queue = $3::text)"
)
#: Heads were due when their places open, and at no other time.
END_LINES = (
    "UPDATE @segment SET state = 0, due = NULL, line = NULL WHERE line BETWEEN $1::text AND $2::text"
    " AND state IN (0, 6)"
)
#: Rows that were claimed before a limit covered them count from now on.
COUNT_HELD = (
    f"UPDATE @segment SET line = '{COUNTED}' WHERE state = 3 AND line IS NULL"
    " AND (kind = ANY($1::text[]) OR queue = ANY($2::text[]))"
)
#: What a process may have to pass over, because it does not serve their runs, say.
HEADS_OF = (
    f"{rows.SEGMENT} WHERE state = 0 AND line IS NOT NULL AND kind = ANY($1::text[])"
    " AND ($2::text[] IS NULL OR queue = ANY($2::text[])) AND coalesce(due, 0) <= $4::bigint"
    " AND ($3::bigint[] IS NULL OR (kind, queue, line) IN (SELECT b.kind, b.queue, b.line FROM @segment b"
    " WHERE b.state = 6 AND b.run = ANY($3::bigint[]))) ORDER BY rank, id"
)
#: By skipping from one to the next.
RUNS_IN_LINE = (
    "WITH RECURSIVE r(run) AS (SELECT min(run) FROM @segment WHERE state = 6 UNION ALL"
    " SELECT (SELECT min(s.run) FROM @segment s WHERE s.state = 6 AND s.run > r.run) FROM r WHERE run IS NOT NULL)"
    " SELECT run FROM r WHERE run IS NOT NULL"
)
HEADED_BY = "SELECT DISTINCT line FROM @segment WHERE run = $1::bigint AND state = 0 AND line IS NOT NULL ORDER BY line"
#: The first page of a line, and how much longer the next one is: mostly the next row is all that is asked for.
PAGE, LONGER = 2, 8
_BEGIN = (-(2**63), 0)


def asked(*, lock: bool) -> Asked:
    """Return what finds all limits; whoever locks them has them alone."""
    return STORED + (ALONE if lock else ""), (LIMITS,)


def read(found: Rows) -> Limits:
    """The limits that were found."""
    return read_limits(tuple(value for (value,) in found))


def running(db: Transaction, places: Collection[Place]) -> Counter[str]:
    """How many tasks are claimed that take places, by their lines."""
    found: Counter[str] = Counter({place.line: 0 for place in places})
    by_limit: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        by_limit[place.limit.name].append(place)
    told = db.trip([_running_asked(mine) for mine in by_limit.values()]) if by_limit else ()
    for mine, some in zip(by_limit.values(), told, strict=True):
        limit = mine[0].limit.limit
        by_lane = {place.lane if limit.per_lane else None: place for place in mine}
        for kind, queue, lane, many in some:
            taken = by_lane.get(lane if limit.per_lane else None)
            if taken is not None and taken.counts(kind, queue, lane):
                found[taken.line] += many
    return found


def _running_asked(places: Collection[Place]) -> Asked:
    """Return what counts at places of one limit."""
    limit = next(iter(places)).limit.limit
    if limit.queues:
        return RUNNING, ()
    if not limit.per_lane:
        return RUNNING_OF, (limit.kinds,)
    lanes = {place.lane for place in places}
    return RUNNING_IN, (limit.kinds, sorted(lane for lane in lanes if lane is not None), None in lanes)


def have_openings(db: Transaction) -> bool:
    """Return whether time decides about any place."""
    return bool(db.ask(OPENINGS_EXIST, OPENINGS)[0][0])


def heads(db: Transaction, lines: Collection[str]) -> list[SegmentRow]:
    """The first limited row of each kind and queue of lines that has no ready one."""
    return [segment_row(row) for row in db.ask(HEADS, sorted(lines))] if lines else []


def has_head(db: Transaction, line: str, kind: str, queue: str) -> bool:
    """Return whether a row is ready as the head of a line."""
    return bool(db.ask(HEAD, line, kind, queue)[0][0])


def in_line(
    db: Transaction, line: str, kind: str, queue: str, runs: Collection[int] | None, *, lock: bool
) -> Iterator[SegmentRow]:
    """The limited rows of a kind and queue, in their order, page by page; of some runs, or of all."""
    wanted = None if runs is None else sorted(runs)
    text, place, size = OF_GROUP + (ALONE if lock else ""), _BEGIN, PAGE
    while True:
        found = [segment_row(row) for row in db.ask(text, line, kind, queue, *place, size, wanted)]
        yield from found
        if len(found) < size:
            return
        place, size = (found[-1].rank, found[-1].id), size * LONGER


def heads_of(db: Transaction, want: Want, runs: Collection[int] | None, now: int) -> list[SegmentRow]:
    """The heads of lines that may be taken now, of what is wanted, in their order; before rows of some runs, or all."""
    if not want.kinds or (runs is not None and not runs):
        return []
    queues = None if want.queues is None else sorted(want.queues)
    wanted = sorted(want.kinds), queues, None if runs is None else sorted(runs)
    return [segment_row(row) for row in db.ask(HEADS_OF, *wanted, now)]


def runs_in_line(db: Transaction) -> list[int]:
    """The runs that have limited rows."""
    return [run for (run,) in db.ask(RUNS_IN_LINE)]


def headed_by(db: Transaction, run: int) -> list[str]:
    """The lines that have a row of a run as a head."""
    return [line for (line,) in db.ask(HEADED_BY, run)]


def change(db: Transaction, name: str, limit: Limit | None) -> None:
    """A limit is another now, or none: its lines are over, and what it covers counts."""
    db.later(END_LINES, *lines_of(name))
    if limit is not None:
        db.later(COUNT_HELD, limit.kinds, limit.queues)
