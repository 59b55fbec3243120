"""Two people reopen the same failed task, while its unique key may be taken by new work (P5).

Checked: S3 the new life is offered once, K at most one active task holds the key, L everything ends.

Limits: one failed task, one new task of the same key, two callers; rounds and ends of the run are in `core`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Lives", Note]]
OLD, NEW = "old", "new"


class Lives(NamedTuple):
    failed: bool = True  #: the old task's present life has failed
    rows: int = 0  #: live rows in which the old task is set
    key: str = ""  #: who holds the unique key
    new_active: bool = False
    finished: bool = False  #: the old task's later life has ended
    superseded: bool = False
    lock: str = ""  #: of the run


def judge(db: Lives) -> str:
    if db.rows > 1:
        return "S3 one life is offered twice"
    return "K two active tasks hold one key" if db.rows and db.new_active else ""


def caller(name: str, locks: bool, takes_key: bool) -> Script[Lives]:
    def look(db: Lives, _note: Note) -> Answers:
        if locks and db.lock:
            return []
        after = db._replace(lock=name if locks else db.lock)
        return [(after, db.failed)]

    def write(db: Lives, failed: Note) -> Answers:
        after = db._replace(lock="" if locks else db.lock)
        if not failed:
            return [(after, QUIT)]
        if takes_key and db.key not in ("", OLD):
            return [(after._replace(superseded=True), None)]
        return [(after._replace(failed=False, rows=db.rows + 1, key=OLD if takes_key else db.key), None)]

    looking = "locks the run, reads what failed" if locks else "reads what failed"
    return Script(name, (Statement(looking, look, fault=True), Statement("reopens it, COMMIT", write)))


def newcomer() -> Script[Lives]:
    """A new task of the same key is appended, and ends."""

    def append(db: Lives, _note: Note) -> Answers:
        return [(db, QUIT)] if db.key else [(db._replace(key=NEW, new_active=True), None)]

    def end(db: Lives, _note: Note) -> Answers:
        return [(db._replace(key="", new_active=False), None)]

    steps = (Statement("appends a task of the same key", append, fault=True), Statement("ends it, COMMIT", end))
    return Script("newcomer", steps)


def worker() -> Script[Lives]:
    def end(db: Lives, _note: Note) -> Answers:
        if not db.rows:
            return []
        return [(db._replace(rows=db.rows - 1, finished=True, key="" if db.key == OLD else db.key), None)]

    return Script("worker", (Statement("runs the new life, COMMIT", end),), repeats=True)


def model(how: str) -> Interleaved[Lives]:
    locks, takes_key = how != "no-lock", how != "no-key"
    scripts = (caller("caller 1", locks, takes_key), caller("caller 2", locks, takes_key), newcomer(), worker())
    return Interleaved(Lives(), scripts, judge, at_rest)


def at_rest(db: Lives) -> bool:
    return not db.rows and not db.new_active and not db.lock


CASES = tuple(
    Case(f"reopen/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("locked", "", "Reopen holds the run's lock and takes the key again, or reports who superseded the task."),
        ("no-lock", "S3", "Reopen what was read as failed, without the run's lock: two callers open one life twice."),
        ("no-key", "K", "Reopen without taking the key again: new work may hold it by now."),
    )
)
