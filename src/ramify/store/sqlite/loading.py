"""The answer to what a verb asks, in a few statements however much it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from ramify.model.context import ContextValue
from ramify.model.event import Status, Tally
from ramify.model.process import Stamp
from ramify.model.run import StoredRun
from ramify.model.segment import bounds, is_unbroken
from ramify.store import tuples
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import context, joins, keys, lines, rows, values
from ramify.store.sqlite.candidates import SqliteCandidates
from ramify.store.sqlite.file.db import Db
from ramify.store.tables import Ask, At, Loaded, Session, SmallJoin

MARKED = "SELECT value FROM carray(?) AS wanted WHERE EXISTS (SELECT 1 FROM mark WHERE run = wanted.value)"
ENDED = "SELECT id FROM carray(?) AS wanted CROSS JOIN run ON id = wanted.value WHERE ended IS NOT NULL"
SESSION = "SELECT last, answer, kinds IS NOT '[]' FROM session WHERE process = ? AND gone_at IS NULL"
HELD_BY = "INDEXED BY held WHERE state = 3 AND owner = ? ORDER BY id"
#: By its first id: one claim may have staged very many.
STAGED = "INDEXED BY segment_first WHERE token = ? AND state = 4 AND first = ?"
NEWEST = f"{rows.RUN} WHERE name = ? ORDER BY generation DESC LIMIT 1"
KNOWN = f"{rows.RUN} WHERE id = ?1 OR (name = ?2 AND generation = ?3) ORDER BY id = ?1 DESC"
NUMBERS = "SELECT task, max(n) FROM event WHERE task BETWEEN ? AND ? GROUP BY task"
#: How many tasks of a run count: those that were added, without those that were replaced.
COUNTED = (
    f"SELECT ifnull(sum(iif(what = {Tally.ADDED:d}, value, -value)), 0) FROM counter"
    f" WHERE run = ? AND what IN ({Tally.ADDED:d}, {Status.REPLACED:d})"
)
#: The most groups of one run and round for which arrivals are added up by a statement each.
FEW_PLACES = 4


def load(db: Db, ask: Ask) -> Loaded:
    """Answer a verb."""
    loaded = Loaded()
    if ask.leaving is not None:
        loaded.session = _session(db, ask.leaving)
        found = rows.segments(db, HELD_BY, (ask.leaving,))
        loaded.held = {row.token: row for row in found if row.token is not None}
        loaded.runs = rows.runs_at(db, {row.run for row in found})
    if ask.stamp is not None:
        loaded.session = _session(db, ask.stamp.process)
        if loaded.session is None or ask.stamp.n <= loaded.session.last:
            return loaded
    if ask.tokens or ask.want is not None or ask.leaving is not None:
        loaded.limits = lines.limits(db)
    if ask.tokens and ask.stamp is not None:
        _load_held(db, ask, ask.stamp, loaded)
    if ask.new or ask.start is not None:
        loaded.reserved = db.execute("SELECT next FROM ids").fetchall()[0][0]
        loaded.taken = _taken(db, ask.new) if ask.new else ()
    if ask.runs:
        loaded.runs = {**loaded.runs, **rows.runs_at(db, ask.runs)}
    if ask.grows:
        loaded.counted = counted(db, loaded.runs.values())
    if ask.start is not None:
        new = ask.start
        found = db.execute(KNOWN, (new.id, new.name, new.generation)).fetchone()
        loaded.known = None if found is None else tuples.read_run(found)
    if ask.opens:
        newest = ((name, db.execute(NEWEST, (name,)).fetchone()) for name in {run.name or "" for run in ask.opens})
        loaded.newest = {name: tuples.read_run(row) for name, row in newest if row is not None}
        loaded.runs = {**loaded.runs, **rows.runs_at(db, [run.id for run in ask.opens])}
    if ask.values:
        loaded.values = values.load(db, ask.values)
    if ask.want is not None and ask.stamp is not None:
        loaded.candidates = SqliteCandidates(db, ask.stamp.process, ask.want, ask.now)
    return loaded


def _session(db: Db, process: int) -> Session | None:
    found = db.execute(SESSION, (process,)).fetchone()
    return None if found is None else Session(*found)


def _load_held(db: Db, ask: Ask, stamp: Stamp, loaded: Loaded) -> None:
    """Load the rows that a process holds under tokens, and all that the ends of their tasks concern."""
    found = [row for row in rows.claimed_under(db, list(dict.fromkeys(ask.tokens))) if row.owner == stamp.process]
    loaded.held = held = {row.token: row for row in found if row.token is not None}
    if not found:
        return
    loaded.staged = _staged(db, [each for each in ask.staged if each[0] in held])
    firsts = {row.span for row in found}
    loaded.spans = spans = rows.spans_at(db, firsts.union(row.span for row in loaded.staged.values()))
    numbers = {row.run for row in found}
    loaded.runs = rows.runs_at(db, numbers)
    loaded.marked = {run for (run,) in db.execute(MARKED, (rows.ids(numbers),)).fetchall()}
    if ask.new or ask.staged:
        loaded.counted = counted(db, loaded.runs.values())
    if ask.names:
        loaded.context = _context(db, [(held[token].run, name) for token, name in ask.names if token in held])
    if ask.awaited:
        ended = db.execute(ENDED, (rows.ids(sorted(ask.awaited)),)).fetchall()
        loaded.over = {run for (run,) in ended}
    for row in found:
        if row.attempt:
            loaded.numbers = {**loaded.numbers, **dict(db.execute(NUMBERS, (row.first, row.last)))}
    ending = [(held[token], tasks) for token, tasks in zip(ask.tokens, ask.ended, strict=False) if token in held]
    releasing = [task for row, tasks in ending if spans[row.span].releases_keys for task in tasks]
    if releasing:
        loaded.keys = dict(db.execute(keys.KEYS_OF, (rows.ids(sorted(releasing)),)).fetchall())
    if not ask.alike or any(spans[row.span].join is not None for row, _ in ending):
        loaded.waiters = _waiters_of_all(db, [tasks for _, tasks in ending])
    else:
        _load_slots(db, ending, loaded)


def _staged(db: Db, asked: Collection[tuple[bytes, int]]) -> dict[tuple[bytes, int], SegmentRow]:
    found = ((each, rows.segments(db, STAGED, each)) for each in asked)
    return {each: staged[0] for each, staged in found if staged}


def _context(db: Db, names: Collection[tuple[int, str]]) -> dict[tuple[int, str], ContextValue]:
    found = ((each, context.value(db, *each)) for each in dict.fromkeys(names))
    return {each: value for each, value in found if value is not None}


def counted(db: Db, runs: Iterable[StoredRun]) -> dict[int, int]:
    """How many tasks those of these runs have that are bounded."""
    bounded = [run.id for run in runs if run.max_tasks is not None]
    return {run: db.execute(COUNTED, (run,)).fetchall()[0][0] for run in bounded}


def _taken(db: Db, new: Sequence[tuple[int, int]]) -> Collection[tuple[int, int]]:
    """The ranges of which ids are in the log."""
    if not _is_taken(db, min(first for first, _ in new), max(last for _, last in new)):
        return ()
    return {each for each in new if _is_taken(db, *each)}


def _is_taken(db: Db, first: int, last: int) -> bool:
    # The last span that begins at or before the last id is the only one that can overlap.
    statement = "SELECT last FROM span WHERE first <= ? ORDER BY first DESC LIMIT 1"
    row = db.execute(statement, (last,)).fetchone()
    return row is not None and row[0] >= first


def _waiters_of_all(db: Db, ended: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    narrow: list[int] = []
    for tasks in ended:
        if len(ended) > 1 and len(tasks) < joins.FEW * 2:
            narrow += tasks
        else:
            found += joins.waiters_of(db, tasks)
    return found + joins.waiters_of(db, narrow)


def _load_slots(db: Db, ending: Sequence[tuple[SegmentRow, Sequence[int]]], loaded: Loaded) -> None:
    """Load who waits, added up by run and round where those are few and the joins small; one by one otherwise."""
    if len({(row.run, row.round) for row, _ in ending}) <= FEW_PLACES:
        places: dict[At, list[Sequence[int]]] = defaultdict(list)
        for row, tasks in ending:
            places[row.run, row.round + 1].append(tasks)
        added = {at: _slots(db, some) for at, some in places.items()}
        found = {at: some for at, some in added.items() if some is not None}
        if len(found) == len(added):
            loaded.slots = found
            return
    loaded.waiters = _waiters_of_all(db, [tasks for _, tasks in ending])


def _slots(db: Db, ended: Sequence[Sequence[int]]) -> Sequence[SmallJoin] | None:
    """At which slots of small joins these tasks arrive; None if some of the joins are large."""
    tasks = ended[0] if len(ended) == 1 else [task for some in ended for task in some]
    if not tasks:
        return ()
    chosen, bound = (joins.RANGE, bounds(tasks)) if is_unbroken(tasks) else (joins.LISTED, (rows.ids(tasks),))
    # For most tasks nobody waits, and to ask that costs little.
    if db.execute(f"SELECT 1 FROM {chosen} LIMIT 1", bound).fetchone() is None:
        return ()
    found: list[SmallJoin] = db.execute(joins.SLOTS.format(tasks=chosen), bound).fetchall()
    return None if any(size is None for *_, size in found) else found
