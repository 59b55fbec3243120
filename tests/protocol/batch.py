"""One commit of two claims, one of them void, both with a child of the same key: which copy survives? (P3, keys.)

Claims A and B are committed in one batch; B may have been reaped; both spawned a child under the once-key k, and the
second attempt of B fails for good. Checked: S2 whoever is done has its child, S1 one task per key, L both end.

Limits: two claims, one key; keys across commits are `dedupe`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import Interleaved, Note, Script, Statement

Answers = list[tuple["Batch", Note]]


class Batch(NamedTuple):
    b_void: bool = False
    a_done: bool = False
    b_done: bool = False
    b_failed: bool = False
    k: int = 0  #: tasks that exist under the key


def judge(db: Batch) -> str:
    if db.k > 1:
        return "S1 two tasks under one once-key"
    return "S2 A is done and its child does not exist" if db.a_done and not db.k else ""


def worker(first_dedupes: bool) -> Script[Batch]:
    def commit(db: Batch, _note: Note) -> Answers:
        valid = ["A"] if db.b_void else ["A", "B"]
        copies = ["B"] if first_dedupes else ["A", "B"]  # before the guards nobody knows that B's copy will be refused
        created = any(copy in valid for copy in copies)
        return [(db._replace(a_done=True, b_done=not db.b_void, k=db.k + created), None)]

    return Script("worker", (Statement("commits A and B", commit),))


def reaper() -> Script[Batch]:
    def void(db: Batch, _note: Note) -> Answers:
        return [] if db.b_done else [(db._replace(b_void=True), None)]

    return Script("reaper", (Statement("voids B", void, fault=True),))


def successor() -> Script[Batch]:
    def fail(db: Batch, _note: Note) -> Answers:
        return [(db._replace(b_failed=True), None)] if db.b_void else []

    return Script("successor", (Statement("runs B again: it fails for good", fail),))


def model(how: str) -> Interleaved[Batch]:
    scripts = (worker(how == "before-guard"), reaper(), successor())
    return Interleaved(Batch(), scripts, judge, lambda db: db.a_done and (db.b_done or db.b_failed))


CASES = tuple(
    Case(f"batch/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("after-guard", "", "Keys are resolved in the store, after the tokens have been compared."),
        ("before-guard", "S2", "Drop duplicates before the guards: the copy that was kept may be in the refused part."),
    )
)
