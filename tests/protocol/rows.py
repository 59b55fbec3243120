"""The rows of the core model: what the store keeps, what a process remembers, what is still on the wire.

Sets of tasks are ints used as bit sets. Everything is an immutable tuple, so states can be compared and hashed.
`canonical` promises one representative for all states with the same future: sessions are sorted, tokens become the
place of their segment (or VOID), verb numbers their rank among those not used up. It does not judge anything.

Fields marked *ghost* exist for the invariants only; no rule may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from tests.protocol.checker import NOBODY, members

UP, FROZEN, DEAD = "up", "frozen", "dead"
RUNNING, CANCELLING, DONE, CANCELLED = "running", "cancelling", "done", "cancelled"
CLAIM, COMMIT, RELEASE = "claim", "commit", "release"
VOID = 0
T = TypeVar("T")

#: name -> parent of each task (-1: a root)
TREES = {
    "flat": (-1, -1),
    "pair": (-1, -1, 0),
    "fork": (-1, 0, 0),
    "chain": (-1, 0, 1),
    "twins": (-1, -1, 0, 1),
    "deep": (-1, 0, 0, 1),
}


class Tree:
    """Which task spawns which. The tables are indexed by a set of tasks, so a rule is one look-up."""

    def __init__(self, parents: tuple[int, ...]) -> None:
        self.parents = parents
        self.roots = sum(1 << task for task, parent in enumerate(parents) if parent < 0)
        self.depth = [self._depth(task) for task in range(len(parents))]
        subsets = range(1 << len(parents))
        self.children = [self._spawned_by(mask) for mask in subsets]
        self.subtree = [self._grown(mask) for mask in subsets]

    def _depth(self, task: int) -> int:
        parent = self.parents[task]
        return 0 if parent < 0 else 1 + self._depth(parent)

    def _spawned_by(self, mask: int) -> int:
        return sum(1 << task for task, parent in enumerate(self.parents) if parent >= 0 and mask >> parent & 1)

    def _grown(self, mask: int) -> int:
        while (wider := mask | self._spawned_by(mask)) != mask:
            mask = wider
        return mask


class Segment(NamedTuple):
    """A live row: the tasks of `left` are offered, or held by `owner` under `token`."""

    round: int
    left: int
    range: int  #: the tasks the row was made for, finished or not
    owner: int = NOBODY
    token: int = VOID
    doomed: int = 0  #: ghost: tasks whose cancel had been asked for when this claim was made

    def offered(self) -> Segment:
        return Segment(self.round, self.left, self.range)


class Run(NamedTuple):
    state: str = RUNNING
    round: int = 0
    trees: int = 0  #: marks: cancel this task and everything under it
    asked: int = 0  #: marks: cancel this task


class Log(NamedTuple):
    """Terminal events of the present life, as sets of tasks."""

    published: int
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    earlier: int = 0  #: tasks with a terminal event of an earlier life

    @property
    def over(self) -> int:
        return self.done | self.failed | self.cancelled


class Request(NamedTuple):
    """A numbered verb on its way to the store. Its stamp is (the session that sends it, n)."""

    n: int
    verb: str
    token: int = VOID
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    deferred: int = 0

    @property
    def tasks(self) -> int:
        return self.done | self.failed | self.cancelled | self.deferred


class Claim(NamedTuple):
    """What the process believes it holds. Only the token can prove it."""

    token: int
    left: int
    told: int  #: tasks it has been told to cancel


class Session(NamedTuple):
    """One incarnation of a process: its row in the store, its memory, and its requests that may still arrive."""

    state: str = UP
    reaped: bool = False  #: store
    last: int = 0  #: store: the highest number used up
    receipt: bool = False  #: store: did the commit the process is asking about write anything?
    sent: int = 0  #: memory: the number of the last verb sent
    claim: Claim | None = None  #: memory
    doubt: Request | None = None  #: memory: sent, outcome unknown
    todo: tuple[int, ...] = ()  #: memory: the second transaction of a shortcut; the protocol has none
    late: tuple[Request, ...] = ()  #: wire: requests of lost connections that may be carried out at any later time


class Faults(NamedTuple):
    """How many of each are still to come. Only the budgets make the state space finite."""

    crash: int = 0
    freeze: int = 0
    lost: int = 0  #: the connection goes before the reply; the request may arrive late, or never
    false_reap: int = 0  #: a live process is taken for dead
    take_back: int = 0  #: a claimed row is re-offered although its owner was not reaped (retry of a node)
    release: int = 0
    fail: int = 0
    defer: int = 0
    cancel_run: int = 0
    cancel_tree: int = 0
    cancel_task: int = 0
    reopen: int = 0

    def less(self, name: str) -> Faults:
        return self._replace(**{name: getattr(self, name) - 1})


class State(NamedTuple):
    run: Run
    segments: tuple[Segment, ...]
    log: Log
    sessions: tuple[Session, ...]
    faults: Faults
    broken: str = ""  #: ghost: a promise that the last step itself broke

    def __str__(self) -> str:
        rows = [
            f"r{row.round}{members(row.left)}" + (f" held by p{row.owner}" if row.owner != NOBODY else "")
            for row in self.segments
        ]
        return f"a {self.run.state} run in round {self.run.round}, rows {rows}, sessions {self._sessions()}"

    def _sessions(self) -> list[str]:
        return [x.state + (" reaped" if x.reaped else "") + (" in doubt" if x.doubt else "") for x in self.sessions]

    def fresh_token(self) -> int:
        used = [VOID]
        used += [row.token for row in self.segments]
        used += [x.claim.token for x in self.sessions if x.claim]
        used += [request.token for x in self.sessions for request in x.late]
        return max(used) + 1

    def with_session(self, i: int, session: Session) -> State:
        run, segments, log, sessions, faults, broken = self
        return State(run, segments, log, (*sessions[:i], session, *sessions[i + 1 :]), faults, broken)


def canonical(s: State, matters: Callable[[State, Session, Request], bool], forget_ranges: bool) -> State:
    """`matters` says whether a late request could still change anything; one that cannot is dropped."""
    rows = sorted(s.segments)
    names = {row.token: place for place, row in enumerate(rows, 1) if row.token != VOID}
    kept = []
    for i, session in enumerate(s.sessions):
        held = [place for place, row in enumerate(rows) if row.owner == i]
        late = tuple([r for r in session.late if matters(s, session, r)]) if session.late else ()
        if session.state == DEAD and session.reaped and not late and not held:
            continue
        plain = _plain(session, late, names)
        kept.append((_sort_key(plain), held, i, plain))
    kept.sort()
    place_of = {entry[2]: place for place, entry in enumerate(kept)}
    for at, (in_round, left, whole, owner, token, doomed) in enumerate(rows):
        if forget_ranges:
            whole = left
        if owner != NOBODY:
            rows[at] = Segment(in_round, left, whole, place_of[owner], names[token], doomed)
        elif forget_ranges:
            rows[at] = Segment(in_round, left, whole)
    return State(s.run, tuple(rows), s.log, tuple([entry[3] for entry in kept]), s.faults, s.broken)


def _plain(x: Session, late: tuple[Request, ...], names: dict[int, int]) -> Session:
    """The session with tokens renamed, and with numbers replaced by their rank among those not used up."""
    claim, doubt, sent = x.claim, x.doubt, 0
    if claim is not None:
        claim = Claim(names.get(claim.token, VOID), claim.left, claim.told)
    if late or doubt is not None:
        asking = doubt.n if doubt is not None else x.last
        open_numbers = sorted({n for n in (asking, *(r.n for r in late)) if n > x.last})
        ranks = {n: rank for rank, n in enumerate(open_numbers, 1)}
        ranks.setdefault(asking, 0)
        late = tuple(sorted(r._replace(n=ranks.get(r.n, -1), token=names.get(r.token, VOID)) for r in late))
        sent = len(open_numbers)
        if doubt is not None:
            doubt = doubt._replace(n=ranks[asking], token=names.get(doubt.token, VOID))
    return Session(x.state, x.reaped, 0, x.receipt, sent, claim, doubt, x.todo, late)


def _sort_key(x: Session) -> tuple[object, ...]:
    return (x.state, x.reaped, x.receipt, x.sent, x.claim or (), x.doubt or (), x.todo, x.late)


def singles(mask: int) -> Iterator[int]:
    while mask:
        yield mask & -mask
        mask &= mask - 1


def without(rows: tuple[T, ...], k: int) -> tuple[T, ...]:
    return rows[:k] + rows[k + 1 :]
