"""One place and its line on a server, statement by statement: which verbs must lock the limit, and when.

Ann, Bob and Carl claim rows and end them, Dora raises the limit, and Eve pauses the run of a row.
Checked: S1 no more rows are claimed than there are places, S3 a row that waits has a full place or a head before it,
L all rows end but those that are paused.

Locks of the limit stand for those of the server; a statement that writes looks again at the state of its row, as an
UPDATE does that has waited for another. A look is what a transaction has read before its COMMIT. The two limits of
`in-name-order` are locked one after the other; the others have one.

Limits: rows of one kind, a line for one place; clients frozen inside of their transactions are in `open_transaction`,
kills between transactions in `limit`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Place", Note]]
READY, HEAD, LIMITED, GATED, OVER = "ready", "head", "limited", "gated", "over"
#: The row that is paused.
PAUSABLE = 1


class Place(NamedTuple):
    rows: tuple[str, ...]  #: the state of each, or who has claimed it
    most: int = 1
    lock: str = ""  #: who has locked the limit
    other_lock: str = ""  #: and another one
    broken: str = ""

    @property
    def running(self) -> int:
        return sum(row not in (READY, HEAD, LIMITED, GATED, OVER) for row in self.rows)

    @property
    def following(self) -> int | None:
        """Who would be readied next."""
        return None if HEAD in self.rows else next((r for r, row in enumerate(self.rows) if row == LIMITED), None)

    def put(self, r: int, state: str) -> Place:
        return self._replace(rows=(*self.rows[:r], state, *self.rows[r + 1 :]))

    def ready(self, r: int | None) -> Place:
        """Make a row the head, if it still waits by then."""
        return self.put(r, HEAD) if r is not None and self.rows[r] == LIMITED else self

    def unlock(self, name: str) -> Place:
        mine, other = ("" if lock == name else lock for lock in (self.lock, self.other_lock))
        return self._replace(lock=mine, other_lock=other)


def judge(db: Place) -> str:
    if db.broken:
        return db.broken
    stranded = LIMITED in db.rows and HEAD not in db.rows and db.running < db.most
    return "S3 a row waits for a place that is free, behind nobody" if stranded else ""


def at_rest(db: Place) -> bool:
    return all(row in (OVER, GATED) for row in db.rows)


# statements


def locks(name: str, *, skips: bool = False, other: bool = False, fault: bool = False) -> Statement[Place]:
    """Lock the limit; if somebody else has, wait, or leave it for now."""

    def lock(db: Place, note: Note) -> Answers:
        if db.other_lock if other else db.lock:
            return [(db, QUIT)] if skips and name not in db.rows else []
        return [(db._replace(other_lock=name) if other else db._replace(lock=name), note)]

    return Statement("locks the other limit" if other else "locks the limit", lock, fault)


def claims_lock(name: str) -> Statement[Place]:
    def lock(db: Place, note: Note) -> Answers:
        if name in db.rows:
            return [(db, note)]
        return [] if db.lock else [(db._replace(lock=name), note)]

    return Statement("locks the limit if it is going to claim", lock)


def works(name: str) -> tuple[Statement[Place], Statement[Place]]:
    """Ends the row that it holds, or claims one."""

    def look(db: Place, _note: Note) -> Answers:
        if name in db.rows:
            return [(db, (db.rows.index(name), name, db.following if db.running - 1 < db.most else None, 0))]
        found = [r for r, row in enumerate(db.rows) if row in (READY, HEAD)]
        if not found:
            return [(db.unlock(name), QUIT)] if name in (db.lock, db.other_lock) else []
        return [(db, (r, db.rows[r], db.running, db.most)) for r in found]

    def write(db: Place, note: Note) -> Answers:
        r, seen, found, most = note
        if seen == name:
            return [(db.put(r, OVER).ready(found).unlock(name), None)]
        if db.rows[r] != seen:
            return [(db.unlock(name), None)]
        if found >= most:
            return [(db.put(r, LIMITED).unlock(name), None)]
        after = db.put(r, name)
        if db.running >= db.most:
            after = after._replace(broken="S1 more rows are claimed than there are places")
        follows = after.following if seen == HEAD and found + 1 < most else None
        return [(after.ready(follows).unlock(name), None)]

    return Statement("looks how many run, and who is next", look), Statement(
        "claims, puts in line or ends, COMMIT", write
    )


def changes(*, locked: bool) -> Statement[Place]:
    def write(db: Place, _note: Note) -> Answers:
        rows = tuple(READY if row in (LIMITED, HEAD) else row for row in db.rows)
        return [(db._replace(rows=rows, most=2).unlock("Dora"), None)]

    return Statement("raises the limit and readies its line, COMMIT", write, fault=not locked)


def pauses(*, locked: bool) -> tuple[Statement[Place], Statement[Place]]:
    def look(db: Place, _note: Note) -> Answers:
        return [(db, db.rows[PAUSABLE] == HEAD)]

    def write(db: Place, was_head: Note) -> Answers:
        if db.rows[PAUSABLE] not in (READY, HEAD, LIMITED):
            return [(db.unlock("Eve"), None)]
        after = db.put(PAUSABLE, GATED)
        follows = after.following if was_head and after.running < after.most else None
        return [(after.ready(follows).unlock("Eve"), None)]

    return (
        Statement("looks of which lines the run has heads", look, fault=not locked),
        Statement("pauses the run and readies the next, COMMIT", write),
    )


def worker(how: str, name: str) -> Script[Place]:
    """Locks first, and looks then, unless `how` says otherwise."""
    look, write = works(name)
    lock, other = locks(name, skips=how == "locked"), locks(name, other=True)
    match how:
        case "snapshot":
            steps: tuple[Statement[Place], ...] = (look, write)
        case "looked-before":
            steps = (look, lock, write)
        case "claims-only":
            steps = (claims_lock(name), look, write)
        case "in-name-order":
            steps = (lock, other, look, write)
        case "in-any-order":
            steps = (other, lock, look, write) if name == "Bob" else (lock, other, look, write)
        case _:
            steps = (lock, look, write)
    return Script(name, steps, repeats=True)


def model(how: str, rows: tuple[str, ...]) -> Interleaved[Place]:
    scripts = [worker(how, name) for name in ("Ann", "Bob", "Carl")]
    if how in ("locked", "waiting", "changed-without"):
        locked = how != "changed-without"
        lock = (locks("Dora", fault=True),) if locked else ()
        scripts.append(Script("Dora", (*lock, changes(locked=locked))))
    if how in ("locked", "waiting", "paused-without"):
        locked = how != "paused-without"
        lock = (locks("Eve", fault=True),) if locked else ()
        scripts.append(Script("Eve", (*lock, *pauses(locked=locked))))
    return Interleaved(Place(rows), tuple(scripts), judge, at_rest)


FREE, TAKEN, FULL = (READY, READY, READY), ("Ann", READY, LIMITED), ("Ann", LIMITED, LIMITED)
CASES = tuple(
    Case(f"limit-lock/{how}", partial(model, how, rows), why, breaks)
    for how, rows, breaks, why in (
        ("locked", TAKEN, "", "Lock the limit, then look; a claim that finds it locked leaves its rows for now."),
        ("waiting", TAKEN, "", "A claim may wait for the lock as well."),
        ("in-name-order", TAKEN, "", "Two limits are locked in the order of their names by all."),
        ("snapshot", FREE, "S1", "Count by a snapshot, and lock nothing: two claims find the same place free."),
        ("looked-before", FREE, "S1", "Count first, then lock: by then it is another number."),
        ("claims-only", TAKEN, "S3", "Lock in claims only: a commit finds nobody in the line that a claim is joining."),
        ("changed-without", TAKEN, "S3", "Change a limit without its lock: a claim joins a line that is over."),
        ("paused-without", FULL, "S3", "Pause without the lock: after the look the row becomes a head."),
        ("in-any-order", TAKEN, "L", "Lock two limits as rows name them: two verbs wait for each other."),
    )
)
