"""A value that is swapped together with the end of a task, in a part of a commit, while somebody else swaps it alone.

Ann holds the task; she may be given up for dead, so that Dan runs it again, and wake up afterwards. Checked:
T the task has ended exactly if its swap happened, P a part that was lost or refused adds no child, U an applied swap
replaces the version that its maker saw, S1 the task ends once, L it ends.

Limits: one task, one value, one swap by Bob; verbs that are sent again are in `swap`, what else a refused part does not
do is in `core`. A worker tries again as often as it must; the kernel counts a failed attempt after `MOST_TRIES`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Book", Note]]


class Book(NamedTuple):
    version: int = 1  #: of the value
    reserved: int = 2  #: the next id that nobody has
    holder: str = "Ann"  #: whose token is valid
    ends: int = 0  #: of the task
    swaps: int = 0  #: that belong to its end
    children: int = 0  #: that its part made
    broken: str = ""


def judge(db: Book) -> str:
    if db.ends > 1:
        return "S1 the task ended twice"
    if db.ends != db.swaps:
        return "T the end of a task and its swap did not happen together"
    return "P a part that was not applied made a child" if db.children > db.ends else db.broken


def worker(how: str, name: str) -> Script[Book]:
    """Runs the task while it holds it; if its swap is lost, it reads again."""

    def read(db: Book, _note: Note) -> Answers:
        if db.holder != name:
            return []
        return [(db._replace(reserved=db.reserved + 1), (db.version, db.reserved))]

    def commit(db: Book, note: Note) -> Answers:
        seen, version = note
        wins, held = seen == db.version, db.holder == name
        swapped = db._replace(version=version, swaps=db.swaps + 1)
        match how:
            case "end-anyway" if held and not wins:
                return [(ended(db), QUIT)]
            case "swap-before-guard" if wins and not held:
                return [(swapped, QUIT)]
            case "lost-lets-go" if held and not wins:
                return [(db._replace(holder=""), QUIT)]
            case "children-of-lost" if held and not wins:
                return [(db._replace(children=db.children + 1), QUIT)]
            case "checked-outside" if held:
                broken = "" if wins else "U a swap replaces what its maker did not see"
                return [(ended(swapped)._replace(broken=db.broken or broken), QUIT)]
        return [(ended(swapped) if held and wins else db, QUIT)]

    def check(db: Book, note: Note) -> Answers:
        return [(db, note if note[0] == db.version else QUIT)]

    def swap(db: Book, note: Note) -> Answers:
        seen, version = note
        if seen != db.version or db.holder != name:
            return [(db, QUIT)]
        return [(db._replace(version=version, swaps=db.swaps + 1), None)]

    def end(db: Book, _note: Note) -> Answers:
        return [(ended(db) if db.holder == name else db, QUIT)]

    reading = Statement("reads the value and reserves a version", read)
    if how == "two-transactions":
        return Script(name, (reading, Statement("swaps, COMMIT", swap), Statement("ends the task, COMMIT", end)), True)
    checking = (Statement("looks whether its version still stands", check),) if how == "checked-outside" else ()
    return Script(name, (reading, *checking, Statement("ends the task with its swap, COMMIT", commit)), repeats=True)


def ended(db: Book) -> Book:
    return db._replace(holder="", ends=db.ends + 1, children=db.children + 1)


def bob() -> Script[Book]:
    def swap(db: Book, _note: Note) -> Answers:
        return [(db._replace(version=db.reserved, reserved=db.reserved + 1), None)]

    return Script("Bob", (Statement("swaps the value, COMMIT", swap),))


def reaper() -> Script[Book]:
    def reap(db: Book, _note: Note) -> Answers:
        return [] if db.holder != "Ann" else [(db._replace(holder="Dan"), None)]

    return Script("reaper", (Statement("voids the claim of Ann, and Dan takes it", reap, fault=True),))


def model(how: str) -> Interleaved[Book]:
    scripts = (worker(how, "Ann"), worker(how, "Dan"), bob(), reaper())
    return Interleaved(Book(), scripts, judge, lambda db: bool(db.ends))


CASES = tuple(
    Case(f"swap-part/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("together", "", "Guard by the token, compare versions, then swap and end in one transaction, or do nothing."),
        ("end-anyway", "T", "Write the end although the swap lost: what the task came to is nowhere."),
        ("two-transactions", "T", "Swap, then end the task: a kill between leaves the swap, and the task swaps again."),
        (
            "swap-before-guard",
            "T",
            "Swap before the token is compared: the part is refused, and its swap has happened.",
        ),
        ("checked-outside", "U", "Compare versions before the transaction: somebody swaps between."),
        ("children-of-lost", "P", "Publish the children of a part that lost: it makes them again when it wins."),
        ("lost-lets-go", "L", "Let go of the task of a part that lost: nobody holds it, and nobody is offered it."),
    )
)
