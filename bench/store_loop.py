"""A bare loop over the contract: claim, run, commit with the next claim, until the run has ended. No kernel.

It does what any worker must (decode, call, encode, ids from its own block, one commit a claim) and nothing else: no
threads, no leases, no retries, no beats. So it shows what a store can do, and it is a ceiling for the engine above it.

Several processes may drain one run. A process that finds nothing asks `advance`, then waits for the store to change.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from bench.tree import Work, decode, encode
from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, RunState
from ramify.model.task import NewTasks
from ramify.store.contract import Store

KIND = "node"
CLAIM = 8192
LEAST_CLAIM = 512
BLOCK = 262_144
SHORTEST_WAIT = 0.001
LONGEST_WAIT = 0.05
GIVE_UP = 120.0


class Session:
    """One process in the eyes of the store, and the numbers of its verbs."""

    def __init__(self, store: Store) -> None:
        self.process = new_process_id()
        self._numbers = count(1)
        store.enter(NewProcess(id=self.process, pid=os.getpid()))

    def stamp(self) -> Stamp:
        """The next number; every verb here is sent once."""
        return Stamp(self.process, next(self._numbers))


class Ids:
    """Contiguous ids from a block of its own, so that the store is asked once in many tasks."""

    def __init__(self, store: Store, block: int = BLOCK) -> None:
        self._store = store
        self._block = block
        self._next = self._end = 0

    def take(self, many: int) -> int:
        """The first of `many` contiguous ids; what is left of a block that is too small is wasted."""
        if self._next + many > self._end:
            size = max(many, self._block)
            self._next = self._store.reserve(size)
            self._end = self._next + size
        first = self._next
        self._next += many
        return first


class ClaimSize:
    """How much to claim next: half of this process's own share of what is left in the round, within bounds.

    Its share is what it knows without asking: the children it committed into the round, less what it has taken. A
    single process has nobody to leave work for and always asks for the most.
    """

    def __init__(self, processes: int) -> None:
        self._alone = processes == 1
        self._share: Counter[int] = Counter()

    def note(self, claim: Claim, children: int) -> None:
        """Count a claim that is about to be committed."""
        self._share[claim.round] -= len(claim.tasks)
        self._share[claim.round + 1] += children

    def limit(self, round: int) -> int:
        """The most tasks to ask for in this round."""
        return CLAIM if self._alone else min(CLAIM, max(LEAST_CLAIM, self._share[round] // 2))


@dataclass(frozen=True)
class Drained:
    """What one process did, and when: `steps` are (tasks done so far, time) after each commit."""

    state: RunState
    steps: Sequence[tuple[int, float]]

    @property
    def tasks(self) -> int:
        """How many tasks this process ran."""
        return self.steps[-1][0] if self.steps else 0


def start(store: Store, work: Work) -> int:
    """Start a run with the root of the work in it."""
    root = NewTasks(first=store.reserve(1), kind=KIND, bodies=[encode(work.root)])
    return store.start(NewRun(id=store.reserve(1)), [root]).run.id


def drain(store: Store, session: Session, run: int, work: Work, processes: int = 1) -> Drained:
    """Work on the run until it has ended."""
    ids, size = Ids(store), ClaimSize(processes)
    steps: list[tuple[int, float]] = []
    done, round, pause, seen = 0, 0, SHORTEST_WAIT, 0
    moved = time.monotonic()
    claims = store.claim(session.stamp(), _want(run, size.limit(round))).claims
    while True:
        while claims:
            parts = [_run(claim, work, ids, size) for claim in claims]
            round = claims[-1].round
            answer = store.commit(session.stamp(), parts, _want(run, size.limit(round)))
            if answer.refused:
                raise AssertionError(f"{len(answer.refused)} parts were refused although nobody reaps")
            done += sum(len(claim.tasks) for claim in claims)
            moved, pause = time.monotonic(), SHORTEST_WAIT
            steps.append((done, moved))
            claims = answer.claimed.claims
        (place,) = store.advance([(run, round)])
        if place.state.is_end:
            return Drained(place.state, steps)
        if place.round == round:
            if time.monotonic() - moved > GIVE_UP:
                raise AssertionError(f"round {round} has held tasks for {GIVE_UP:.0f} s: {place}")
            seen = store.wait(pause, seen)
            pause = min(2 * pause, LONGEST_WAIT)
        round = place.round
        claims = store.claim(session.stamp(), _want(run, size.limit(round))).claims


def check_done(store: Store, run: int, work: Work) -> None:
    """A rate counts only when every task has ended, once, as done."""
    done = store.reads.counts(run).get(KIND, {}).get(Status.DONE, 0)
    state = store.reads.run(run).state
    if done != work.count or state is not RunState.DONE:
        raise AssertionError(f"the run is {state} with {done} tasks done of {work.count}")


def _want(run: int, limit: int) -> Want:
    return Want(frozenset((KIND,)), limit, runs=frozenset((run,)))


def _run(claim: Claim, work: Work, ids: Ids, size: ClaimSize) -> Part:
    node = work.node
    bodies: list[bytes] = []
    parents: list[int] = []
    add, bear = bodies.append, parents.append
    for task, body in zip(claim.tasks, claim.bodies, strict=True):
        for child in node(*decode(body)):
            add(encode(child))
            bear(task)
    size.note(claim, len(bodies))
    children = [NewTasks(ids.take(len(bodies)), KIND, bodies, parents)] if bodies else []
    return Part(claim.token, claim.tasks, Status.DONE, children=children)
