"""Cancel of one task while another process claims it (the task case of P6).

Checked: S1 one terminal event, S6 a task cancelled "for certain" never runs, L it ends one way or the other.

Limits: one task, one cancel; that marks reach tasks claimed later is in `core`, where claims and cancels are atomic.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Task", Note]]


class Task(NamedTuple):
    live: bool = True  #: its bit is set in a live row
    claimed: bool = False
    mark: bool = False  #: cancel was asked for
    ends: tuple[str, ...] = ()
    certain: bool = False  #: ghost: cancel() answered that it will certainly not run
    lock: str = ""


def judge(db: Task) -> str:
    if len(db.ends) > 1:
        return f"S1 two terminal events: {' and '.join(db.ends)}"
    return "S6 the task ran although its cancel was certain" if db.certain and "done" in db.ends else ""


def cancel(locks: bool) -> Script[Task]:
    def look(db: Task, _note: Note) -> Answers:
        if not locks:
            return [(db, db.claimed)]
        return [] if db.lock else [(db._replace(lock="cancel"), db.claimed)]

    def write(db: Task, claimed: Note) -> Answers:
        after = db._replace(lock="" if locks else db.lock)
        if locks and not db.live:
            return [(after, None)]
        if claimed:
            return [(after._replace(mark=True), None)]
        return [(after._replace(live=False, certain=True, ends=(*db.ends, "cancelled")), None)]

    reading = "locks the row and looks" if locks else "reads"
    return Script("cancel", (Statement(f"{reading}: is it claimed?", look), Statement("writes, COMMIT", write)))


def worker() -> Script[Task]:
    def claim(db: Task, _note: Note) -> Answers:
        if db.lock:
            return []
        return [(db._replace(claimed=True), db.mark)] if db.live else [(db, QUIT)]

    def commit(db: Task, told: Note) -> Answers:
        if db.lock:
            return []
        return [(db._replace(live=False, ends=(*db.ends, "cancelled" if told else "done")), None)]

    return Script("worker", (Statement("claims, COMMIT", claim), Statement("ends it, COMMIT", commit)))


def model(how: str) -> Interleaved[Task]:
    return Interleaved(Task(), (cancel(how == "locked"), worker()), judge, lambda db: bool(db.ends))


CASES = tuple(
    Case(f"cancel-task/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("locked", "", "Lock the covering row; unclaimed, end it there and then; claimed, leave a mark."),
        (
            "look-then-write",
            "S1",
            "Read that it is unclaimed, then write Cancelled: it may be claimed and done between.",
        ),
    )
)
