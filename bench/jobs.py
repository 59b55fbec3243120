"""Single jobs: does a claim cost more when a million jobs wait than when a thousand do?

Filling: 1 M single `append` calls, one job each, in one endless run. Three levels of priority at random; a fifth of the
jobs has a due time, half of those past and half days ahead. Each level takes its ids from a block of its own, as a
producer does, so that neighbours share a row (P13); jobs with a due time never do. The filling is done with durability
"process": its rate is reported beside the figure and has no bar.

Measuring: two files, one with all jobs and one with 1,000, both open, take turns. A sample is one `claim` of 10 jobs
and one `commit` that ends them; then as many claimable jobs are added again, off the clock. Also with durability
"process": an fsync in every sample would hide what the figure is about. p50 is the median of a block of samples; the
ratio is the median over blocks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from statistics import median

from bench.contest import Rates, say
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.scratch import KEEPS, sqlite_store
from bench.store_loop import Ids, Session
from bench.tree import encode
from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.policy import SECOND
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.contract import Store

NAME = "store/jobs"
KIND = "job"
MANY, FEW = 1_000_000, 1_000
LEVELS = (-1, 0, 1)
DUE_SHARE = 0.2
HOUR = 3600 * SECOND
CLAIM = 10
SAMPLES = 50
REPEAT = 9
SEED = 2


class Producer:
    """Adds single jobs to one run, as a program that enqueues them would."""

    def __init__(self, store: Store, run: int) -> None:
        self._store = store
        self._run = run
        self._chance = random.Random(SEED)
        self._plain = {level: Ids(store, 65_536) for level in LEVELS}
        self._timed = Ids(store, 65_536)
        self._made = 0

    def add(self, claimable: bool = False) -> None:
        """Add one job; a `claimable` one is not due in the future."""
        chance, level = self._chance, self._chance.choice(LEVELS)
        timed = chance.random() < DUE_SHARE
        due = None
        if timed:
            ahead = not claimable and chance.random() < 0.5
            due = self._store.now() + round((48 if ahead else -1) * HOUR * chance.uniform(0.5, 1.0))
        first = (self._timed if timed else self._plain[level]).take(1)
        self._made += 1
        new = NewTasks(first, KIND, [encode((self._made, 0))], priority=level, due=due)
        self._store.append([Addition(self._run, [new])])


class Queue:
    """A store with some jobs waiting, and a worker that takes the samples."""

    def __init__(self, store: Store, waiting: int) -> None:
        self.store = store
        self.session = Session(store)
        new = NewRun(id=store.reserve(1), shape="jobs", order=Order.ANY, endless=True)
        self.run = store.start(new).run.id
        self.producer = Producer(store, self.run)
        self.steps: list[float] = [time.monotonic()]
        for share in range(5):
            for _ in range(waiting * share // 5, waiting * (share + 1) // 5):
                self.producer.add()
            self.steps.append(time.monotonic())

    def fill_rates(self, waiting: int) -> list[float]:
        """The rates of the fifths of the filling."""
        return [waiting / 5 / (after - before) for before, after in pairwise(self.steps)]

    def sample(self) -> tuple[float, float]:
        """Seconds of one claim, and of that claim with its commit."""
        want = Want(frozenset((KIND,)), CLAIM, runs=frozenset((self.run,)))
        began = time.perf_counter()
        claims = self.store.claim(self.session.stamp(), want).claims
        claimed = time.perf_counter()
        parts = [Part(claim.token, claim.tasks, Status.DONE) for claim in claims]
        answer = self.store.commit(self.session.stamp(), parts)
        ended = time.perf_counter()
        taken = sum(len(claim.tasks) for claim in claims)
        if answer.refused or not taken:
            raise AssertionError(f"a claim of {CLAIM} jobs got {taken}; {len(answer.refused)} parts were refused")
        for _ in range(taken):
            self.producer.add(claimable=True)
        return claimed - began, ended - began


def blocks(many: Queue, few: Queue, repeat: int) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """The p50 of (claim, claim and commit) of both queues, block by block."""
    for block in range(1, repeat + 1):
        say(f"jobs: block {block} of {repeat}")
        pairs = [(many.sample(), few.sample()) for _ in range(SAMPLES)]
        yield _p50([pair[0] for pair in pairs]), _p50([pair[1] for pair in pairs])


def _p50(samples: list[tuple[float, float]]) -> tuple[float, float]:
    return median(claim for claim, _ in samples), median(both for _, both in samples)


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Fill both, then take turns."""
    waiting = setting.sized(MANY, least=FEW)
    with ExitStack() as stack:
        stores = [stack.enter_context(sqlite_store(setting.folder, "process"))[0] for _ in range(2)]
        say(f"jobs: filling {waiting:,}")
        many, few = Queue(stores[0], waiting), Queue(stores[1], FEW)
        p50s = list(blocks(many, few, setting.turns(REPEAT)))
        for queue in (many, few):
            queue.store.leave(queue.session.process)
    turns = {
        "claim": [at_many[0] for at_many, _ in p50s],
        "claim few": [at_few[0] for _, at_few in p50s],
        "both": [at_many[1] for at_many, _ in p50s],
        "both few": [at_few[1] for _, at_few in p50s],
    }
    yield _figure(setting, Rates(turns), many.fill_rates(waiting), waiting)


def _figure(setting: Setting, rates: Rates, fill: list[float], waiting: int) -> Figure:
    claim, both = rates.ratio("claim", "claim few"), rates.ratio("both", "both few")
    return Figure(
        name=NAME,
        value=rates.middle("claim") * 1e6,
        unit="µs a claim (p50)",
        better="less",
        ratios={f"claim at {FEW:,}": claim, f"claim and commit at {FEW:,}": both},
        durability={"jobs": KEEPS["process"]},
        scale=setting.scale,
        repeat=len(rates.turns["claim"]),
        bar=Bar(
            "claim, and claim with commit, within 2 x of those at 1,000 waiting", max(claim.median, both.median) <= 2
        ),
        more={
            "waiting": waiting,
            "claim_and_commit_us": significant(rates.middle("both") * 1e6),
            "enqueues_per_s": significant(5 / sum(1 / rate for rate in fill)),
            "enqueue_fifths": [significant(rate) for rate in fill],
        },
    )


SUITE = Suite({NAME: "1 M single enqueues: p50 of a claim with 1 M waiting, against 1,000 waiting"}, measure)
