"""A task that has an heir is reopened, while the heir may be unfinished, or be reopened itself (P9).

Checked: F the fan-in behind the task fires for nobody but the heir of its present life, L it fires in the end.

Limits: one task, one heir a life, two lives; keys and runs are in `reopen`, slots and instances in `join`. That an heir
from before is replaced with all that the task made is in `edition`; here it goes on, and the fan-in is safe as is.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Place", Note]]


class Place(NamedTuple):
    life: int = 1  #: of the task
    done: bool = True  #: the task, in that life
    heirs: tuple[int, ...] = (1,)  #: those that arrive in its place, by the life that named them
    open: tuple[int, ...] = (1,)  #: those that have not ended
    fired_for: int = 0  #: the heir for which the fan-in fired


def judge(db: Place) -> str:
    early = db.fired_for and (db.fired_for != db.life or not db.done)
    return "F the fan-in fired for what is done anew" if early else ""


def arrive(db: Place, heir: int) -> Place:
    after = db._replace(open=tuple(each for each in db.open if each != heir))
    return after._replace(fired_for=heir) if heir in db.heirs and not db.fired_for else after


def ends(heir: int) -> Script[Place]:
    def end(db: Place, _note: Note) -> Answers:
        return [(arrive(db, heir), None)] if heir in db.open else []

    return Script(f"heir {heir}", (Statement("ends, COMMIT", end),), repeats=True)


def reopener(takes_back: bool) -> Script[Place]:
    def reopen(db: Place, _note: Note) -> Answers:
        return [(db._replace(life=2, done=False, heirs=() if takes_back else db.heirs, fired_for=0), None)]

    return Script("person", (Statement("reopens the task and what follows it, COMMIT", reopen, fault=True),))


def second_reopener() -> Script[Place]:
    """Somebody else reopens the first heir, once it has ended, with what follows it."""

    def reopen(db: Place, _note: Note) -> Answers:
        if 1 in db.open:
            return [(db, QUIT)]
        after = db._replace(open=(*db.open, 1))
        return [(after._replace(fired_for=0) if 1 in db.heirs else after, None)]

    return Script("another person", (Statement("reopens its heir, COMMIT", reopen, fault=True),))


def worker() -> Script[Place]:
    def run(db: Place, _note: Note) -> Answers:
        if db.done:
            return []
        return [(db._replace(done=True, heirs=(*db.heirs, 2), open=(*db.open, 2)), None)]

    return Script("worker", (Statement("runs the new life, which names another heir, COMMIT", run),), repeats=True)


def model(how: str) -> Interleaved[Place]:
    scripts = (reopener(how != "keeps"), second_reopener(), worker(), ends(1), ends(2))
    return Interleaved(Place(), scripts, judge, at_rest)


def at_rest(db: Place) -> bool:
    return db.done and not db.open and db.fired_for == db.life


CASES = tuple(
    Case(f"heir/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("taken-back", "", "A reopened task takes its place back: an heir from before does not arrive any more."),
        ("keeps", "F", "Leave the place to the heir from before: it arrives for what is about to be done anew."),
    )
)
