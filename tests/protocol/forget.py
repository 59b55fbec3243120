"""A run is forgotten in two pages, while somebody reads its results, opens it again, or waits for one of its tasks.

Checked: F a reader is never given half a run as a whole one, W nobody waits for a task that is gone, S3 no life begins
in a run of which something is gone, L what was begun is finished, also by somebody else after a kill.

Limits: two tasks, one task a page, one of each who comes; which tasks may go is decided by pure functions.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Log", Note]]
TASKS = 2


class Log(NamedTuple):
    tasks: int = TASKS  #: how many are still there
    forgotten: bool = False
    open: bool = False  #: somebody has opened the run again
    waits: bool = False  #: a task of another run has one of its results, and may ask for it
    half: bool = False  #: ghost: a reader took what it read for all there is
    begun: bool = False


def judge(db: Log) -> str:
    if db.half:
        return "F half a run was read as a whole one"
    if db.open and db.tasks < TASKS:
        return "S3 a run is open of which something is gone"
    return "W somebody waits for a task that is gone" if db.waits and db.tasks < TASKS else ""


def forgetter(marks_first: bool, checks_in_page: bool) -> Script[Log]:
    """Removes one page; it may be killed after each, and whoever comes next goes on."""

    def look(db: Log, _note: Note) -> Answers:
        # Judged from a read of its own, the page is removed whatever has happened since.
        return [(db, checks_in_page or not (db.open or db.waits))]

    def remove(db: Log, may: Note) -> Answers:
        needed = (db.open or db.waits) if checks_in_page and not db.begun else not may
        if needed or not db.tasks:
            return [(db, QUIT)]
        left = db.tasks - 1
        return [(db._replace(tasks=left, forgotten=marks_first or not left, begun=True), None)]

    steps = (Statement("looks", look), Statement("removes a page, COMMIT", remove))
    return Script("forgetter", steps, repeats=True)


def reader() -> Script[Log]:
    """Reads all results in one snapshot, and asks in it whether the run is whole."""

    def read(db: Log, _note: Note) -> Answers:
        return [(db._replace(half=not db.forgotten and db.tasks < TASKS), None)]

    return Script("reader", (Statement("reads the results", read, fault=True),))


def opener() -> Script[Log]:
    def reopen(db: Log, _note: Note) -> Answers:
        return [(db, QUIT)] if db.forgotten else [(db._replace(open=True), None)]

    def end(db: Log, _note: Note) -> Answers:
        return [(db._replace(open=False), None)]

    steps = (Statement("opens the run again", reopen, fault=True), Statement("ends it, COMMIT", end))
    return Script("opener", steps)


def waiter() -> Script[Log]:
    def wait(db: Log, _note: Note) -> Answers:
        return [(db, QUIT)] if db.forgotten or not db.tasks else [(db._replace(waits=True), None)]

    def go(db: Log, _note: Note) -> Answers:
        return [(db._replace(waits=False), None)]

    steps = (Statement("waits for a task of it", wait, fault=True), Statement("is forgotten itself, COMMIT", go))
    return Script("waiter", steps)


def model(how: str) -> Interleaved[Log]:
    scripts = (forgetter(how != "mark-last", how != "look-then-remove"), reader(), opener(), waiter())
    return Interleaved(Log(), scripts, judge, lambda db: not db.tasks)


CASES = tuple(
    Case(f"forget/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("mark-first", "", "The first page judges and marks the run in its own transaction; all others ask the mark."),
        ("mark-last", "F", "Mark the run when all of it is gone: in between, half a run looks like a whole one."),
        ("look-then-remove", "S3", "Judge from a read, then remove: the run may be open again by then."),
    )
)
