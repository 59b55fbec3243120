"""A lock as one value that two processes change by swaps (`ramify.model.lock`, `ramify.coordination`).

Ann and Bob each hold it for a while. Whoever changes the state takes out a holder whose session has ended and grants to
the first in line, in the same swap; a fence is an id, and a state without fences takes a range of ids that was reserved
after the version it replaces was there. A free lock may expire. Checked: E no two grants have one fence, F no fence is
lower than one before, H nobody takes the lock from a session that lives and has not released it, L both come
through, without Ann if she is killed, declared dead, or gives up.

Limits: two processes, one holder at a time, two grants to Bob; who waits looks after the dead and swaps in one step,
for a swap that loses changes nothing and is made again.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Book", Note]]
ANN, BOB = 0, 1
NAMES = ("Ann", "Bob")
GRANTS = (1, 2)  #: to each, then it has had enough
FENCES = 2  #: ids in a range: so few that they are used up
NOBODY = -1


class State(NamedTuple):
    """The content of the value."""

    fence: int = 0
    end: int = 0
    holder: int = NOBODY
    line: tuple[int, ...] = ()

    @property
    def is_free(self) -> bool:
        return self.holder == NOBODY and not self.line


class Book(NamedTuple):
    version: int = 0  #: of the value; 0 without one
    state: State = State()
    versions: int = 0  #: that were used
    ids: int = 1  #: the next id that nobody has
    top: int = 0  #: ghost: the highest fence that was granted
    inside: tuple[int, ...] = ()  #: ghost: who was granted the lock and has not let it go
    had: tuple[int, int] = (0, 0)  #: grants that each is through with
    killed: bool = False  #: Ann
    frozen: bool = False  #: Ann
    over: bool = False  #: Ann's session
    gave_up: bool = False  #: Ann
    said: int = 0  #: the last number of Ann that was used up
    loses: bool = True  #: a connection may still be lost
    late: Ask | None = None  #: on its way over the connection that was lost
    expires: bool = True  #: a free lock may still expire
    broken: str = ""

    def waits(self, who: int) -> bool:
        return who == ANN and (self.frozen or self.killed)


class Ask(NamedTuple):
    """What Ann or Bob has seen, and the ids that were reserved since; `n` is the number of the verb."""

    who: int
    seen: int
    state: State
    first: int = 0
    n: int = 0


def judge(db: Book) -> str:
    return db.broken


def at_rest(db: Book) -> bool:
    is_ann_through = db.had[ANN] == GRANTS[ANN] or db.killed or db.over or db.frozen or db.gave_up
    return db.had[BOB] == GRANTS[BOB] and is_ann_through


# a change of the state


def without_the_dead(how: str, db: Book, state: State) -> State:
    is_dead = db.over or (how == "by-silence" and (db.frozen or db.killed))
    if not is_dead:
        return state
    holder = NOBODY if state.holder == ANN else state.holder
    return state._replace(holder=holder, line=tuple(who for who in state.line if who != ANN))


def granted(db: Book, state: State) -> tuple[Book, State]:
    """Grant to the first in line if nobody holds the lock; and what the grant breaks."""
    if state.holder != NOBODY or not state.line or state.fence + 1 >= state.end:
        return db, state
    who, fence, broken = state.line[0], state.fence + 1, db.broken
    if fence == db.top:
        broken = broken or "E two grants have one fence"
    if fence < db.top:
        broken = broken or "F a fence is lower than one before"
    inside = (*(each for each in db.inside if each != who), who)
    after = state._replace(fence=fence, holder=who, line=state.line[1:])
    return db._replace(top=max(db.top, fence), inside=inside, broken=broken), after


def write(db: Book, state: State) -> Book:
    robbed = [each for each in db.inside if each != state.holder and not (each == ANN and db.over)]
    if robbed:
        db = db._replace(broken=db.broken or "H the lock is taken from a session that has not ended")
    return db._replace(version=db.versions + 1, versions=db.versions + 1, state=state)


def change(how: str, db: Book, state: State) -> Book:
    db, state = granted(db, without_the_dead(how, db, state))
    return write(db, state)


# asking


def arrive(how: str, db: Book, asked: Ask) -> Book | None:
    """Carry out what somebody asked for; None if the session has ended, the number is old, or others came first."""
    if asked.who == ANN:
        if db.over or asked.n <= db.said:
            return None
        db = db._replace(said=asked.n)
    if asked.seen != db.version:
        return db
    state = asked.state
    if not asked.seen and how != "fences-at-once":
        return write(db, State())
    if asked.first:
        state = state._replace(fence=asked.first - 1, end=asked.first + FENCES)
    if asked.who not in (state.holder, *state.line):
        state = state._replace(line=(*state.line, asked.who))
    return change(how, db, state)


def client(how: str, who: int) -> Script[Book]:
    """Reads, asks, waits, holds, releases; begins again when its swap was lost."""

    def read(db: Book, _note: Note) -> Answers:
        if db.waits(who) or db.had[who] == GRANTS[who] or (who == ANN and (db.over or db.gave_up)):
            return []
        return [(db, Ask(who, db.version, db.state, n=db.said + 1 if who == ANN else 0))]

    def reserve(db: Book, asked: Ask) -> Answers:
        if db.waits(who):
            return []
        is_new = not asked.seen
        if (is_new and how != "fences-at-once") or asked.state.fence + 2 < asked.state.end:
            return [(db, asked)]
        if how == "from-one":
            return [(db, asked._replace(first=asked.state.end or 1))]
        return [(db._replace(ids=db.ids + FENCES), asked._replace(first=db.ids))]

    def ask(db: Book, asked: Ask) -> Answers:
        if db.waits(who):
            return []
        found: Answers = [(arrive(how, db, asked) or db, asked)]
        if who == ANN and how in LOSING and db.loses:
            lost = db._replace(loses=False)
            found += [(arrive(how, lost, asked) or lost, asked), (lost._replace(late=asked), asked)]
        return found

    def ask_again(db: Book, asked: Ask) -> Answers:
        return [] if db.waits(who) else [(arrive(how, db, asked) or db, asked)]

    def give_up(db: Book, asked: Ask) -> Answers:
        """Leave the line and the lock, or see that there is nothing to leave: then as a verb with a number."""
        if db.waits(who) or db.over:
            return []
        db = db._replace(gave_up=True, inside=tuple(each for each in db.inside if each != who))
        if who not in (db.state.holder, *db.state.line):
            return [(db if how == "leaves-by-read" else db._replace(said=max(db.said, asked.n + 1)), QUIT)]
        return [(change(how, db._replace(said=asked.n + 1), left(db.state, who)), QUIT)]

    def hold(db: Book, note: Note) -> Answers:
        if db.waits(who) or (who == ANN and db.over):
            return []
        if db.state.holder == who:
            return [(db, db.state)]
        return [] if who in db.state.line else [(db, QUIT)]

    def release(db: Book, seen: State) -> Answers:
        if db.waits(who):
            return []
        inside = tuple(each for each in db.inside if each != who)
        had = (db.had[ANN] + (who == ANN), db.had[BOB] + (who == BOB))
        db = db._replace(inside=inside, had=had)
        if how == "release-by-name":
            return [(change(how, db, db.state._replace(holder=NOBODY)), QUIT)]
        if how == "decided-before":
            return [(change(how, db, left(seen, who)), QUIT)]
        if who == ANN and db.over:
            return [(db, QUIT)]
        return [(change(how, db, left(db.state, who)), QUIT)]

    steps = [
        Statement("reads the lock", read),
        Statement("reserves fences if there are none left", reserve),
        Statement("asks, and is granted the lock if it is free", ask),
    ]
    if who == ANN and how == "sent-again":
        steps.append(Statement("asks again, for there was no answer", ask_again))
    if who == ANN and how in GIVING_UP:
        steps.append(Statement("gives up", give_up))
    else:
        steps += [Statement("holds the lock", hold), Statement("releases it to the first in line", release)]
    return Script(NAMES[who], tuple(steps), repeats=True)


def left(state: State, who: int) -> State:
    holder = NOBODY if state.holder == who else state.holder
    return state._replace(holder=holder, line=tuple(each for each in state.line if each != who))


# what happens besides


def waiter(how: str) -> list[Script[Book]]:
    """Bob, while he waits: he declares dead who is silent, and takes out whose session has ended."""

    def declare(db: Book, _note: Note) -> Answers:
        is_silent = db.killed or db.frozen
        return [(db._replace(over=True), None)] if BOB in db.state.line and is_silent and not db.over else []

    def look(db: Book, _note: Note) -> Answers:
        after = without_the_dead(how, db, db.state)
        return [(change(how, db, after), None)] if BOB in db.state.line and after != db.state else []

    declares = Script("Bob", (Statement("declares the silent dead", declare),), repeats=True)
    looks = Script("Bob", (Statement("takes out the dead, and is granted the lock", look),), repeats=True)
    return [looks] if how == "by-silence" else [declares, looks]


def network() -> Script[Book]:
    def deliver(db: Book, _note: Note) -> Answers:
        if db.late is None:
            return []
        emptied = db._replace(late=None)
        return [(arrive("", emptied, db.late) or emptied, None)]

    return Script("network", (Statement("delivers the lost request of Ann late", deliver, fault=True),))


def clock() -> Script[Book]:
    def expire(db: Book, _note: Note) -> Answers:
        if not db.expires or not db.version or not db.state.is_free:
            return []
        return [(db._replace(version=0, state=State(), expires=False), None)]

    return Script("clock", (Statement("a free lock expires", expire, fault=True),), repeats=True)


def fault(how: str) -> Script[Book]:
    def kill(db: Book, _note: Note) -> Answers:
        return [(db._replace(killed=True), QUIT)]

    def freeze(db: Book, _note: Note) -> Answers:
        return [(db._replace(frozen=True), None)]

    def thaw(db: Book, _note: Note) -> Answers:
        return [(db._replace(frozen=False), None)]

    if how in KILLING:
        return Script("Ann", (Statement("is killed", kill, fault=True),))
    return Script("Ann", (Statement("is frozen", freeze, fault=True), Statement("thaws", thaw, fault=True)))


LOSING = {"sent-again", "given-up", "leaves-by-read"}
GIVING_UP = {"given-up", "leaves-by-read"}
KILLING = {"killed", "nobody-looks"}
EXPIRING = {"expires", "from-one", "fences-at-once"}


def model(how: str) -> Interleaved[Book]:
    scripts = [client(how, ANN), client(how, BOB), fault(how)]
    scripts += [] if how == "nobody-looks" else waiter(how)
    scripts += [network()] if how in LOSING else []
    scripts += [clock()] if how in EXPIRING else []
    return Interleaved(Book(), tuple(scripts), judge, at_rest)


CASES = tuple(
    Case(f"lock/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("killed", "", "Who is killed, in line or with the lock, is taken out once its session has ended."),
        ("frozen", "", "Who is frozen is declared dead first; thawed, it finds that the lock is not its own."),
        ("sent-again", "", "Without an answer the same swap is sent again under the same number."),
        ("given-up", "", "Who gives up sends one more verb, so that what it sent before comes too late."),
        ("expires", "", "A free lock expires: its next value takes fences that were reserved when it was there."),
        ("from-one", "E", "Count the fences of a new value from one: a lock that expired begins again."),
        (
            "fences-at-once",
            "F",
            "Write a new value with fences that were reserved before: who was frozen in between brings old ones.",
        ),
        ("by-silence", "H", "Take the lock from who is silent, without ending its session: it thaws and goes on."),
        ("release-by-name", "H", "Release the lock whoever holds it: a late release takes it from the next one."),
        ("decided-before", "H", "Write the state that a release was decided on, unseen: a grant meanwhile is lost."),
        (
            "leaves-by-read",
            "L",
            "Give up when a read shows nothing to leave: the lost request arrives, and is granted.",
        ),
        ("nobody-looks", "L", "Wait to be woken by who releases: the holder is killed, and nobody is."),
    )
)
