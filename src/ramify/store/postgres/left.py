"""Work left of a want in the PostgreSQL store, as far as a look at a few rows tells, and when more is due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ramify.model.claim import Rooms, Want
from ramify.model.policy import PARKED, SECOND
from ramify.store.postgres.candidates import IS_DUE, IS_READY, ROOMS, covered, rooms_of
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.postgres.rows import IS_APART
from ramify.store.tables import Left
from ramify.store.verbs.claim import may_fit

#: The most rows that are looked at to say how many tasks are left.
READY_WINDOW = 32
#: The most rows that are looked at to find out when the next one is due.
NEXT_WINDOW = 64
_IS_WANTED = (
    "kind = k AND ($2::text[] IS NULL OR queue = ANY($2::text[])) AND ($3::bigint[] IS NULL OR run = ANY($3::bigint[]))"
    " AND (lane IS NULL OR lane <> ALL($4::text[]))"
)
_ROWS = "SELECT run, first, last, mask FROM unnest($1::text[]) AS k CROSS JOIN LATERAL (SELECT * FROM @segment WHERE"
_READY = f"{_ROWS} {IS_READY} AND {_IS_WANTED} LIMIT {READY_WINDOW}) s LIMIT {READY_WINDOW}"
_READY_OF_RUNS = (
    "SELECT s.run, first, last, mask FROM unnest($3::bigint[]) AS r CROSS JOIN unnest($1::text[]) AS k"
    f" CROSS JOIN LATERAL (SELECT * FROM @segment WHERE run = r AND {IS_READY} AND {_IS_WANTED}"
    f" LIMIT {READY_WINDOW}) s LIMIT {READY_WINDOW}"
)
_DUE = f"{_ROWS} {IS_DUE} AND due <= $5::bigint AND {_IS_WANTED} LIMIT {READY_WINDOW}) s LIMIT {READY_WINDOW}"
#: Whoever is not wanted among the first rows ends the look: the process then looks again too early, not too late.
_NEXT = (
    f"SELECT due, kind, queue, run, lane FROM @segment WHERE {IS_DUE} AND due > $1::bigint AND due < {PARKED}"
    f" ORDER BY due LIMIT {NEXT_WINDOW}"
)
_SUSPECTS = (
    f"SELECT due, kind, queue, run, lane FROM @segment WHERE state = 0 AND {IS_APART} AND due > $1::bigint"
    f" AND due < {PARKED}"
)


def asked(want: Want, looked: int | None, now: int) -> list[Asked]:
    """Return what tells how much is left of a want, and when more is due than was due when it was `looked` at."""
    values = covered(want)
    since = PARKED if looked is None else looked
    ready = _READY if want.runs is None else _READY_OF_RUNS
    return [(ROOMS, ()), (ready, values), (_DUE, (*values, now)), (_NEXT, (since,)), (_SUSPECTS, (since,))]


def answer(found: Sequence[Rows], want: Want, looked: int | None, now: int) -> Left:
    """Return what was found."""
    bounded, ready, due, later, suspects = found
    left = rooms_of(bounded)
    rooms = Rooms(left.get)
    many = _count(ready, rooms) or _count(due, rooms)
    if many or looked is None:
        return Left(many)
    dues = [at for at, *row in suspects if may_fit(want, *row)]
    for seen, (at, *row) in enumerate(later, 1):
        if may_fit(want, *row) or seen == NEXT_WINDOW:
            dues.append(at)
            break
    return Left(0, max(0, min(dues) - now) / SECOND if dues else None)


def _count(found: Iterable[tuple[Any, ...]], rooms: Rooms) -> int:
    return rooms.open_to(
        (run, last - first + 1 if mask is None else int.from_bytes(mask, "little").bit_count())
        for run, first, last, mask in found
    )
