"""Rows of the PostgreSQL store as Python values, and the small statements that many verbs need. They decide nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ramify.model.run import StoredRun
from ramify.model.segment import LIVE_STATES
from ramify.store.postgres.link import Transaction
from ramify.store.rows import SegmentRow, SpanRow
from ramify.store.tuples import RUN_COLUMNS, SEGMENT_COLUMNS, SPAN_COLUMNS, read_run, segment_row, span_row, unknown

#: The last decision about each.
DECISION = "(SELECT told FROM @decision d WHERE d.run = run.id ORDER BY n DESC LIMIT 1)"
RUN = f"SELECT {RUN_COLUMNS}, {DECISION} FROM @run"
RUNS_AT = f"{RUN} WHERE id = ANY($1::bigint[]) ORDER BY id"
#: Whoever relies on the state of runs shares them; whoever decides about them has them alone.
SHARE_RUNS = "SELECT id FROM @run WHERE id = ANY($1::bigint[]) ORDER BY id FOR SHARE"
LOCK_RUNS = "SELECT id FROM @run WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE"
SPAN = f"SELECT {SPAN_COLUMNS} FROM @span"
SPANS_AT = f"{SPAN} WHERE first = ANY($1::bigint[]) ORDER BY first"
SEGMENT = f"SELECT {SEGMENT_COLUMNS} FROM @segment"
#: Of each task the span that begins last at or before it, if it holds it.
SPANS_OF = (
    f"SELECT wanted.task, s.* FROM unnest($1::bigint[]) AS wanted(task) CROSS JOIN LATERAL ({SPAN}"
    " WHERE first <= wanted.task ORDER BY first DESC LIMIT 1) s WHERE s.last >= wanted.task"
)
OWNER = f"{SPAN} WHERE first <= $1::bigint ORDER BY first DESC LIMIT 1"
#: Of rows that stand for published tasks.
IS_LIVE = f"state IN ({','.join(str(int(state)) for state in LIVE_STATES)})"
#: Of rows that must run apart: see `Deaths.packed`.
IS_APART = "deaths & 1 = 1"
_SHOWN, _DEFINITION, _REASON = (RUN_COLUMNS.split(", ").index(name) for name in ("shown", "definition", "reason"))


def text(kept: bytes | None) -> str | None:
    """A text that may hold a NUL, as it was."""
    return None if kept is None else kept.decode()


def stored(given: str | None) -> bytes | None:
    """The inverse of `text`."""
    return None if given is None else given.encode()


def run_of(row: tuple[Any, ...]) -> StoredRun:
    """A run from a row of `RUN`."""
    found = list(row)
    for place in (_SHOWN, _DEFINITION, _REASON):
        found[place] = text(found[place])
    return read_run(tuple(found))


def runs_at(db: Transaction, numbers: Collection[int], *, lock: str | None = None) -> dict[int, StoredRun]:
    """Return those of these runs that there are, in one trip; shared or alone if they must stay as they are."""
    if not numbers:
        return {}
    if lock is not None:
        db.later(lock, sorted(set(numbers)))
    return {row[0]: run_of(row) for row in db.ask(RUNS_AT, sorted(set(numbers)))}


def run_row(db: Transaction, run: int) -> StoredRun:
    """One run; UnknownRun when there is none."""
    found = runs_at(db, [run])
    if not found:
        raise unknown(run)
    return found[run]


def spans_at(db: Transaction, firsts: Iterable[int]) -> dict[int, SpanRow]:
    """The spans that begin there, by their first ids."""
    wanted = sorted(set(firsts))
    return {row[0]: span_row(row) for row in db.ask(SPANS_AT, wanted)} if wanted else {}


def spans_of(db: Transaction, tasks: Collection[int]) -> dict[int, SpanRow]:
    """The ranges that hold tasks, published or not, by task."""
    known: dict[int, SpanRow] = {}
    found: dict[int, SpanRow] = {}
    for task, *row in db.ask(SPANS_OF, sorted(set(tasks))) if tasks else ():
        span = known.get(row[0])
        if span is None:
            span = known[row[0]] = span_row(tuple(row))
        found[task] = span
    return found


def span_of(db: Transaction, task: int) -> SpanRow | None:
    """The range that holds `task`, published or not."""
    return spans_of(db, [task]).get(task)


def segments(db: Transaction, where: str, *values: Any) -> list[SegmentRow]:
    """Segments that satisfy a fixed condition of ours; `where` never holds anything from outside."""
    return [segment_row(row) for row in db.ask(f"{SEGMENT} {where}", *values)]


def latest(db: Transaction) -> int:
    """The latest time written down: that of the last commit."""
    found = db.ask("SELECT at FROM @commits ORDER BY seq DESC LIMIT 1")
    return int(found[0][0]) if found else 0
