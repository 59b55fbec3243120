"""A value that two clients swap at once, over a connection that loses requests and answers (`ramify.model.value`).

Ann and Bob each add one to it; Carol deletes it and makes it anew. Checked: U an applied swap replaces the version that
its maker saw, V no version is used twice, D no swap is applied twice, W nobody is wrong about their own swap, B a blind
set overwrites nothing newer once it was answered, L both come through, and without Ann while she is frozen.

Who gives up sends nothing more, and may be overtaken: what was never answered may happen at any later time, or not.

Limits: one value, one lost connection, two changes by Carol; a value that expires is one that Carol deletes. Swaps with
the end of a task are in `swap_part`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeVar

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

T = TypeVar("T")
Answers = list[tuple["Shelf", Note]]
ANN, BOB = 0, 1
NAMES = ("Ann", "Bob")
CHANGES = 2  #: by Carol
LOSING = {"sent-again", "given-up", "blind", "unnumbered", "number-read", "blind-as-new"}
FREEZING = {"frozen", "locked"}


class Request(NamedTuple):
    who: int
    n: int  #: the number of the verb
    version: int  #: reserved for the new value
    seen: int | None  #: the version that its maker saw: 0 for no value, None if any will do
    content: int  #: what its maker saw with it
    writing: int  #: ghost: the writing that its maker saw


class Shelf(NamedTuple):
    version: int = 1  #: of the value; 0 without one
    content: int = 0
    writing: int = 1  #: ghost: a number that each writing has for itself; 0 without a value
    written: int = 1  #: ghost: how many there were
    used: frozenset[int] = frozenset({1})  #: ghost: all versions that were there
    reserved: int = 2  #: the next id that nobody has
    last: tuple[int, int] = (0, 0)  #: the last number of each client
    answers: tuple[bool, bool] = (False, False)  #: to these
    applied: frozenset[Request] = frozenset()
    told: frozenset[int] = frozenset()  #: who knows that their swap happened
    gave_up: bool = False  #: Ann
    frozen: bool = False  #: Ann
    loses: bool = True  #: a connection may still be lost
    late: Request | None = None  #: on its way over the connection that was lost
    lock: str = ""  #: of the value
    changes: int = 0  #: by Carol
    broken: str = ""

    def stale(self, asked: Request) -> bool:
        return asked.n <= self.last[asked.who]

    def waits(self, who: int) -> bool:
        return who == ANN and self.frozen


def judge(db: Shelf) -> str:
    return db.broken


def at_rest(db: Shelf) -> bool:
    return BOB in db.told and (ANN in db.told or db.gave_up or db.frozen)


# the verb, in its transaction


def wins(how: str, db: Shelf, asked: Request) -> bool:
    if how == "compare-values":
        return bool(db.version) and asked.content == db.content
    return asked.seen in (None, db.version)


def arrive(how: str, db: Shelf, asked: Request) -> tuple[Shelf, bool]:
    """Carry a swap out, if it is new and wins; and the answer."""
    who = asked.who
    match how:
        case "unnumbered" | "blind-as-new":
            pass
        case "number-read":
            # The client has looked whether the number was used; the verb itself does not.
            db = db._replace(last=put(db.last, who, max(asked.n, db.last[who])))
        case _:
            if db.stale(asked):
                return db, asked.n == db.last[who] and db.answers[who]
            db = db._replace(last=put(db.last, who, asked.n))
    won = wins(how, db, asked)
    db = db._replace(answers=put(db.answers, who, won))
    return (apply(how, db, asked) if won else db), won


def apply(how: str, db: Shelf, asked: Request) -> Shelf:
    broken = ""
    if how.startswith("blind"):
        mine = {each.version for each in db.applied if each.who == asked.who}
        if asked.who in db.told and db.version not in mine:
            broken = "B a blind set overwrites a newer one after it was answered"
    elif asked in db.applied:
        broken = "D a swap is applied twice"
    elif asked.writing != db.writing:
        broken = "U a swap replaces what its maker did not see"
    after = db._replace(applied=db.applied | {asked}, broken=db.broken or broken)
    return write(after, asked.version, asked.content + 1)


def write(db: Shelf, version: int, content: int) -> Shelf:
    broken = db.broken or ("V a version is used twice" if version in db.used else "")
    number = db.written + 1
    return db._replace(
        version=version, content=content, writing=number, written=number, used=db.used | {version}, broken=broken
    )


def reserve(how: str, db: Shelf) -> tuple[Shelf, int]:
    if how == "restarting-counter":
        return db, db.version + 1
    return db._replace(reserved=db.reserved + 1), db.reserved


def put(pair: tuple[T, T], at: int, new: T) -> tuple[T, T]:
    return (new, pair[1]) if at == ANN else (pair[0], new)


# who sends it


def client(how: str, who: int) -> Script[Shelf]:
    """Reads, swaps, begins again if that was lost; without an answer, sends the same once more."""

    def read(db: Shelf, _note: Note) -> Answers:
        if who in db.told or db.waits(who) or db.lock or (who == ANN and db.gave_up):
            return []
        after, version = reserve(how, db)
        seen = None if how.startswith("blind") else db.version
        asked = Request(who, db.last[who] + 1, version, seen, db.content, db.writing)
        return [(after._replace(lock=NAMES[who] if how == "locked" else ""), asked)]

    def look(db: Shelf, asked: Note) -> Answers:
        return [(db, asked._replace(seen=None) if wins(how, db, asked) else QUIT)]

    def send(db: Shelf, asked: Note) -> Answers:
        if db.waits(who):
            return []
        found = [hear(asked, *arrive(how, db, asked))]
        if who == ANN and how in LOSING and db.loses:
            lost = db._replace(loses=False)
            found += [(arrive(how, lost, asked)[0], asked), (lost._replace(late=asked), asked)]
        return found

    def send_again(db: Shelf, asked: Note) -> Answers:
        if how == "blind-as-new":
            db, version = reserve(how, db)
            asked = asked._replace(version=version)
        if how == "number-read" and db.stale(asked):
            return [hear(asked, db, db.answers[who])]
        return [hear(asked, *arrive(how, db, asked))]

    def give_up(db: Shelf, _note: Note) -> Answers:
        return [(db._replace(gave_up=True), QUIT)]

    def hear(asked: Request, db: Shelf, won: bool) -> tuple[Shelf, Note]:
        wrong = "" if won == (asked in db.applied) else "W a swap happened, and its client is told that it was lost"
        return db._replace(told=db.told | {who} if won else db.told, lock="", broken=db.broken or wrong), QUIT

    steps = [Statement("reads the value and reserves a version", read), Statement("swaps", send)]
    if how == "look-first":
        steps.insert(1, Statement("looks whether its version still stands", look))
    elif how in LOSING and who == ANN:
        without_answer = (
            Statement("gives up", give_up) if how == "given-up" else Statement("sends it again", send_again)
        )
        steps.append(without_answer)
    return Script(NAMES[who], tuple(steps), repeats=True)


def carol(how: str) -> Script[Shelf]:
    def change(db: Shelf, _note: Note) -> Answers:
        if db.changes == CHANGES or db.lock:
            return []
        db = db._replace(changes=db.changes + 1)
        if db.version:
            return [(db._replace(version=0, content=0, writing=0), None)]
        db, version = reserve(how, db)
        return [(write(db, version, 0), None)]

    return Script("Carol", (Statement("deletes the value, or makes it anew", change, fault=True),), repeats=True)


def network(how: str) -> Script[Shelf]:
    def deliver(db: Shelf, _note: Note) -> Answers:
        return [] if db.late is None else [(arrive(how, db._replace(late=None), db.late)[0], None)]

    return Script("network", (Statement("delivers the lost request of Ann late", deliver, fault=True),))


def fault() -> Script[Shelf]:
    def freeze(db: Shelf, _note: Note) -> Answers:
        return [(db._replace(frozen=True), None)]

    def thaw(db: Shelf, _note: Note) -> Answers:
        return [(db._replace(frozen=False), None)]

    return Script("Ann", (Statement("is frozen", freeze, fault=True), Statement("thaws", thaw, fault=True)))


def model(how: str) -> Interleaved[Shelf]:
    scripts = [client(how, ANN), client(how, BOB), carol(how)]
    scripts += [network(how)] if how in LOSING else []
    scripts += [fault()] if how in FREEZING else []
    return Interleaved(Shelf(), tuple(scripts), judge, at_rest)


CASES = tuple(
    Case(f"swap/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("versions", "", "A swap names the version that it saw, and happens only if that one still stands."),
        (
            "sent-again",
            "",
            "Without an answer, the same swap is sent under the same number, which its transaction uses.",
        ),
        ("given-up", "", "A swap that its client gave up may arrive at any time: it happens once, on what it saw."),
        ("frozen", "", "A client that is frozen between its read and its swap holds nothing up."),
        ("blind", "", "A set that looks at nothing is numbered as well, so that it does not arrive after its answer."),
        (
            "compare-values",
            "U",
            "Compare what is stored: deleted and made anew with the same content, it looks the same.",
        ),
        ("restarting-counter", "V", "Count versions for each name: after a delete the count begins again."),
        ("look-first", "U", "Decide from a read of its own, then write: somebody swaps between."),
        ("unnumbered", "W", "Send it again without a number, as it cannot win twice: it loses against itself."),
        ("number-read", "D", "Look whether the number was used, and do not use it up: the late copy wins as well."),
        ("blind-as-new", "B", "Repeat a set as a new verb, as it says the same: the late copy overwrites a newer one."),
        ("locked", "L", "Lock the value from the read to the swap: a client that is frozen holds up all others."),
    )
)
