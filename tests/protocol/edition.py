"""A maker that has made two items is reopened, while they are worked on, cancelled and retried, around a crash (P10).

Checked: E nobody begins or comes to an end with an item of an old edition, once the reopen is committed; F the fan-in
fires for the newest edition and for nobody else; L it fires in the end.

Limits: two items, two lives of the maker; keys, marks and values of an edition are the stores' business, and so is what
heirs mean to the place of the maker: that is in `heir`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Map", Note]]
ITEMS = (0, 1)
READY, HELD, DONE, CANCELLED, REPLACED = "ready", "held", "done", "cancelled", "replaced"
ENDED = (DONE, CANCELLED)


class Map(NamedTuple):
    life: int = 1  #: of the maker; its newest edition has the same number
    made: int = 1  #: the newest edition that is there
    items: tuple[str, ...] = (READY, READY)  #: those of the first edition
    marked: tuple[bool, ...] = (False, False)  #: to be skipped by whoever claims it next
    new: tuple[str, ...] = ()  #: those of the second edition
    fired_for: int = 0  #: the edition for which the fan-in fired
    broken: str = ""  #: what has happened that must not


def judge(db: Map) -> str:
    if db.fired_for and db.fired_for != db.life:
        return "F the fan-in fired for what is made anew"
    return db.broken


def replace(items: tuple[str, ...], at: int, state: str) -> tuple[str, ...]:
    return (*items[:at], state, *items[at + 1 :])


def with_item(db: Map, edition: int, at: int, state: str) -> Map:
    """The same with an item in another state; when all of an edition have ended, the fan-in hears of it."""
    items = replace(db.items if edition == 1 else db.new, at, state)
    after = db._replace(items=items) if edition == 1 else db._replace(new=items)
    over = all(each in ENDED for each in items)
    # Its gathering task has handed the place of the maker on, as long as it is that of the present life.
    return after._replace(fired_for=edition) if over and edition == db.life and not db.fired_for else after


def worker(edition: int) -> Script[Map]:
    """Takes an item and runs it; what it holds may be put back by a crash in between."""

    def items(db: Map) -> tuple[str, ...]:
        return db.items if edition == 1 else db.new

    def claim(db: Map, _note: Note) -> Answers:
        found: Answers = []
        for at in ITEMS:
            if len(items(db)) <= at or items(db)[at] != READY:
                continue
            if edition == 1 and db.marked[at]:
                # It ends by its mark, without being run.
                found.append((db._replace(items=replace(db.items, at, REPLACED)), QUIT))
                continue
            broken = "E an item of an old edition is run" if edition < db.life else ""
            found.append((with_item(db, edition, at, HELD)._replace(broken=db.broken or broken), at))
        return found

    def finish(db: Map, at: Note) -> Answers:
        if items(db)[at] != HELD:
            return [(db, QUIT)]
        broken = "E an item is done for an old edition" if edition < db.life else ""
        done = with_item(db, edition, at, DONE)._replace(broken=db.broken or broken)
        crashed = with_item(db, edition, at, READY)
        return [(done, None), (crashed, None)]

    steps = (Statement("claims an item, COMMIT", claim), Statement("ends it, COMMIT; or dies and is reaped", finish))
    return Script(f"worker of edition {edition}", steps, repeats=True)


def maker() -> Script[Map]:
    def make(db: Map, _note: Note) -> Answers:
        return [] if db.made == db.life else [(db._replace(made=db.life, new=(READY, READY)), None)]

    return Script("worker", (Statement("runs the new life, which makes two items, COMMIT", make),), repeats=True)


def reopener(how: str) -> Script[Map]:
    """Begins the second life of the maker. The shortcuts leave its old items for a second transaction, or mark them."""

    def reopen(db: Map, _note: Note) -> Answers:
        if HELD in db.items and how != "held":
            return [(db, QUIT)]
        after = db._replace(life=2, fired_for=0)
        match how:
            case "at-once" | "revives":
                return [(after._replace(items=(REPLACED, REPLACED)), QUIT)]
            case "held":
                gone = tuple(each if each == HELD else REPLACED for each in db.items)
                return [(after._replace(items=gone), QUIT)]
            case "marks":
                # What has ended begins a life that ends by its mark.
                return [(after._replace(items=(READY, READY), marked=(True, True)), QUIT)]
            case _:
                return [(after, None)]

    def clean_up(db: Map, _note: Note) -> Answers:
        replaced = db._replace(items=tuple(each if each == HELD else REPLACED for each in db.items))
        return [(replaced, None), (db, QUIT)]

    first = Statement("reopens the maker, COMMIT", reopen, fault=True)
    second = Statement("replaces what it made, COMMIT; or dies before", clean_up)
    return Script("Ann", (first, second) if how == "afterwards" else (first,))


def meddler(revives: bool) -> Script[Map]:
    """Somebody else cancels an item that nobody holds, and tries it again: marks of before are gone with its end."""

    def cancel(db: Map, _note: Note) -> Answers:
        found: Answers = [(db, QUIT)]
        for at in ITEMS:
            if db.items[at] == READY:
                ended = with_item(db, 1, at, CANCELLED)
                found.append((ended._replace(marked=(*db.marked[:at], False, *db.marked[at + 1 :])), at))
        return found

    def retry(db: Map, at: Note) -> Answers:
        if db.items[at] != CANCELLED and not (revives and db.items[at] == REPLACED):
            return [(db, QUIT)]
        fired = 0 if db.fired_for == db.life == 1 else db.fired_for
        return [(with_item(db, 1, at, READY)._replace(fired_for=fired), None)]

    steps = (
        Statement("cancels an item, COMMIT", cancel, fault=True),
        Statement("tries it again, COMMIT", retry, fault=True),
    )
    return Script("Bob", steps)


def model(how: str) -> Interleaved[Map]:
    return Interleaved(Map(), (reopener(how), meddler(how == "revives"), maker(), worker(1), worker(2)), judge, at_rest)


def at_rest(db: Map) -> bool:
    newest = db.items if db.life == 1 else db.new
    return db.made == db.life and all(each in ENDED for each in newest) and db.fired_for == db.life


CASES = tuple(
    Case(f"edition/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("at-once", "", "Reopen ends what the maker made in its own transaction, unless somebody holds some of it."),
        ("afterwards", "E", "Replace it in a second transaction: before that, or after a crash, an old item runs."),
        ("marks", "E", "Mark old items to be skipped: the cancel and the retry of one of them overtake its mark."),
        ("revives", "E", "Retry whatever has ended: an old item that was replaced meanwhile comes back."),
        ("held", "E", "Reopen while an item is held: it is done once for the old edition, and once for the new."),
    )
)
