"""When is a round done? The question of P4, asked statement by statement, as a server runs it.

Rows `a` and `b` of round 0 are committed by two processes; `a` has a child in round 1. Who notices that round 0 is
done, and when does the run end? Checked: S4 a sealed round has no live row, S5 an ended run has none, L it can end.

Limits: one run, two rounds and one append from outside; commits are atomic unless they themselves decide the seal.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import Interleaved, Note, Script, Statement

Row = tuple[str, int]  # name, round
Answers = list[tuple["Rounds", Note]]
A, B, CHILD = ("a", 0), ("b", 0), ("child", 1)


class Rounds(NamedTuple):
    live: frozenset[Row] = frozenset({A, B})
    claimed: frozenset[str] = frozenset({"a", "b"})
    round: int = 0
    done: bool = False
    lock: str = ""

    def low(self, rows: frozenset[Row]) -> bool:
        return any(in_round <= self.round for _name, in_round in rows)


def judge(db: Rounds) -> str:
    if any(in_round < db.round for _name, in_round in db.live):
        return "S4 a sealed round has a live row"
    return "S5 the run ended with live rows" if db.done and db.live else ""


def lock(who: str, fault: bool = False) -> Statement[Rounds]:
    def take(db: Rounds, _note: Note) -> Answers:
        return [] if db.lock else [(db._replace(lock=who), None)]

    return Statement("locks the run", take, fault)


def ended_row(db: Rounds, row: Row) -> Rounds:
    return db._replace(live=db.live - {row} | ({CHILD} if row == A else set()))


def commit(row: Row) -> Script[Rounds]:
    """Events, mask and child; it leaves the round alone."""

    def write(db: Rounds, _note: Note) -> Answers:
        return [(ended_row(db, row), None)] if row[0] in db.claimed else []

    return Script(f"commit {row[0]}", (Statement("COMMIT", write),))


def sealing_commit(row: Row, locked: bool) -> Script[Rounds]:
    """The commit looks for other live work of its round and seals it when it sees none."""

    def look(db: Rounds, _note: Note) -> Answers:
        rest = ended_row(db, row)
        return [(db, (not rest.low(rest.live), not rest.live))]

    def write(db: Rounds, note: Note) -> Answers:
        seals, last = note
        after = ended_row(db, row)._replace(lock="" if locked else db.lock)
        return [(after._replace(round=1, done=last) if seals else after, None)]

    steps = (Statement("looks for other live work of the round", look), Statement("COMMIT", write))
    return Script(f"commit {row[0]}", (lock(row[0]), *steps) if locked else steps)


def worker(name: str, seals: bool) -> Script[Rounds]:
    """Claims and commits the row `name` once its round is open."""

    def run(db: Rounds, _note: Note) -> Answers:
        mine = frozenset(row for row in db.live if row[0] == name and row[1] <= db.round)
        if not mine or db.done:
            return []
        live = db.live - mine
        return [(db._replace(live=live, done=seals and not live), None)]

    return Script("worker", (Statement(f"claims and commits the {name}", run),))


def advance(statements: int) -> Script[Rounds]:
    """Lock, look at all live work in one statement (or, the shortcut, in two), open the next round or end the run."""

    def look(db: Rounds, _note: Note) -> Answers:
        return [(db, (db.low(db.live), not db.live))]

    def look_at_claims(db: Rounds, _note: Note) -> Answers:
        rows = frozenset(row for row in db.live if row[0] in db.claimed)
        return [(db, (db.low(rows), not rows))]

    def look_at_segments(db: Rounds, note: Note) -> Answers:
        rows = frozenset(row for row in db.live if row[0] not in db.claimed)
        return [(db, (note[0] or db.low(rows), note[1] and not rows))]

    def decide(db: Rounds, note: Note) -> Answers:
        busy, empty = note
        after = db._replace(lock="")
        if busy or db.done:
            return [(after, None)]
        return [(after._replace(done=True) if empty else after._replace(round=db.round + 1), None)]

    looks = (
        (Statement("looks at all live work", look),)
        if statements == 1
        else (Statement("reads the claims", look_at_claims), Statement("reads the segments", look_at_segments))
    )
    return Script("advance", (lock("advance"), *looks, Statement("opens or ends, COMMIT", decide)), repeats=True)


def claim_of_b() -> Script[Rounds]:
    def move(db: Rounds, _note: Note) -> Answers:
        return [(db._replace(claimed=db.claimed | {"b"}), None)]

    return Script("claim b", (Statement("moves b from segments to claims, COMMIT", move),))


def append_from_outside(locked: bool) -> Script[Rounds]:
    def read(db: Rounds, _note: Note) -> Answers:
        return [(db, db.round + 1)]

    def insert(db: Rounds, into_round: Note) -> Answers:
        after = db._replace(lock="" if locked else db.lock)
        if db.done:  # reopening an ended run is another verb
            return [(after, None)]
        return [(after._replace(live=db.live | {("append", into_round)}), None)]

    steps = (
        Statement("reads the open round n", read, fault=not locked),
        Statement("inserts into round n + 1, COMMIT", insert),
    )
    return Script("append", (lock("append", fault=True), *steps) if locked else steps)


def model(how: str) -> Interleaved[Rounds]:
    store = Rounds()
    scripts: tuple[Script[Rounds], ...]
    match how:
        case "in-commit" | "in-commit-locked":
            locked = how == "in-commit-locked"
            scripts = (sealing_commit(A, locked), sealing_commit(B, locked), worker("child", seals=True))
        case "two-tables" | "two-tables-one-look":
            store = store._replace(claimed=frozenset({"a"}))
            looks = 2 if how == "two-tables" else 1
            scripts = (commit(A), commit(B), worker("child", seals=False), advance(looks), claim_of_b())
        case "append-lock" | "no-append-lock":
            outside = (append_from_outside(how == "append-lock"), worker("append", seals=False))
            scripts = (commit(A), commit(B), worker("child", seals=False), advance(1), *outside)
        case _:
            scripts = (commit(A), commit(B), worker("child", seals=False), advance(1))
    return Interleaved(store, scripts, judge, lambda db: db.done)


CASES = tuple(
    Case(f"seal/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("advance", "", "A transaction of its own, under the run's lock, decides by one look."),
        ("in-commit-locked", "", "The commit may decide if it locks the run first; that serialises all commits."),
        ("two-tables-one-look", "", "Claims in a table of their own are safe when one statement reads both tables."),
        ("append-lock", "", "An append from outside locks the run before it reads the round."),
        (
            "in-commit",
            "L",
            "Seal in the commit by its own snapshot: two last commits each see the other, nobody seals.",
        ),
        ("two-tables", "S4", "Read claims, then segments: a row that is claimed between is in neither answer."),
        ("no-append-lock", "S5", "Append without the run's lock: the run ends beside the new work."),
    )
)
