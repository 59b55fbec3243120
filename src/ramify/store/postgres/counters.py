"""Counters in the PostgreSQL store, kept as in the SQLite store: see there for what is in which table.

A counter is spread over slots by process. Who is no process takes the slot of its connection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from ramify.model.event import pending_of
from ramify.model.process import counter_slot
from ramify.store.changes import Counted
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Rows
from ramify.store.reads import KindTotals, Totals

_COLUMNS = "$1::bigint[], $2::text[], $3::text[], $4::smallint[]"
COUNT = (
    f"INSERT INTO @counter SELECT r, k, q, w, $5::smallint, v FROM unnest({_COLUMNS}, $6::bigint[]) AS x(r, k, q, w, v)"
    " ON CONFLICT (run, kind, queue, what, slot) DO UPDATE SET value = counter.value + excluded.value"
)
OF_OPEN_RUNS = "run IN (SELECT id FROM @run WHERE ended IS NULL)"
_ADD = "ON CONFLICT (kind, queue, what) DO UPDATE SET value = total.value + excluded.value"
#: What an open run is lowered by stays in the totals. Those of a run that has ended are there as they were at its end.
LOWERED = (
    f"INSERT INTO @total SELECT k, q, w, -sum(v)::bigint FROM unnest({_COLUMNS}, $5::bigint[]) AS x(r, k, q, w, v)"
    f" JOIN @run ON id = r AND ended IS NULL GROUP BY k, q, w ORDER BY 1, 2, 3 {_ADD}"
)
ENDED = (
    "INSERT INTO @total SELECT kind, queue, what, ($1::bigint * sum(value))::bigint FROM @counter"
    f" WHERE run = ANY($2::bigint[]) GROUP BY kind, queue, what ORDER BY 1, 2, 3 {_ADD}"
)
TOTALS = (
    f"SELECT true, kind, queue, what, sum(value)::bigint FROM @counter WHERE {OF_OPEN_RUNS} GROUP BY kind, queue, what"
    " UNION ALL SELECT false, kind, queue, what, value FROM @total"
)
STORE_TOTALS = "SELECT starts, deaths, redelivered, (SELECT count(*) FROM @refusal) FROM @store"
_OF_KINDS = "SELECT kind, what, sum(value)::bigint FROM @counter WHERE {} GROUP BY kind, what ORDER BY kind, what"
OF_RUN, OF_ALL = _OF_KINDS.format("run = $1::bigint"), _OF_KINDS.format(OF_OPEN_RUNS)


def count_all(db: Transaction, counts: Mapping[Counted, int], process: int) -> None:
    """Move many counters, each by so much; in their order, so that nobody waits for another in a circle."""
    moved = [(*counter, by) for counter, by in sorted(counts.items()) if by]
    if moved:
        *names, by = map(list, zip(*moved, strict=True))
        db.later(COUNT, *names, counter_slot(process), by)
    if lowered := [each for each in moved if each[-1] < 0]:
        db.later(LOWERED, *map(list, zip(*lowered, strict=True)))


def close(db: Transaction, runs: Collection[int]) -> None:
    """Runs have ended: their counters go into the totals."""
    db.later(ENDED, 1, sorted(runs))


def reopen(db: Transaction, runs: Collection[int]) -> None:
    """Runs that had ended are open again: their counters are summed with those of the other open runs."""
    db.later(ENDED, -1, sorted(runs))


def died(db: Transaction, tasks: int) -> None:
    """A worker died, and so many tasks are offered again."""
    db.later("UPDATE @store SET deaths = deaths + 1, redelivered = redelivered + $1::bigint", tasks)


def read(db: Transaction, run: int | None) -> dict[str, dict[int, int]]:
    """The counters of a run by kind; with None, those of all runs that have not ended."""
    found: dict[str, dict[int, int]] = {}
    for kind, what, value in db.ask(OF_ALL) if run is None else db.ask(OF_RUN, run):
        counts = found.setdefault(kind, {})
        if value:
            counts[what] = value
    return found


def totals(counted: Rows, of_store: Rows) -> Totals:
    """All that ever happened; see the contract."""
    ever: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    now: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for is_open, kind, queue, what, value in counted:
        ever[kind, queue][what] += value
        if is_open:
            now[kind, queue][what] = value
    kinds = [
        KindTotals(*each, {what: value for what, value in sorted(by.items()) if value}, pending_of(now[each]))
        for each, by in sorted(ever.items())
    ]
    return Totals(kinds, *of_store[0])
