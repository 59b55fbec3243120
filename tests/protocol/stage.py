"""A streamed fan-out: rows before publication, and who may remove them (P9).

A task streams two blocks of children, then commits; vacuum and reaper run beside it, and it may be frozen and thawed.
Checked: S2 published children have their rows, G no row is left that nothing lists as garbage, L all is settled.

Limits: one attempt (the re-offered task is another stream with other ids), two blocks, keys are resolved at publish and
not modelled. A killed process is a frozen one that never thaws.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case, members
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Stream", Note]]
BLOCKS = (1, 2)
ALL = sum(1 << block for block in BLOCKS)


class Stream(NamedTuple):
    rows: int = 0  #: blocks whose rows are in the log
    staged: int = 0  #: blocks under a `staged` segment
    garbage: int = 0  #: blocks under a `garbage` segment
    published: bool = False
    token_valid: bool = True
    frozen: bool = False
    over: bool = False  #: the streaming process has nothing more to send


def judge(db: Stream) -> str:
    if db.published and db.rows != ALL:
        return f"S2 the children of blocks {members(ALL & ~db.rows)} were published and their rows are gone"
    if db.over and not db.token_valid and db.rows & ~db.garbage:
        return f"G the rows of blocks {members(db.rows & ~db.garbage)} are garbage that nothing lists"
    return ""


def task(lists: bool, guards: bool) -> Script[Stream]:
    def append(block: int, db: Stream, _note: Note) -> Answers:
        if db.frozen:
            return []
        if guards and not db.token_valid:
            return [(db._replace(over=True), QUIT)]
        staged = db.staged | 1 << block if lists else 0
        return [(db._replace(rows=db.rows | 1 << block, staged=staged), None)]

    def publish(db: Stream, _note: Note) -> Answers:
        if db.frozen:
            return []
        return [(db._replace(over=True, published=db.token_valid, staged=0 if db.token_valid else db.staged), None)]

    blocks = (Statement(f"stages block {block}", partial(append, block)) for block in BLOCKS)
    return Script("task", (*blocks, Statement("commits: publishes both", publish)))


def vacuum(lists: bool) -> Script[Stream]:
    def remove(db: Stream, _note: Note) -> Answers:
        gone = db.garbage if lists else db.rows
        if not gone or (db.published and not lists):
            return []
        return [(db._replace(rows=db.rows & ~gone, garbage=db.garbage & ~gone), None)]

    return Script("vacuum", (Statement("removes garbage", remove),), repeats=True)


def fault() -> Script[Stream]:
    def freeze(db: Stream, _note: Note) -> Answers:
        return [] if db.over else [(db._replace(frozen=True), None)]

    def thaw(db: Stream, _note: Note) -> Answers:
        return [(db._replace(frozen=False), None)]

    return Script("process", (Statement("is frozen", freeze, fault=True), Statement("thaws", thaw, fault=True)))


def reaper() -> Script[Stream]:
    def reap(db: Stream, _note: Note) -> Answers:
        if not db.frozen:
            return []
        return [(db._replace(token_valid=False, garbage=db.garbage | db.staged, staged=0), None)]

    return Script("reaper", (Statement("voids the claim, turns staged into garbage", reap),))


def model(how: str) -> Interleaved[Stream]:
    lists, guards = how != "infer", how != "unguarded-append"
    scripts = (task(lists, guards), vacuum(lists), fault(), reaper())
    return Interleaved(Stream(), scripts, judge, settled)


def settled(db: Stream) -> bool:
    return db.published or (not db.token_valid and not db.rows)


CASES = tuple(
    Case(f"stage/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        (
            "guarded",
            "",
            "No row enters the log except under a staged segment and a valid token; vacuum follows the list.",
        ),
        (
            "infer",
            "S2",
            "Call rows garbage that no segment covers: vacuum removes a stream that is about to be published.",
        ),
        ("unguarded-append", "G", "Guard the publication only: a thawed task writes rows that nothing lists."),
    )
)
