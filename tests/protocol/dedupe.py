"""A join that counts a duplicate: who makes it arrive? (P8 and the keys of P3.)

A parent expands into x and k under a collecting join, but the key of k is held by a task e that exists already and
may end at any moment. Checked: J1 the collector starts at most once, J2 not before e and x have ended, L it starts.

Limits: one duplicate, one waiter; e is neither reopened nor cancelled (an end is an end).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import Interleaved, Note, Script, Statement

Answers = list[tuple["Expansion", Note]]


class Expansion(NamedTuple):
    made: bool = False  #: the parent has committed: x and the join exist
    needs: int = 0
    arrived: int = 0
    fired: int = 0
    waiter: bool = False  #: a row: when e ends, the join has an arrival
    e_ended: bool = False
    x_ended: bool = False
    lock: str = ""  #: of the live row that covers e

    def arrival(self) -> Expansion:
        full = self.made and self.arrived + 1 == self.needs
        return self._replace(arrived=self.arrived + 1, fired=self.fired + full)


def judge(db: Expansion) -> str:
    if db.fired > 1:
        return "J1 the collector was started twice"
    early = db.fired and not (db.e_ended and db.x_ended)
    return "J2 the collector starts before the task behind the duplicate has ended" if early else ""


def parent(how: str) -> Script[Expansion]:
    def lock(db: Expansion, _note: Note) -> Answers:
        return [] if db.lock else [(db._replace(lock="parent"), None)]

    def look(db: Expansion, _note: Note) -> Answers:
        return [(db, db.e_ended)]

    def commit(db: Expansion, e_had_ended: Note) -> Answers:
        after = db._replace(made=True, needs=1 if how == "count-made" else 2)
        if how == "waiter-lock":
            after = after._replace(lock="")
        if how.startswith("waiter"):
            after = after.arrival() if e_had_ended else after._replace(waiter=True)
        return [(after, None)]

    steps = (Statement("finds the key taken, looks whether e has ended", look), Statement("COMMIT", commit))
    locking = (Statement("locks the row that covers e", lock),)
    return Script("parent", (*locking, *steps) if how == "waiter-lock" else steps)


def existing_task(how: str) -> Script[Expansion]:
    def look(db: Expansion, _note: Note) -> Answers:
        if how == "waiter-lock":
            return [] if db.lock else [(db._replace(lock="e"), db.waiter)]
        return [(db, db.waiter)]

    def commit(db: Expansion, waited_for: Note) -> Answers:
        after = db._replace(e_ended=True, lock="" if how == "waiter-lock" else db.lock)
        return [(after.arrival() if waited_for else after, None)]

    return Script("e", (Statement("ends: guards its row, reads who waits", look), Statement("COMMIT", commit)))


def other_child() -> Script[Expansion]:
    def commit(db: Expansion, _note: Note) -> Answers:
        return [(db._replace(x_ended=True).arrival(), None)] if db.made else []

    return Script("x", (Statement("ends and arrives, COMMIT", commit),))


def model(how: str) -> Interleaved[Expansion]:
    scripts = (parent(how), existing_task(how), other_child())
    return Interleaved(Expansion(), scripts, judge, lambda db: db.fired == 1)


CASES = tuple(
    Case(f"dedupe/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("waiter-lock", "", "Holding the row that covers e: ended, count it now; else leave a waiter for e's commit."),
        ("count-all", "L", "Count the duplicate as a member: nobody ever arrives for it."),
        (
            "count-made",
            "J2",
            "Count only what was created: the collector starts without the task behind the duplicate.",
        ),
        ("waiter", "L", "Leave a waiter without the lock: e may end between the look and the insert."),
    )
)
