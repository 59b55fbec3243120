"""When does a join fire? P8, asked statement by statement.

Members arrive at a join; when all have, the waiting task must be appended: once, not early, and whatever dies.
Checked: J1 it fires at most once, J2 not before every member of its present life has ended, L it fires.

Limits: one join, two members, one of which may be reopened before the join has fired (afterwards a reopen makes a new
instance, which is this model again); parts of 8,192 slots and `when` rules are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Join", Note]]


class Join(NamedTuple):
    needs: int = 2
    slots: int = 0  #: a bit per slot that has arrived
    arrivals: int = 0  #: how many, for the shortcuts that only count
    fired: int = 0
    ended: int = 0  #: ghost: members whose present life has ended
    members: int = 0b11  #: ghost: members that exist

    def fire_if(self, full: bool) -> Join:
        return self._replace(fired=self.fired + 1) if full else self


def judge(db: Join) -> str:
    if db.fired > 1:
        return "J1 the join fired twice"
    return "J2 the join fired before all its members had ended" if db.fired and db.members & ~db.ended else ""


def arrive_in_slot(db: Join, member: int) -> Join:
    """One UPDATE of the join row, in the commit that ends the member; the arrival that fills the join fires it."""
    after = db._replace(slots=db.slots | 1 << member, ended=db.ended | 1 << member)
    return after.fire_if(db.slots != after.slots and after.slots.bit_count() == after.needs)


def arrive_by_count(db: Join, member: int) -> Join:
    after = db._replace(arrivals=db.arrivals + 1, ended=db.ended | 1 << member)
    return after.fire_if(after.arrivals == after.needs)


def member(i: int, arrive: Callable[[Join, int], Join] = arrive_in_slot) -> Script[Join]:
    def commit(db: Join, _note: Note) -> Answers:
        return [(arrive(db, i), None)]

    return Script(f"member {i}", (Statement("ends and arrives, COMMIT", commit),))


def member_that_inserts_and_counts(i: int) -> Script[Join]:
    def count(db: Join, _note: Note) -> Answers:
        return [(db, (db.slots | 1 << i).bit_count())]

    def commit(db: Join, counted: Note) -> Answers:
        after = db._replace(slots=db.slots | 1 << i, ended=db.ended | 1 << i)
        return [(after.fire_if(counted == db.needs), None)]

    steps = (Statement("inserts its arrival and counts them", count), Statement("COMMIT", commit))
    return Script(f"member {i}", steps)


def member_that_fires_later(i: int) -> Script[Join]:
    def commit(db: Join, _note: Note) -> Answers:
        after = db._replace(slots=db.slots | 1 << i, ended=db.ended | 1 << i)
        return [(after, None if after.slots.bit_count() == after.needs else QUIT)]

    def fire(db: Join, _note: Note) -> Answers:
        return [(db.fire_if(True), None), (db, QUIT)]

    steps = (Statement("arrives, COMMIT", commit), Statement("appends the waiting task, or is killed before", fire))
    return Script(f"member {i}", steps)


def reopening(clears_slot: bool, arrive: Callable[[Join, int], Join]) -> Script[Join]:
    """Member 0 is run again on purpose, before the join has fired."""

    def reopen(db: Join, _note: Note) -> Answers:
        if not db.ended & 1 or db.fired:
            return []
        return [(db._replace(ended=db.ended & ~1, slots=db.slots & ~1 if clears_slot else db.slots), None)]

    def again(db: Join, _note: Note) -> Answers:
        return [(arrive(db, 0), None)]

    steps = (Statement("starts a new life of member 0", reopen, fault=True), Statement("it ends again, COMMIT", again))
    return Script("reopen", steps)


def empty_expansion(fires: bool) -> Script[Join]:
    def create(db: Join, _note: Note) -> Answers:
        return [(db._replace(needs=0).fire_if(fires), None)]

    return Script("expand", (Statement("creates a join that needs nobody, COMMIT", create),))


def model(how: str) -> Interleaved[Join]:
    store, scripts = Join(), (member(0), member(1))
    match how:
        case "insert-count":
            scripts = (member_that_inserts_and_counts(0), member_that_inserts_and_counts(1))
        case "fire-later":
            scripts = (member_that_fires_later(0), member_that_fires_later(1))
        case "retry-slot":
            return _over(store, (*scripts, reopening(True, arrive_in_slot)))
        case "retry-counter":
            counting = (member(0, arrive_by_count), member(1, arrive_by_count))
            return _over(store, (*counting, reopening(False, arrive_by_count)))
        case "empty" | "empty-fires":
            return _over(store._replace(members=0), (empty_expansion(fires=how == "empty-fires"),))
    return _over(store, scripts)


def _over(store: Join, scripts: tuple[Script[Join], ...]) -> Interleaved[Join]:
    return Interleaved(store, scripts, judge, lambda db: db.fired == 1)


CASES = tuple(
    Case(f"join/{how}", partial(model, how), why, breaks)
    for how, breaks, why in (
        ("slots", "", "An arrival sets a bit in the join row and fires in the same transaction."),
        ("retry-slot", "", "A reopened member has its bit cleared, so it is waited for again."),
        ("empty-fires", "", "A join that needs nobody fires in the transaction that creates it."),
        ("insert-count", "L", "Insert an arrival, then count: two last members each miss the other, nobody fires."),
        ("fire-later", "L", "Fire in a second transaction: a kill between leaves a full join that never fires."),
        ("retry-counter", "J2", "Count arrivals: a member that is run again counts twice, and the join fires early."),
        ("empty", "L", "Look at joins on arrival only: a join that needs nobody is never looked at."),
    )
)
