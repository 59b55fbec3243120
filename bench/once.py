"""Keys held once: 3 M keys offered 6 M times, against the same offers without keys.

What is counted: *offers*, that is children handed to `commit`, whether or not they are kept. 60,000 parents are in the
run before the clock starts. Each claim takes 80 of them; each parent yields 100 children; one commit writes the
parents' ends and offers their 8,000 children. The clock runs from the first claim to the last commit.

Keyed: every child carries a key under `Hold.ONCE`. Each key is offered exactly twice, by two parents, in an order that
jumps through all keys; so 3 M children are kept and 3 M are dropped as duplicates. Unkeyed: the same children without
keys; all 6 M are kept. The keyed side therefore writes half as many task rows, and in exchange looks up 6 M keys and
keeps 3 M. Making the key is on the keyed side's clock. The children are not run in either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from bench.contest import hold
from bench.figure import Bar, Figure, Setting, Suite
from bench.scratch import KEEPS, sqlite_store
from bench.store_loop import Ids, Session
from bench.tree import decode, encode
from ramify.model.claim import Claim, Want
from ramify.model.commit import Part
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.contract import Store

NAME = "store/once"
KEYS = 3_000_000
PER_PARENT = 100
CLAIM = 80
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


def offer(offers: Offers, folder: Path, keyed: bool) -> float:
    """Offers a second."""
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


def _check(store: Store, run: int, offers: Offers, keyed: bool) -> None:
    counts: Mapping[int, int] = store.reads.counts(run)[CHILD]
    added, dropped = counts.get(Tally.ADDED, 0), counts.get(Tally.DUPLICATE, 0)
    expected = (offers.keys, offers.keys) if keyed else (offers.count, 0)
    if (added, dropped) != expected:
        raise AssertionError(f"{added} children kept and {dropped} dropped; expected {expected}")


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Offer with keys and without, in turns."""
    offers = Offers(setting.sized(KEYS, least=PER_PARENT))
    contenders = {
        "once": partial(offer, offers, setting.folder, True),
        "unkeyed": partial(offer, offers, setting.folder, False),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    ratio = rates.ratio("once", "unkeyed")
    yield Figure(
        name=NAME,
        value=rates.middle("once"),
        unit="offers/s",
        ratios={"unkeyed": ratio},
        durability=dict.fromkeys(contenders, KEEPS["power"]),
        scale=setting.scale,
        repeat=len(rates.turns["once"]),
        bar=Bar("at least 0.4 x unkeyed", ratio.median >= 0.4),
        more={"keys": offers.keys, "offers": offers.count},
    )


SUITE = Suite({NAME: "3 M keys offered 6 M times, against the same offers without keys"}, measure)
