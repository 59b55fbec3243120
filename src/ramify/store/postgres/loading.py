"""The answer to what a verb asks: all of it in one trip, locked in one order.

The session comes first, so that two deliveries of a verb take turns; then limits and runs that bound, alone; runs
whose state is relied on, shared; then rows by id, values and names. Joins and keys are asked by the verb itself, after
that. Whoever reads only locks nothing.

Statements of one trip cannot wait for one another's answers here, so some find what they need by way of the rows that
the tokens name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ramify.model.context import ContextValue
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.limit import LIMITS
from ramify.model.process import Stamp
from ramify.model.run import StoredRun
from ramify.model.value import Key, StoredValue
from ramify.store.postgres import joins, left, lines, rows, schema
from ramify.store.postgres.candidates import LOCK_BOUNDED, PgCandidates
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Asked, Rows
from ramify.store.tables import Ask, Loaded, Session
from ramify.store.tuples import segment_row, span_row

SESSION = (
    "SELECT last, answer, kinds IS DISTINCT FROM '[]'::bytea FROM @session"
    " WHERE process = $1::bigint AND gone_at IS NULL"
)
ALONE = "FOR NO KEY UPDATE"
_HELD = "FROM @segment WHERE token = ANY($1::bytea[]) AND state = 3"
HELD = f"{rows.SEGMENT} WHERE token = ANY($1::bytea[]) AND state = 3 ORDER BY id"
HELD_BY = f"{rows.SEGMENT} WHERE state = 3 AND owner = $1::bigint ORDER BY id"
#: By its first id: one claim may have staged very many.
_OF_CLAIM = "(token, first) IN (SELECT * FROM unnest($1::bytea[], $2::bigint[])) AND state = 4"
STAGED = f"{rows.SEGMENT} WHERE {_OF_CLAIM} ORDER BY id"
SPANS = f"{rows.SPAN} WHERE first = ANY(ARRAY(SELECT span {_HELD}))"
STAGED_SPANS = f"{rows.SPAN} WHERE first = ANY(ARRAY(SELECT span FROM @segment WHERE {_OF_CLAIM}))"
RUNS = f"{rows.RUN} WHERE id = ANY(ARRAY(SELECT run {_HELD}))"
RUNS_HELD_BY = "SELECT run FROM @segment WHERE state = 3 AND owner = $1::bigint"
MARKED = f"SELECT DISTINCT run FROM @mark WHERE run = ANY(ARRAY(SELECT run {_HELD}))"
NUMBERS = (
    "SELECT e.task, max(e.n) FROM @segment s JOIN @event e ON e.task BETWEEN s.first AND s.last"
    " WHERE s.token = ANY($1::bytea[]) AND s.state = 3 AND s.attempt > 0 GROUP BY e.task"
)
#: The keys of tasks that end, where some of them may be let go.
KEYS = (
    "SELECT id, key FROM @task WHERE id = ANY($2::bigint[]) AND key IS NOT NULL AND EXISTS (SELECT 1 FROM @span WHERE"
    f" first = ANY(ARRAY(SELECT span {_HELD})) AND keyed AND hold = {Hold.UNIQUE:d})"
)
CONTEXT = (
    "SELECT c.run, c.name, c.value, c.task, c.first_set, c.last_set FROM @context c WHERE (run, name) IN"
    " (SELECT s.run, n FROM unnest($1::bytea[], $2::text[]) AS a(t, n) JOIN @segment s ON s.token = t AND s.state = 3)"
    " ORDER BY run, name"
)
ENDED = "SELECT id FROM @run WHERE id = ANY($1::bigint[]) AND ended IS NOT NULL"
RESERVED = (
    "SELECT CASE WHEN is_called THEN last_value + (SELECT seqincrement FROM pg_sequence"
    " WHERE seqrelid = '@ids'::regclass) ELSE last_value END FROM @ids"
)
TAKEN = (
    "SELECT f, l FROM unnest($1::bigint[], $2::bigint[]) AS u(f, l) CROSS JOIN LATERAL"
    " (SELECT last FROM @span WHERE first <= u.l ORDER BY first DESC LIMIT 1) s WHERE s.last >= u.f"
)
KNOWN = (
    f"{rows.RUN} WHERE id = $1::bigint OR (name = $2::text AND generation = $3::bigint)"
    " ORDER BY id = $1::bigint DESC LIMIT 1"
)
#: The newest run of each name.
_NEWEST = (
    "SELECT n.id FROM unnest($1::text[]) AS w CROSS JOIN LATERAL"
    " (SELECT id FROM @run r WHERE r.name = w ORDER BY generation DESC LIMIT 1) n"
)
NEWEST = f"{rows.RUN} WHERE id = ANY(ARRAY({_NEWEST}))"
SHARE_NEWEST = f"SELECT id FROM @run WHERE id = ANY(ARRAY({_NEWEST})) ORDER BY id FOR SHARE"
SHARE_RUNS = (
    f"SELECT id FROM @run WHERE id = ANY($2::bigint[]) OR id = ANY(ARRAY(SELECT run {_HELD})) ORDER BY id FOR SHARE"
)
SHARE_HELD_BY = f"SELECT id FROM @run WHERE id = ANY(ARRAY({RUNS_HELD_BY})) ORDER BY id FOR SHARE"
#: How many tasks of bounded runs count: those that were added, without those that were replaced.
COUNTED = (
    f"SELECT id, (SELECT coalesce(sum(CASE what WHEN {Tally.ADDED:d} THEN value ELSE -value END), 0)::bigint"
    f" FROM @counter WHERE run = run.id AND what IN ({Tally.ADDED:d}, {Status.REPLACED:d})) FROM @run AS run"
    " WHERE max_tasks IS NOT NULL AND id = ANY({runs})"
)
COUNTED_OF = COUNTED.format(runs="$1::bigint[]").replace("WHERE run = run.id", "WHERE counter.run = run.id")
COUNTED_HELD = COUNTED.format(runs=f"ARRAY(SELECT run {_HELD})").replace(
    "WHERE run = run.id", "WHERE counter.run = run.id"
)
VALUES = (
    "SELECT space, name, value, version, expires FROM @value"
    " WHERE (space, name) IN (SELECT * FROM unnest($1::text[], $2::text[])) ORDER BY space, name"
)

Take = Callable[[Rows], None]


def values_of(found: Rows) -> dict[Key, StoredValue]:
    """Values by their keys, from rows of `VALUES`."""
    each = (StoredValue(*row) for row in found)
    return {(value.space, value.name): value for value in each}


class Loading:
    """The questions of one verb on their way: each is sent with the others, and its answer taken."""

    def __init__(self, db: Transaction, ask: Ask, *, writes: bool) -> None:
        self._db, self._ask, self._writes = db, ask, writes
        self._asked: list[Asked] = []
        self._take: list[Take | None] = []
        self.loaded = Loaded()

    def load(self) -> Loaded:
        """Answer a verb."""
        ask, loaded = self._ask, self.loaded
        if self._writes:
            self._later(schema.TRANSACTION, take=self._place)
        if (process := ask.leaving if ask.stamp is None else ask.stamp.process) is not None:
            self._later(self._alone(SESSION), process, take=self._session)
        self._limits()
        candidates = self._candidates(ask.stamp) if ask.stamp is not None else None
        self._share()
        if ask.leaving is not None:
            self._leaving(ask.leaving)
        if ask.tokens:
            self._held()
        if ask.new or ask.start is not None:
            self._room()
        if ask.runs:
            self._later(rows.RUNS_AT, sorted(ask.runs), take=self._runs)
            if ask.grows:
                self._later(COUNTED_OF, sorted(ask.runs), take=self._counted)
        if ask.start is not None:
            new = ask.start
            self._later(KNOWN, new.id, new.name, new.generation, take=self._known)
        if ask.opens:
            self._later(NEWEST, sorted({run.name or "" for run in ask.opens}), take=self._newest)
            self._later(rows.RUNS_AT, sorted({run.id for run in ask.opens}), take=self._runs)
        if ask.values:
            spaces, names = zip(*sorted(ask.values), strict=True)
            self._later(self._alone(VALUES), spaces, names, take=self._values)
        many = 0
        if candidates is not None:
            many = len(asked := candidates.asked())
            for text, values in asked:
                self._later(text, *values)
            if ask.looks and ask.want is not None:
                for text, values in left.asked(ask.want, ask.now, ask.now):
                    self._later(text, *values)
        found = self._db.trip(self._asked)
        for take, some in zip(self._take, found, strict=True):
            if take is not None:
                take(some)
        if candidates is not None and ask.want is not None:
            begin = self._take.index(None)
            candidates.answer(found[begin : begin + many])
            if ask.looks:
                candidates.told = left.answer(found[begin + many :], ask.want, ask.now, ask.now)
            loaded.candidates = candidates
        return loaded

    def _later(self, text: str, *values: object, take: Take | None = None) -> None:
        self._asked.append((text, values))
        self._take.append(take)

    def _only_lock(self, text: str, *values: object) -> None:
        if self._writes:
            self._later(text, *values, take=lambda found: None)

    def _alone(self, text: str) -> str:
        return f"{text} {ALONE}" if self._writes else text

    def _limits(self) -> None:
        """Ask for the limits, alone, of a verb that claims or ends claims; before all runs and rows."""
        ask = self._ask
        concerns = bool(ask.tokens) or ask.want is not None or ask.leaving is not None
        if any(space == LIMITS for space, _ in ask.values):
            self._only_lock(lines.LOCK_ALL)
        elif concerns and not ask.looks:
            self._only_lock(lines.LOCK)
        if concerns:
            text, values = lines.asked(lock=self._writes and not ask.looks)
            self._later(text, *values, take=self._take_limits)

    def _candidates(self, stamp: Stamp) -> PgCandidates | None:
        ask = self._ask
        if ask.want is None:
            return None
        looks = ask.looks or not self._writes
        return PgCandidates(self._db, stamp.process, ask.want, ask.now, ask.turn, is_looking=looks)

    def _share(self) -> None:
        """Share the runs whose state is relied on."""
        ask = self._ask
        if ask.want is not None and not ask.looks:
            self._only_lock(LOCK_BOUNDED, sorted(ask.want.kinds))
        leader = () if ask.start is None or ask.start.follows is None else (ask.start.follows.run,)
        wanted = sorted({*ask.runs, *ask.awaited, *leader})
        if ask.tokens or wanted:
            self._only_lock(SHARE_RUNS, list(dict.fromkeys(ask.tokens)), wanted)
        if ask.opens:
            self._only_lock(SHARE_NEWEST, sorted({run.name or "" for run in ask.opens}))
        if ask.leaving is not None:
            self._only_lock(SHARE_HELD_BY, ask.leaving)

    def _leaving(self, process: int) -> None:
        self._later(f"{HELD_BY} FOR UPDATE", process, take=self._take_held)
        self._later(f"{rows.RUN} WHERE id = ANY(ARRAY({RUNS_HELD_BY}))", process, take=self._runs)

    def _held(self) -> None:
        """Ask for the rows that a process holds under tokens, and all that the ends of their tasks concern."""
        ask, tokens = self._ask, list(dict.fromkeys(self._ask.tokens))
        self._later(f"{HELD} FOR UPDATE", tokens, take=self._take_held)
        self._later(SPANS, tokens, take=self._spans)
        self._later(RUNS, tokens, take=self._runs)
        self._later(MARKED, tokens, take=self._marked)
        self._later(NUMBERS, tokens, take=self._numbers)
        if ask.staged:
            claims, firsts = map(list, zip(*dict.fromkeys(ask.staged), strict=True))
            self._later(f"{STAGED} FOR UPDATE", claims, firsts, take=self._staged)
            self._later(STAGED_SPANS, claims, firsts, take=self._spans)
        if ask.new or ask.staged:
            self._later(COUNTED_HELD, tokens, take=self._counted)
        if ask.names:
            claims, names = map(list, zip(*dict.fromkeys(ask.names), strict=True))
            self._later(self._alone(CONTEXT), claims, names, take=self._context)
        if ask.awaited:
            self._later(ENDED, sorted(ask.awaited), take=self._over)
        ended = [tasks for tasks in ask.ended if tasks]
        if ended:
            text, values = joins.waiters_asked(ended)
            self._later(text, *values, take=lambda found: self._waiters(found, ended))
            self._later(KEYS, tokens, [task for tasks in ended for task in tasks], take=self._keys)

    def _room(self) -> None:
        self._later(RESERVED, take=self._reserved)
        if self._ask.new:
            self._later(TAKEN, *map(list, zip(*self._ask.new, strict=True)), take=self._taken)

    # answers

    def _place(self, found: Rows) -> None:
        ((self._db.place,),) = found

    def _session(self, found: Rows) -> None:
        self.loaded.session = Session(*found[0]) if found else None

    def _take_limits(self, found: Rows) -> None:
        self.loaded.limits = lines.read(found)

    def _take_held(self, found: Rows) -> None:
        owner = self._ask.stamp.process if self._ask.stamp is not None else self._ask.leaving
        each = [row for row in map(segment_row, found) if row.owner == owner]
        self.loaded.held = {row.token: row for row in each if row.token is not None}

    def _spans(self, found: Rows) -> None:
        self.loaded.spans = {**self.loaded.spans, **{row[0]: span_row(row) for row in found}}

    def _runs(self, found: Rows) -> None:
        self.loaded.runs = {**self.loaded.runs, **{row[0]: rows.run_of(row) for row in found}}

    def _marked(self, found: Rows) -> None:
        self.loaded.marked = {run for (run,) in found}

    def _numbers(self, found: Rows) -> None:
        self.loaded.numbers = dict(found)

    def _staged(self, found: Rows) -> None:
        each = ((row.token, row) for row in map(segment_row, found))
        self.loaded.staged = {
            (token, row.first): row for token, row in each if token is not None and token in self.loaded.held
        }

    def _counted(self, found: Rows) -> None:
        self.loaded.counted = dict(found)

    def _context(self, found: Rows) -> None:
        self.loaded.context = {(run, name): ContextValue(name, *rest) for run, name, *rest in found}

    def _over(self, found: Rows) -> None:
        self.loaded.over = {run for (run,) in found}

    def _waiters(self, found: Rows, ended: Sequence[Sequence[int]]) -> None:
        self.loaded.waiters = joins.among(found, ended)

    def _keys(self, found: Rows) -> None:
        self.loaded.keys = dict(found)

    def _reserved(self, found: Rows) -> None:
        ((self.loaded.reserved,),) = found

    def _taken(self, found: Rows) -> None:
        self.loaded.taken = {(first, last) for first, last in found}

    def _known(self, found: Rows) -> None:
        self.loaded.known = rows.run_of(found[0]) if found else None

    def _newest(self, found: Rows) -> None:
        known = map(rows.run_of, found)
        self.loaded.newest = {run.name: run for run in known if run.name is not None}

    def _values(self, found: Rows) -> None:
        self.loaded.values = values_of(found)


def counted(db: Transaction, runs: Iterable[StoredRun] | Collection[int]) -> dict[int, int]:
    """How many tasks those of these runs have that are bounded."""
    numbers = sorted(run if isinstance(run, int) else run.id for run in runs)
    return dict(db.ask(COUNTED_OF, numbers)) if numbers else {}
