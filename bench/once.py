"""Keys held once: 3 M keys offered 6 M times, against the same offers without keys.

What is counted: *offers*, that is children handed to `commit`, whether or not they are kept. 60,000 parents are in the
run before the clock starts. Each claim takes 80 of them; each parent yields 100 children; one commit writes the
parents' ends and offers their 8,000 children. Then every child that was kept is claimed, run (it does nothing) and
committed, 8,192 a claim. The clock runs from the first claim to the end of the run.

Keyed: every child carries a key under `Hold.ONCE`. Each key is offered exactly twice, by two parents, in an order that
jumps through all keys; so 3 M children are kept and 3 M are dropped as duplicates. Unkeyed: the same children without
keys; all 6 M are kept. The keyed side therefore writes and runs half as many tasks, and in exchange looks up 6 M keys
and keeps 3 M. Making the key is on the keyed side's clock.

A second ratio, `unkeyed, offers only`, leaves the running out: how much slower it is to offer children with keys than
to add them without. It is the harsher one, and no bar is set for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from bench.contest import Rates, hold
from bench.figure import Bar, Figure, Setting, Suite
from bench.scratch import KEEPS, sqlite_store
from bench.store_loop import Ids, Session
from bench.tree import decode, encode
from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.run import NewRun, RunState
from ramify.model.task import NewTasks
from ramify.store.contract import Store

NAME = "store/once"
KEYS = 3_000_000
PER_PARENT = 100
CLAIM = 80
LARGEST_CLAIM = 8192
REPEAT = 3
PARENT, CHILD = "list", "page"


@dataclass(frozen=True)
class Offers:
    """Every key twice, spread over all parents."""

    keys: int

    @property
    def count(self) -> int:
        """How many offers there are."""
        return 2 * self.keys

    @cached_property
    def stride(self) -> int:
        """A step that visits every place once, because it shares no factor with their number."""
        step = round(self.count * 0.618) | 1
        while math.gcd(step, self.count) != 1:
            step += 2
        return step

    def parents(self) -> list[bytes]:
        """The arguments of the parents: where each begins, and how many it offers."""
        return [encode((at, min(PER_PARENT, self.count - at))) for at in range(0, self.count, PER_PARENT)]

    def offer(self, at: int, many: int) -> Iterator[tuple[int, int]]:
        """Run one parent: the arguments of its children, of which the first names the key."""
        total, step = self.count, self.stride
        for place in range(at, at + many):
            yield place * step % total // 2, 0


@dataclass
class Clocks:
    """Offers a second of each turn while parents ran, beside the rate of the whole loop that a turn answers with."""

    while_offering: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})


def offer(offers: Offers, folder: Path, clocks: Clocks, keyed: bool) -> float:
    """Offers a second, over the whole loop."""
    with sqlite_store(folder) as (store, _):
        session, ids = Session(store), Ids(store)
        parents = offers.parents()
        roots = NewTasks(store.reserve(len(parents)), PARENT, parents)
        run = store.start(NewRun(id=store.reserve(1)), [roots]).run.id
        want = Want(frozenset((PARENT,)), CLAIM, runs=frozenset((run,)))
        began = time.monotonic()
        claims = store.claim(session.stamp(), want).claims
        while claims:
            parts = [_run(claim, offers, ids, keyed) for claim in claims]
            answer = store.commit(session.stamp(), parts, want)
            if answer.refused:
                raise AssertionError(f"{len(answer.refused)} parts were refused although nobody reaps")
            claims = answer.claimed.claims
        clocks.while_offering[keyed].append(offers.count / (time.monotonic() - began))
        _run_children(store, session, run)
        seconds = time.monotonic() - began
        _check(store, run, offers, keyed)
        store.leave(session.process)
    return offers.count / seconds


def _run(claim: Claim, offers: Offers, ids: Ids, keyed: bool) -> Part:
    bodies: list[bytes] = []
    parents: list[int] = []
    keys: list[bytes | None] = []
    for task, body in zip(claim.tasks, claim.bodies, strict=True):
        for child in offers.offer(*decode(body)):
            bodies.append(encode(child))
            parents.append(task)
            if keyed:
                keys.append(b"https://example.org/page/%d" % child[0])
    first = ids.take(len(bodies))
    if keyed:
        children = NewTasks(first, CHILD, bodies, parents, keys=keys, hold=Hold.ONCE)
    else:
        children = NewTasks(first, CHILD, bodies, parents)
    return Part(claim.token, claim.tasks, Status.DONE, children=[children])


def _run_children(store: Store, session: Session, run: int) -> None:
    want = Want(frozenset((CHILD,)), LARGEST_CLAIM, runs=frozenset((run,)))
    store.advance([(run, 0)])
    claims = store.claim(session.stamp(), want).claims
    while claims:
        for claim in claims:
            for body in claim.bodies:
                decode(body)
        claims = store.commit(session.stamp(), [Part(c.token, c.tasks) for c in claims], want).claimed.claims
    if store.advance([(run, 1)])[0].state is not RunState.DONE:
        raise AssertionError("the run did not end")


def _check(store: Store, run: int, offers: Offers, keyed: bool) -> None:
    counts: Mapping[int, int] = store.reads.counts(run)[CHILD]
    added, dropped = counts.get(Tally.ADDED, 0), counts.get(Tally.DUPLICATE, 0)
    expected = (offers.keys, offers.keys) if keyed else (offers.count, 0)
    if (added, dropped) != expected or counts.get(Status.DONE) != added:
        raise AssertionError(f"{added} children kept and {dropped} dropped; expected {expected}")


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Offer with keys and without, in turns."""
    offers = Offers(setting.sized(KEYS, least=PER_PARENT))
    clocks = Clocks()
    contenders = {
        "once": partial(offer, offers, setting.folder, clocks, True),
        "unkeyed": partial(offer, offers, setting.folder, clocks, False),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    ratio = rates.ratio("once", "unkeyed")
    offering = Rates({"once": clocks.while_offering[True], "unkeyed": clocks.while_offering[False]})
    yield Figure(
        name=NAME,
        value=rates.middle("once"),
        unit="offers/s",
        ratios={"unkeyed": ratio, "unkeyed, offers only": offering.ratio("once", "unkeyed")},
        durability=dict.fromkeys(contenders, KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns["once"]),
        bar=Bar("at least 0.4 x unkeyed", ratio.median >= 0.4),
        more={"keys": offers.keys, "offers": offers.count},
    )


SUITE = Suite({NAME: "3 M keys offered 6 M times, against the same offers without keys"}, measure)
