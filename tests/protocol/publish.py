"""Publications: from a task with its end, from outside, and on to the tasks of a reader (`ramify.model.topic`).

Ann holds a task that publishes; she may be killed in the middle of her commit, or taken for dead, so that Dan runs it
again. Bob publishes from outside, and may lose the answer. Pam and Pat pump: they read what comes after the cursor, and
move it and add a task for each publication. Checked: E the publication of the task is there exactly if its end is, S a
publication is there once, U no number is used twice, G no number shows before those below it, so that no reader passes
any, H each publication is handled, and once, L all of that comes to an end.

Limits: one topic, one reader, two publications, one death, one lost answer. That several topics are taken in one order
is not modelled, nor are values that swap with the publications; those are in `swap_part`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Book", Note]]
BOTH = 2  #: publications that there are in the end


class Book(NamedTuple):
    last: int = 0  #: the last number of the topic
    lock: str = ""  #: who has its row
    there: tuple[tuple[int, str], ...] = ()  #: what was published: the number, and by whom
    gone: bool = False  #: the first of it has expired, and was removed
    holder: str = "Ann"  #: whose token is valid
    claim: str = ""  #: who has the row of the claim
    ends: int = 0  #: of the task
    used: bool = False  #: the number of Bob's verb
    told: bool = False  #: Bob knows that it is done
    loses: bool = True  #: an answer may still be lost
    cursor: int = 0
    handled: tuple[int, ...] = ()
    broken: str = ""


def judge(db: Book) -> str:
    by = [who for _, who in db.there]
    if by.count("task") > 1 or by.count("Bob") > 1:
        return "S a publication is there twice"
    if len({number for number, _ in db.there}) < len(db.there):
        return "U a number is used twice"
    if db.ends != by.count("task"):
        return "E the end of a task and its publication did not happen together"
    return db.broken or ("H a publication is handled twice" if len(set(db.handled)) < len(db.handled) else "")


def at_rest(db: Book) -> bool:
    return bool(db.ends) and db.told and len(db.handled) == BOTH and len(db.there) == BOTH


def publish(db: Book, number: int, who: str) -> Book:
    highest = max((each for each, _ in db.there), default=0)
    broken = db.broken or ("" if number == highest + 1 else "G a number shows, and not the one below it")
    return db._replace(last=max(db.last, number), there=(*db.there, (number, who)), broken=broken)


def taken(how: str, db: Book, who: str) -> Answers:
    """The next number; in earnest with the row that it is in, until the transaction is over."""
    if how == "unlocked":
        return [(db, db.last + 1)]
    if how == "number-before":
        return [(db._replace(last=db.last + 1), db.last + 1)]
    if how == "from-what-is-kept":
        kept = [number for number, _ in db.there[db.gone :]]
        return [] if db.lock else [(db._replace(lock=who), max(kept, default=0) + 1)]
    return [] if db.lock else [(db._replace(lock=who), db.last + 1)]


# who publishes


def worker(how: str, name: str) -> Script[Book]:
    """Runs the task while it holds it: a guard, the number, the rest and COMMIT."""

    def guard(db: Book, _note: Note) -> Answers:
        if db.holder != name or db.claim or db.ends:
            return []
        return [(db._replace(claim=name), None)]

    def take(db: Book, _note: Note) -> Answers:
        return taken(how, db, name) if db.claim == name or how == "number-before" else [(db, QUIT)]

    def commit(db: Book, number: Note) -> Answers:
        if db.claim != name:
            return [(db, QUIT)]
        return [(end(publish(db, number, "task"))._replace(lock=""), QUIT)]

    def end(db: Book) -> Book:
        return db._replace(ends=db.ends + 1, claim="", holder="")

    def publish_alone(db: Book, number: Note) -> Answers:
        return [(publish(db, number, "task")._replace(lock=""), None)] if db.claim == name else [(db, QUIT)]

    def end_alone(db: Book, _note: Note) -> Answers:
        return [(end(db), QUIT)] if db.claim == name else [(db, QUIT)]

    def unguarded(db: Book, number: Note) -> Answers:
        after = publish(db, number, "task")._replace(lock="")
        return [(end(after) if db.claim == name else after, QUIT)]

    guarding, numbering = Statement("locks its claim", guard), Statement("takes a number", take)
    committing: tuple[Statement[Book], ...] = (Statement("publishes and ends, COMMIT", commit),)
    match how:
        case "number-before":
            guarding, numbering = numbering, guarding

            def keep(db: Book, number: Note) -> Answers:
                return [(after, number) for after, _ in guard(db, None)]

            numbering = Statement("locks its claim", keep)
        case "publish-first":
            committing = (Statement("publishes, COMMIT", publish_alone), Statement("ends, COMMIT", end_alone))
        case "before-guard":
            committing = (Statement("publishes, and ends if it holds the task, COMMIT", unguarded),)
    return Script(name, (guarding, numbering, *committing), repeats=name == "Dan")


def reaper() -> Script[Book]:
    def reap(db: Book, _note: Note) -> Answers:
        """The connection of the dead is gone, and all that it had locked is free."""
        if db.holder != "Ann":
            return []
        lock = "" if db.lock == "Ann" else db.lock
        return [(db._replace(holder="Dan", claim="", lock=lock), None)]

    return Script("reaper", (Statement("voids the claim of Ann, and Dan takes it", reap, fault=True),))


def bob(how: str) -> Script[Book]:
    """Publishes from outside, and sends it again until he is answered."""

    def take(db: Book, _note: Note) -> Answers:
        return [] if db.told else taken(how, db, "Bob")

    def commit(db: Book, number: Note) -> Answers:
        after = db if db.used and how != "unnumbered" else publish(db, number, "Bob")
        after = after._replace(used=True, lock="")
        lost = [(after._replace(loses=False), QUIT)] if db.loses else []
        return [(after._replace(told=True), QUIT), *lost]

    numbering = Statement("takes a number", take)
    return Script("Bob", (numbering, Statement("publishes, COMMIT", commit)), repeats=True)


# who reads


def pump(how: str, name: str) -> Script[Book]:
    def read(db: Book, _note: Note) -> Answers:
        found = tuple(sorted(number for number, _ in db.there if number > db.cursor))
        return [(db, (db.cursor, found))] if found else []

    def swap(db: Book, note: Note) -> Answers:
        seen, found = note
        if seen != db.cursor and how != "blind-cursor":
            return [(db, QUIT)]
        return [(db._replace(cursor=found[-1], handled=db.handled + found), QUIT)]

    def move(db: Book, note: Note) -> Answers:
        seen, found = note
        return [(db._replace(cursor=found[-1]), note)] if seen == db.cursor else [(db, QUIT)]

    def add(db: Book, note: Note) -> Answers:
        after = db._replace(handled=db.handled + note[1])
        killed = [(db, QUIT)] if how == "cursor-first" else []
        return [(after, note), *killed]

    reading = Statement("reads what comes after the cursor", read)
    moving, adding = Statement("moves the cursor, COMMIT", move), Statement("adds tasks, COMMIT", add)
    match how:
        case "cursor-first":
            return Script(name, (reading, moving, adding), repeats=True)
        case "tasks-first":
            return Script(name, (reading, adding, moving), repeats=True)
    return Script(name, (reading, Statement("moves the cursor and adds tasks, COMMIT", swap)), repeats=True)


def vacuum() -> Script[Book]:
    def remove(db: Book, _note: Note) -> Answers:
        return [(db._replace(gone=True), None)] if db.cursor else []

    return Script("vacuum", (Statement("removes what has expired", remove),))


def model(how: str) -> Interleaved[Book]:
    scripts = worker(how, "Ann"), worker(how, "Dan"), reaper(), bob(how), pump(how, "Pam"), pump(how, "Pat"), vacuum()
    return Interleaved(Book(), scripts, judge, at_rest)


CASES = tuple(
    Case(f"publish/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("together", "", "Take the number last, in the transaction of the end, and keep its row until COMMIT."),
        ("number-before", "G", "Take the number before the transaction: one above it commits first, and is read."),
        ("unlocked", "U", "Read the last number and lock nothing: two publish under the same one."),
        ("publish-first", "E", "Publish in a transaction before the end: a kill between, and it is published again."),
        ("before-guard", "E", "Publish before the token is compared: the part is refused, and it is published."),
        ("unnumbered", "S", "Send a verb again that has no number: it publishes once more."),
        ("from-what-is-kept", "U", "Number by what is kept: what has expired gives its number to another."),
        ("cursor-first", "L", "Move the cursor, then add the tasks: a kill between, and nobody handles them."),
        ("tasks-first", "H", "Add the tasks, then move the cursor: two who pump add them twice."),
        ("blind-cursor", "H", "Move the cursor without a look at where it is: two who pump add the tasks twice."),
    )
)
