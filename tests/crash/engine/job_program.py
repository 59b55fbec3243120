"""A program that enqueues jobs, steers them and works on them, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.job_program

It is told what to do as `program.py` is. SEED draws the moves; 0 stands for `SCENE`. What it asks for and what it is
answered are lines of the file WITNESS, so that the next program does not ask again for what it has; each begun job is
one as well. Options: `point` and `at` (kill itself there, the n-th time) and `threads`. Verbs of the store have points
of their own: `before-append`, `after-append`. The work `keys` enqueues `many` times under a few keys.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

from ramify import Backoff, Engine, Fatal, Job, JobState, Stream, current
from ramify.kernel.settings import Settings
from ramify.model.event import Status
from ramify.store.contract import Store
from ramify.store.sqlite import SqliteStore
from tests.crash.engine.programs import Options, arm, options_of, saying, serve

#: What can become of jobs.
SORTS = (
    "plain", "setback", "retried", "cancelled", "stopped", "expired", "group", "spread", "chain", "broken", "keyed",
    "again",
)  # fmt: skip
QUEUES = ("default", "mail")
#: Verbs that add and steer jobs.
VERBS = frozenset({"reserve", "append", "start", "cancel", "reopen"})
KEYS = 100
PARTS = 3
ENQUEUERS = 3

engine = Engine("store.db", durability="process")
heard: list[Callable[[str], None]] = [lambda text: None]


class Move(NamedTuple):
    """One thing that is done with jobs of its own, and their name."""

    sort: str
    name: str


SCENE = [Move(sort, sort) for sort in SORTS]


def moves_of(seed: int) -> list[Move]:
    """What the program does."""
    chance = random.Random(seed)
    return [Move(s, f"{s}{at}") for at, s in enumerate(chance.choices(SORTS, k=20))] if seed else SCENE


@engine.task(retries=3, backoff=Backoff(first=0.002, jitter=False), max_crashes=None)
def work(name: str, act: str = "") -> str:
    """A job that is done, at once or in the end."""
    heard[0](f"run {name}")
    task = current().task
    events = engine._runtime.store.reads.events(task, task)
    if act == "setback" and not events:
        raise RuntimeError("not this time")
    if act == "fail" and all(event.status is not Status.REOPENED for event in events):
        raise Fatal("not in this life")
    return name


@engine.task(max_crashes=None)
async def endless(name: str) -> None:
    """A job that does not end by itself."""
    heard[0](f"run {name}")
    await asyncio.Event().wait()


@engine.task(max_crashes=None)
def gather(name: str, parts: Stream[str] = Stream()) -> list[str]:
    """What follows others: their results."""
    heard[0](f"run {name}")
    return sorted(parts)


class Disturbed:
    """A store that says before and after each verb that adds or steers jobs that it comes by."""

    def __init__(self, store: Store, reach: Callable[[str], None]) -> None:
        self._store = store
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in VERBS:
            return verb

        def sent(*args: Any, **kwargs: Any) -> Any:
            self._reach(f"before-{name}")
            answer = verb(*args, **kwargs)
            self._reach(f"after-{name}")
            return answer

        return sent


def answers(witness: Path) -> dict[str, list[int]]:
    """The jobs that each question was answered with."""
    lines = [line.split() for line in witness.read_text().splitlines()] if witness.exists() else []
    return {name: [int(id) for id in ids] for said, name, *ids in lines if said == "got"}


class Script:
    """The moves, and what earlier programs were answered."""

    def __init__(self, known: dict[str, list[int]]) -> None:
        self._known = known

    def play(self, move: Move) -> None:
        """Do one thing, or what is left of it."""
        sort, name = move
        match sort:
            case "plain":
                self._one(name, lambda: engine.enqueue(work.of(name)))
            case "setback":
                self._one(name, lambda: engine.enqueue(work.of(name, "setback")))
            case "cancelled":
                # Under a key, so that it is found again: nobody would come to one that nobody knows.
                self._one(name, lambda: engine.enqueue(work.of(name).unique(name).delay(3600))).cancel("not needed")
            case "stopped":
                self._stop(self._one(name, lambda: engine.enqueue(endless.of(name).unique(name))))
            case "expired":
                self._one(name, lambda: engine.enqueue(work.of(name).delay(0.02).expires(0.01)))
            case "retried":
                job = self._one(name, lambda: engine.enqueue(work.of(name, "fail")))
                assert job.wait(50)
                # It is not failed when an earlier program came so far.
                if job.state is JobState.FAILED:
                    assert job.retry("once more")
            case "group" | "spread":
                self._ask(name, lambda: self._group(name, elsewhere=sort == "spread"))
            case "chain":
                first = self._one(f"{name}.0", lambda: engine.enqueue(work.of(f"{name}.0")))
                self._one(name, lambda: first.then(gather.of(name)))
            case "broken":
                first = self._one(f"{name}.0", lambda: engine.enqueue(work.of(f"{name}.0", "fail")))
                self._one(f"{name}-", lambda: first.then(gather.of(f"{name}-")))
                self._one(f"{name}+", lambda: first.then(gather.of(f"{name}+").always()))
            case "keyed":
                for time in "abc":
                    self._one(f"{name}/{time}", lambda: engine.enqueue(work.of(name).unique()))
            case "again":
                assert self._one(f"{name}/a", lambda: engine.enqueue(work.of(name).unique(name))).wait(50)
                self._one(f"{name}/b", lambda: engine.enqueue(work.of(name).unique(name), again=True))
            case _:
                raise AssertionError(f"no such move: {sort}")

    def _one(self, question: str, enqueue: Callable[[], Job[Any]]) -> Job[Any]:
        return self._ask(question, lambda: [enqueue()])[0]

    def _ask(self, question: str, enqueue: Callable[[], list[Job[Any]]]) -> Sequence[Job[Any]]:
        if question in self._known:
            return [engine.job(id) for id in self._known[question]]
        heard[0](f"ask {question}")
        jobs = enqueue()
        heard[0](f"got {question} {' '.join(str(job.id) for job in jobs)}")
        return jobs

    def _group(self, name: str, *, elsewhere: bool) -> list[Job[Any]]:
        calls = [work.of(f"{name}.{part}") for part in range(PARTS)]
        if elsewhere:
            calls[0] = calls[0].queue("mail")
        parts, total = engine.enqueue_many(calls, then=gather.of(name))
        return [*parts, total]

    def _stop(self, job: Job[Any]) -> None:
        while job.state is JobState.QUEUED:
            threading.Event().wait(0.002)
        job.cancel("enough")


def enqueue_keys(many: int, seed: int, threads: int) -> Iterable[str]:
    """Enqueue so often under a few keys; what was answered, and how many commits there were before and after."""
    reads = engine._runtime.store.reads
    chance = random.Random(seed)

    def enqueue(key: str) -> str:
        before = reads.head()
        job = engine.enqueue(work.of(key).unique(key, keep=0))
        return f"got {key} {job.id} {int(job.is_new)} {before} {reads.head()}"

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(enqueue, [f"key-{chance.randrange(KEYS)}" for _ in range(many)]))


def pending() -> int:
    """How many jobs have not ended."""
    return sum(engine.queue(name).pending for name in QUEUES)


def open_at(file: str | Path, reach: Callable[[str], None] = lambda name: None) -> None:
    """Put the engine on a store."""
    engine._runtime.use(cast(Store, Disturbed(SqliteStore(file, durability="process"), reach)))


def main(given_work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work."""
    options = options_of(given)
    open_at(file, arm(options))
    heard[0] = saying(witness)
    if given_work == "keys":
        heard[0]("\n".join(enqueue_keys(int(options["many"]), seed, int(options["threads"]))))
    else:
        _play(Path(witness), seed, options)
    engine.close()


def _play(witness: Path, seed: int, options: Options) -> None:
    script = Script(answers(witness))
    kernel = engine._runtime.kernel(Settings(threads=int(options.get("threads", "2")), beat_every=0.02))
    kernel.start()
    with ThreadPoolExecutor(ENQUEUERS if seed else 1) as pool:
        list(pool.map(script.play, moves_of(seed)))
    while pending():
        threading.Event().wait(0.002)
    kernel.stop()
    kernel.join()


if __name__ == "__main__":
    serve("tests.crash.engine.job_program")
