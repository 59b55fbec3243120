"""A process frozen inside a transaction of a server: who waits, and for how long? (P11)

p0 is frozen at any point of its transaction; p1 needs a row that p0 may have locked, and so does the reaper, which has
to re-offer p0's task. L: both tasks end, although p0 never thaws. Checked beside it: S1 no task ends twice.

A client frozen between statements can be ended by the server's idle limit; frozen inside COPY it can not, only by
ending its backend. Limits: one lock stands for all rows that others need; a lock is dropped with its transaction. On a
local file there is no server to do this: everybody waits for the thaw or the kill, which is safe, and not modelled.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Server", Note]]


class Server(NamedTuple):
    lock: str = ""
    where: str = ""  #: what the server sees of p0: "", "idle" in a transaction, "copy"
    frozen: bool = False
    cut: bool = False  #: p0's transaction was ended by somebody else, and p0 does not know yet
    token_valid: bool = True
    settled: bool = False  #: p0 has read the answer to its COMMIT
    ends_of_0: int = 0
    ends_of_1: int = 0

    def dropped(self) -> Server:
        return self._replace(lock="" if self.lock == "p0" else self.lock, where="", cut=True)


def judge(db: Server) -> str:
    return "S1 a task ended twice" if db.ends_of_0 > 1 or db.ends_of_1 > 1 else ""


def p0(copy_first: bool, one_trip: bool) -> Script[Server]:
    """COPY needs the client all the way; the guarded part can be sent with COMMIT in one round trip.

    A transaction that was ended meanwhile is begun again, as P1 asks for.
    """

    def copy(db: Server, _note: Note) -> Answers:
        return _unless_cut(db, db._replace(where="copy"))

    def take_lock(db: Server, _note: Note) -> Answers:
        if db.lock and not db.cut:
            return []
        return _unless_cut(db, db._replace(lock="p0", where="idle"))

    def commit(db: Server, _note: Note) -> Answers:
        written = db._replace(where="", lock="", ends_of_0=db.ends_of_0 + db.token_valid, settled=True)
        return _unless_cut(db, written)

    def lock_and_commit(db: Server, _note: Note) -> Answers:
        return [] if db.lock and not db.cut else commit(db, None)

    copying, locking = Statement("COPY", copy), Statement("locks and guards", take_lock)
    steps: tuple[Statement[Server], ...]
    if one_trip:
        steps = (copying, Statement("locks, guards, COMMIT in one trip", lock_and_commit))
    elif copy_first:
        steps = (copying, locking, Statement("COMMIT", commit))
    else:
        steps = (locking, copying, Statement("COMMIT", commit))
    return Script("p0", steps, repeats=True)


def _unless_cut(db: Server, after: Server) -> Answers:
    if db.frozen or db.settled:
        return []
    return [(db._replace(cut=False), QUIT)] if db.cut else [(after, None)]


def fault() -> Script[Server]:
    def freeze(db: Server, _note: Note) -> Answers:
        return [] if db.ends_of_0 else [(db._replace(frozen=True), None)]

    def thaw(db: Server, _note: Note) -> Answers:
        return [(db._replace(frozen=False), None)]

    return Script("p0", (Statement("is frozen", freeze, fault=True), Statement("thaws", thaw, fault=True)))


def p1() -> Script[Server]:
    def commit(db: Server, _note: Note) -> Answers:
        return [] if db.lock else [(db._replace(ends_of_1=db.ends_of_1 + 1), None)]

    return Script("p1", (Statement("locks, guards, COMMIT in one trip", commit),))


def reaper(ends_backends: bool) -> Script[Server]:
    def end_backend(db: Server, _note: Note) -> Answers:
        if not db.frozen:
            return []
        return [(db.dropped() if ends_backends else db, None)]

    def reap(db: Server, _note: Note) -> Answers:
        if not db.token_valid or db.ends_of_0:
            return [(db, QUIT)]
        return [] if db.lock else [(db._replace(token_valid=False), None)]

    def run_again(db: Server, _note: Note) -> Answers:
        return [] if db.lock else [(db._replace(ends_of_0=db.ends_of_0 + 1), None)]

    first = "ends the backend of the silent p0" if ends_backends else "finds p0 silent"
    steps = (
        Statement(first, end_backend),
        Statement("voids its claim", reap),
        Statement("another process runs the task again", run_again),
    )
    return Script("reaper", steps)


def idle_limit() -> Script[Server]:
    def fire(db: Server, _note: Note) -> Answers:
        return [(db.dropped(), None)] if db.frozen and db.where == "idle" else []

    return Script("server", (Statement("ends the idle transaction", fire),))


def model(how: str) -> Interleaved[Server]:
    scripts = [fault(), p1()]
    match how:
        case "no-limit":
            scripts += [p0(copy_first=True, one_trip=False), reaper(ends_backends=False)]
        case "limit":
            scripts += [p0(copy_first=True, one_trip=False), reaper(ends_backends=False), idle_limit()]
        case "lock-then-copy":
            scripts += [p0(copy_first=False, one_trip=False), reaper(ends_backends=False), idle_limit()]
        case "lock-then-copy-ended":
            scripts += [p0(copy_first=False, one_trip=False), reaper(ends_backends=True)]
        case _:
            scripts += [p0(copy_first=True, one_trip=True), reaper(ends_backends=False)]
    return Interleaved(Server(), tuple(scripts), judge, lambda db: bool(db.ends_of_0 and db.ends_of_1))


CASES = tuple(
    Case(f"open-transaction/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("one-trip", "", "COPY first, without locks; then guard and COMMIT in one round trip."),
        ("limit", "", "Locks held between round trips are safe when the server ends idle transactions."),
        ("lock-then-copy-ended", "", "Even locks held over COPY are safe when the reaper ends the backend."),
        (
            "no-limit",
            "L",
            "Hold locks between round trips and let nothing end the transaction: everybody waits for ever.",
        ),
        ("lock-then-copy", "L", "Hold locks over COPY: a client frozen in COPY is not idle, so no limit ends it."),
    )
)
