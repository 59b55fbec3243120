"""Plays the turns of the job figures, for `frontier_player.py`.

**Enqueuing.** Nobody works. Before the clock starts, so much is written that the log has its full size and is written
from its beginning again (as in `bare.py`). The clock is around the calls of `engine.enqueue`, in one thread or in
several that begin at the same moment; or around calls of `engine.enqueue_many`, the making of the calls included.
`commits` counts every transaction of this process meanwhile.

**Draining.** All jobs are enqueued before. The clock runs from entering `engine.working()` until the store says that
all of them are done.

**Waiting.** Two files, one with all jobs waiting and one with none, take turns. The jobs that wait came by
`engine.enqueue_many`, in three priorities, and a tenth of them is due hours later. A sample enqueues a few jobs one by
one, claims as many, and commits their ends; each enqueue, the claim and the commit are timed. Durability is "process":
an fsync in every sample would hide what this looks for.

**Retaining.** Old jobs are enqueued and worked off by an engine whose clock is two days behind. Then one with the right
time works off other jobs, each with some work in it, all there before; the clock is around that. Both are done with an
fsync per commit. Workers forget the old ones meanwhile, or are kept from it.

A turn that does not end with every job there, or done, is an error and not a figure.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from itertools import islice

from bench.bare import WARMING
from bench.frontier_turn import Drain, Enqueue, Report, Retain, Waiting
from bench.jobs_tasks import busy, engine, heavy, nothing, tasks
from bench.store_loop import Session
from ramify import Call, Engine
from ramify.engine.jobs import retention
from ramify.engine.jobs.retention import DAY
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.job import QUEUES
from ramify.model.policy import SECOND
from ramify.store.clock import SystemClock
from ramify.store.contract import Store
from ramify.store.open import open_store

# Importing is off the clock, and these are imported when they are first needed.
for _late in ("ramify.kernel.kernel", "ramify.store.sqlite"):
    import_module(_late)

HEAVY = 4_000
AT_ONCE = 50_000
CLAIM = 10
LEVELS = 3
DUE_EVERY, AN_HOUR = 10, 3600.0
#: How often it is asked whether jobs are left.
LOOK = 0.01


def play_enqueue(turn: Enqueue) -> Report:
    """Enqueue jobs that nobody takes."""
    engine.enqueue_many(heavy.of("x" * HEAVY) for _ in range(WARMING // HEAVY))
    # The first job of a queue begins it.
    engine.enqueue(nothing.of(-1))
    commits = Commits(engine._runtime.store)
    if turn.many > 1:
        seconds = _timed(1, lambda place: _add_many(engine, turn.count, turn.many, nothing.of))
    else:
        each = turn.count // turn.threads

        def one_by_one(place: int) -> None:
            for number in range(place * each, (place + 1) * each):
                engine.enqueue(nothing.of(number))

        seconds = _timed(turn.threads, one_by_one)
    done = commits.count
    _check(engine, turn.count + 1, 0)
    return Report(turn.count, seconds, 0.0, commits=done)


def play_drain(turn: Drain) -> Report:
    """Enqueue jobs, and work them off."""
    began = time.monotonic()
    _add_many(engine, turn.count, AT_ONCE, nothing.of)
    starting = time.monotonic() - began
    began = time.monotonic()
    with engine.working():
        while _counts(engine)[1] < turn.count:
            time.sleep(LOOK)
        seconds = time.monotonic() - began
    _check(engine, turn.count, turn.count)
    return Report(turn.count, seconds, 0.0, starting=starting)


def play_waiting(turn: Waiting) -> Report:
    """Enqueue and claim where many wait and where nobody does."""
    many, empty = (Engine(f"{name}.db", include=[tasks], durability="process") for name in ("many", "empty"))
    began = time.monotonic()
    _add_many(many, turn.count, AT_ONCE, _various)
    seconds = time.monotonic() - began
    _check(many, turn.count, 0)
    samples: dict[str, list[float]] = defaultdict(list)
    sides = {name: (each, Session(each._runtime.store)) for name, each in (("", many), (" empty", empty))}
    for _ in range(turn.samples):
        for name, (each, session) in sides.items():
            _sample(each, session, lambda what, took, name=name: samples[what + name].append(took))  # type: ignore[misc]
    for each, session in sides.values():
        each._runtime.store.leave(session.process)
    ended = turn.samples * CLAIM
    _check(many, turn.count + ended, ended)
    _check(empty, ended, ended)
    return Report(turn.count, seconds, 0.0, samples=dict(samples))


def play_retain(turn: Retain) -> Report:
    """Work off jobs while old ones are forgotten, or are not."""
    if not turn.forgets:
        retention.FIRST = math.inf
    then = Engine("bench.db", include=[tasks])
    then._runtime.use(open_store("bench.db", clock=Behind()))
    _add_many(then, turn.old, AT_ONCE, nothing.of)
    with then.working():
        while _counts(then)[1] < turn.old:
            time.sleep(LOOK)
    then.close()
    _add_many(engine, turn.count, AT_ONCE, busy.of)
    began = time.monotonic()
    with engine.working(threads=1):
        while any(engine._runtime.store.reads.segments(limit=1).rows):
            time.sleep(LOOK)
        seconds = time.monotonic() - began
        added, done = _counts(engine)
    if added != done:
        raise AssertionError(f"{done} of {added} jobs are done")
    return Report(turn.count, seconds, 0.0, forgotten=turn.old + turn.count - added)


class Behind(SystemClock):
    """The machine's clock, two days behind."""

    def now(self) -> int:
        """Wall time since the epoch, two days ago."""
        return super().now() - 2 * DAY * SECOND


def _sample(on: Engine, session: Session, took: Callable[[str, float], None]) -> None:
    store = on._runtime.store
    for number in range(CLAIM):
        began = time.perf_counter()
        on.enqueue(nothing.of(number))
        took("enqueue", time.perf_counter() - began)
    began = time.perf_counter()
    claims = store.claim(session.stamp(), Want(frozenset((nothing.kind,)), CLAIM)).claims
    took("claim", time.perf_counter() - began)
    began = time.perf_counter()
    answer = store.commit(session.stamp(), [Part(claim.token, claim.tasks, Status.DONE) for claim in claims])
    took("commit", time.perf_counter() - began)
    taken = sum(len(claim.tasks) for claim in claims)
    if answer.refused or taken != CLAIM:
        raise AssertionError(f"a claim of {CLAIM} jobs got {taken}; {len(answer.refused)} parts were refused")


class Commits:
    """How many transactions this process has committed since this was made."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        store._link.on_outcome.append(self._hear)  # type: ignore[attr-defined]

    def _hear(self, trouble: str | None) -> None:
        self.count += trouble is None


def _timed(threads: int, work: Callable[[int], None]) -> float:
    """The seconds from when all threads begin until the last one is through."""
    if threads == 1:
        began = time.monotonic()
        work(0)
        return time.monotonic() - began
    ready = threading.Barrier(threads + 1)

    def begin(place: int) -> None:
        ready.wait()
        work(place)

    crew = [threading.Thread(target=begin, args=(place,)) for place in range(threads)]
    for thread in crew:
        thread.start()
    ready.wait()
    began = time.monotonic()
    for thread in crew:
        thread.join()
    return time.monotonic() - began


def _add_many(on: Engine, count: int, at_once: int, make: Callable[[int], Call[None]]) -> None:
    numbers = iter(range(count))
    while some := list(islice(numbers, at_once)):
        on.enqueue_many(map(make, some))


def _various(number: int) -> Call[None]:
    call = nothing.of(number).priority(number % LEVELS - 1)
    return call.delay(AN_HOUR) if number % DUE_EVERY == 0 else call


def _counts(on: Engine) -> tuple[int, int]:
    """How many jobs there have been, and how many are done."""
    run = on.find(QUEUES + nothing.of(0).group.queue)
    assert run is not None
    return run.counts.added, run.counts.done


def _check(on: Engine, added: int, done: int) -> None:
    if (found := _counts(on)) != (added, done):
        raise AssertionError(f"there are {found[0]} jobs, of which {found[1]} are done, and not {added} and {done}")
