"""Decisions that are delivered late: a pause after the resume that followed it, a cancel after a retry.

Ann decides, her connection is lost, and her request arrives at any time or never; she does not send it again. Bob looks
afterwards, and decides otherwise. Checked: S8 what was decided last is what holds. (The request that the store has not
seen yet must be overtaken too: Bob may find nothing to change.)

Limits: one late request, one decision after it; requests that are sent again are in `core`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import Interleaved, Note, Script, Statement

Answers = list[tuple["Run", Note]]


class Run(NamedTuple):
    paused: bool = False
    number: int = 0  #: of the last decision
    sent: bool = False  #: Ann's request is on its way
    after: int = 0  #: the number it names
    overruled: bool = False  #: ghost: Bob has decided after Ann
    life: int = 1  #: of the task
    failed: bool = True
    cancelled: int = 0  #: the life of the task that a cancel ended


def judge(db: Run) -> str:
    if db.overruled and db.paused:
        return "S8 the run is paused although it was resumed after that"
    return "S8 the cancel of one life ended the next" if db.cancelled > 1 else ""


def ann(how: str) -> Script[Run]:
    """She looks, and sends a pause; the request may arrive whenever it likes."""

    def send(db: Run, _note: Note) -> Answers:
        return [(db._replace(sent=True, after=db.number), None)]

    def arrive(db: Run, _note: Note) -> Answers:
        if not db.sent or (how != "at-any-time" and db.number != db.after):
            return [(db._replace(sent=False), None)]
        return [(db._replace(sent=False, paused=True, number=db.number + 1), None)]

    return Script(
        "Ann", (Statement("looks, and sends a pause", send), Statement("her pause arrives", arrive, fault=True))
    )


def bob(how: str) -> Script[Run]:
    """Somebody resumes the run once Ann has decided, whether or not her pause has arrived."""

    def resume(db: Run, _note: Note) -> Answers:
        if not db.sent and not db.paused:
            return []
        changes = db.paused or how != "changes-only"
        return [(db._replace(paused=False, overruled=True, number=db.number + changes), None)]

    return Script("Bob", (Statement("resumes the run", resume),))


def runs(how: str) -> Interleaved[Run]:
    return Interleaved(Run(), (ann(how), bob(how)), judge, lambda db: db.overruled)


def canceller(how: str) -> Script[Run]:
    """She cancels a task in its first life; the request arrives when it likes."""

    def send(db: Run, _note: Note) -> Answers:
        return [(db._replace(sent=True), None)]

    def arrive(db: Run, _note: Note) -> Answers:
        meant = how == "any-life" or db.life == 1
        return [(db._replace(cancelled=db.life) if meant and not db.failed else db, None)]

    steps = (Statement("sends the cancel of a task", send), Statement("her cancel arrives", arrive, fault=True))
    return Script("Ann", steps)


def retrier() -> Script[Run]:
    def reopen(db: Run, _note: Note) -> Answers:
        return [(db._replace(life=2, failed=False), None)] if db.failed else []

    return Script("Bob", (Statement("retries the task, which had failed", reopen),))


def tasks(how: str) -> Interleaved[Run]:
    return Interleaved(Run(), (canceller(how), retrier()), judge, lambda db: db.life > 1)


CASES = (
    *(
        Case(f"decide/{how}", partial(runs, how), why, breaks)
        for how, breaks, why in (
            ("numbered", "", "Each decision names the last one it has seen, and counts only if none was made since."),
            ("at-any-time", "S8", "Carry out a pause whenever it arrives: a run that was resumed stops again."),
            ("changes-only", "S8", "Number only what changes the run: a resume does not overtake a pause on its way."),
        )
    ),
    *(
        Case(f"decide-task/{how}", partial(tasks, how), why, breaks)
        for how, breaks, why in (
            ("one-life", "", "The cancel of a task names the life that is meant."),
            ("any-life", "S8", "Cancel whichever life the task is in: a retry that came later is cancelled."),
        )
    ),
)
