"""Health: a store and all who work on it at one moment, for monitors. Is everybody well, and does the work go on?

Bounded, however much there is: it reads what each process holds and the rows that come first in line, never all of
them, and no log. So what it says of late and stuck work is a lower bound where there is much of it, and it says so.

INVARIANT: one place decides what is healthy. A store is healthy when `Health.problems` is empty. The commands `health`
and `doctor` and the engine ask for that; the doctor adds only damage that it finds by reading everything.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from ramify.inspect.cron_health import late_schedules
from ramify.inspect.find import title, typed
from ramify.inspect.held_up import held_up
from ramify.inspect.limits import BusyLimit, busy_limits
from ramify.inspect.live import at_work, in_words, width
from ramify.inspect.status import Counts, counts_of
from ramify.inspect.why import is_undeclared, nobody_for, takers
from ramify.inspect.words import MEGA, duration, plural
from ramify.model.policy import SECOND, added_of
from ramify.model.process import Process
from ramify.model.run import Order, RunState, StoredRun, is_stalled
from ramify.model.segment import Segment
from ramify.store.contract import GAP_SHARE, Store
from ramify.store.description import KEEPS, Description
from ramify.store.reads import PAGE_LIMIT, Reads

#: Others may take the work of a process that has not beaten for this long.
DEAD_AFTER = 60.0
#: One that has not beaten for this long starts nothing, and hangs, or its machine does.
SILENT_SECONDS = DEAD_AFTER / GAP_SHARE
#: How many rows of each kind and queue, and how many runs, are looked at.
LOOKED = 100
#: How long a run that ended without being finished is told of.
TOLD_SECONDS = 86_400
#: With less space than this on the disk, a commit may not fit.
LITTLE_SPACE = MEGA


class ProcessState(StrEnum):
    """The state of a process, as far as the store can tell."""

    WORKING = "working"
    DRAINING = "draining"
    #: It is there, and was not heard of, or cannot write.
    UNREACHABLE = "unreachable"
    #: It died, and nobody has offered its work again yet.
    DEAD = "dead"


_ADVICE = {
    ProcessState.DEAD: "the next process that works here offers its work again",
    ProcessState.UNREACHABLE: "let it continue (kill -CONT) if it is frozen, or kill it: others then take its work",
}


class ProcessHealth(msgspec.Struct, frozen=True):
    """A process that has not ended: its state, the age of its last heartbeat, and the number of tasks it holds.

    `trouble` describes its problem, if any; `durability` is what its commits survive, if known.
    """

    process: int
    pid: int
    host: str
    state: ProcessState
    beat_age: float | None
    tasks: int
    version: str
    durability: str
    trouble: str | None = None

    @property
    def healthy(self) -> bool:
        """True if nothing is wrong with it; a draining process is healthy."""
        return self.trouble is None


class ReadyTask(msgspec.Struct, frozen=True):
    """A task that could run now, with the seconds since it was added or due."""

    task: int
    run: int
    kind: str
    queue: str
    seconds: float


class QueueHealth(msgspec.Struct, frozen=True):
    """A queue with work: the number of tasks that workers hold, and the oldest ready task.

    The oldest is taken among the ready tasks that come next; it is None if none is ready.
    """

    queue: str
    running: int = 0
    oldest: ReadyTask | None = None


class LateWork(msgspec.Struct, frozen=True):
    """Tasks that are due and have not started; `at_least` says that there may be more."""

    tasks: int = 0
    at_least: bool = False
    oldest: ReadyTask | None = None


class StuckRun(msgspec.Struct, frozen=True):
    """A run that cannot continue without a person, with the reason. A run that waits for a time, an answer or another
    run is not stuck.
    """

    run: int
    title: str
    reason: str
    advice: str | None = None


class Problem(msgspec.Struct, frozen=True):
    """A reason why a store is not healthy, with advice.

    `about` is one of process, disk, run (stuck), schedule (late, or declared by no worker), age (a task has been ready
    for too long) and workers (too few).
    """

    about: str
    text: str
    advice: str | None = None


class StoreHealth(msgspec.Struct, frozen=True):
    """The store, its guarantees as its live processes use it, and the sizes of its file and write-ahead log.

    `durability` is the weakest that a live process chose; None if no process is live, or the store leaves no choice.
    """

    name: str
    location: str
    keeps: str
    lacks: str
    durability: str | None = None
    bytes: int | None = None
    log_bytes: int | None = None


class Health(msgspec.Struct, frozen=True):
    """The health of a store at one moment, by its clock. `oldest` is the oldest of the ready tasks that come next.
    `at_least` says that more runs may be stuck. `problems` are the reasons why the store is not healthy, and `queues`
    are the queues with work, by name. `limits` are those without room for more tasks, which is no problem.
    """

    store: StoreHealth
    at: int
    processes: Sequence[ProcessHealth] = ()
    oldest: ReadyTask | None = None
    late: LateWork = LateWork()
    stuck: Sequence[StuckRun] = ()
    at_least: bool = False
    problems: Sequence[Problem] = ()
    queues: Sequence[QueueHealth] = ()
    limits: Sequence[BusyLimit] = ()

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def unhealthy(self) -> Sequence[ProcessHealth]:
        """The processes that have a problem."""
        return [process for process in self.processes if not process.healthy]


def health_of(store: Store, *, max_age: float | None = None, min_workers: int = 0) -> Health:
    """Look at a store and all who work on it.

    It is not healthy when a process is in trouble, the disk is full or a run is stuck, which includes work that is
    ready and that no live process takes; nor when a task has been ready for more than `max_age` seconds, or when fewer
    than `min_workers` processes take work.
    """
    reads, now = store.reads, store.now()
    # Commands that came in for a moment do no tasks.
    there = [each for each in reads.processes() if not each.reaped and each.kinds != ()]
    held = {each.id: reads.segments(owner=each.id, limit=PAGE_LIMIT).rows for each in there}
    waiting = reads.in_line(limit=LOOKED)
    ready = [row for row in waiting if row.due is None or row.due <= now]
    stuck, at_least = _stuck(store, ready, there, held, now)
    processes = [process_health(each, sum(map(width, held[each.id]))) for each in there]
    by_queue = _oldest(reads, ready, now)
    oldest = max(by_queue.values(), key=lambda each: each.seconds, default=None)
    about = store.describe()
    problems = [
        *_in_trouble(processes),
        *_full_disk(about),
        *(Problem("run", f"run {run.title} is stuck: {run.reason}", run.advice) for run in stuck),
        *(Problem("schedule", *told) for told in late_schedules(store, waiting, there, now)),
        *_too_old(oldest, max_age),
        *_too_few(processes, min_workers),
    ]
    late = _late(reads, [row for row in ready if row.due is not None], now)
    queues = _queues(held, by_queue)
    full = busy_limits(reads, (row for rows in held.values() for row in rows), there, now)
    return Health(_store(about, there), now, processes, oldest, late, stuck, at_least, problems, queues, full)


def _in_trouble(processes: Sequence[ProcessHealth]) -> Iterator[Problem]:
    for each in processes:
        if each.trouble is not None:
            where = f" on {each.host}" if each.host else ""
            who = f"process {each.process:x} (pid {each.pid}{where}), which holds {plural(each.tasks, 'task')}"
            yield Problem("process", f"{who}: {each.trouble}", _ADVICE[each.state])


def _full_disk(store: Description) -> Iterator[Problem]:
    if store.file is None or not os.path.isfile(store.file):
        return
    disk = os.statvfs(store.location)
    free = disk.f_bavail * disk.f_frsize
    # A file system that does not say how large it is does not say how full it is either.
    if disk.f_blocks and free < LITTLE_SPACE:
        text = f"the disk is full: {free / MEGA:,.1f} MB are free where the store is"
        yield Problem("disk", text, "free some space; work waits and continues by itself")


def _too_old(oldest: ReadyTask | None, max_age: float | None) -> Iterator[Problem]:
    if oldest is not None and max_age is not None and oldest.seconds > max_age:
        which = f"task {oldest.task} ({oldest.kind!a}, queue {oldest.queue!a})"
        text = f"{which} has been ready for {duration(oldest.seconds)}; the limit is {duration(max_age)}"
        yield Problem("age", text, f"start more workers; `ramify why {oldest.task}` says what it waits for")


def _too_few(processes: Sequence[ProcessHealth], least: int) -> Iterator[Problem]:
    working = sum(each.state is ProcessState.WORKING for each in processes)
    if working < least:
        live = "1 process takes" if working == 1 else f"{working or 'no'} processes take"
        yield Problem("workers", f"{live} work from this store; there should be at least {least:,}", "start more")


def process_health(process: Process, tasks: int) -> ProcessHealth:
    """How a process that has not ended is; it holds so many tasks."""
    state, trouble = _state_of(process)
    age, version = process.beat_age, process.version
    return ProcessHealth(process.id, process.pid, process.host, state, age, tasks, version, process.durability, trouble)


def _state_of(process: Process) -> tuple[ProcessState, str | None]:
    if (age := process.beat_age) is None:
        return ProcessState.DEAD, "it died, and nobody has offered its work again yet"
    if age > SILENT_SECONDS:
        return ProcessState.UNREACHABLE, f"it was not heard of for {age:,.0f} s: it hangs, or its machine sleeps"
    in_the_way = next(held_up([process]), None)
    if in_the_way is not None:
        return ProcessState.UNREACHABLE, in_the_way.text
    return (ProcessState.WORKING if process.draining is None else ProcessState.DRAINING), None


def file_sizes(store: Description) -> tuple[int | None, int | None]:
    """The sizes of a store's file and of its write-ahead log; they are never opened beside it."""
    if store.file is None or not os.path.isfile(store.file):
        return None, None
    try:
        return os.stat(store.file).st_size, os.stat(f"{store.file}-wal").st_size
    except FileNotFoundError:
        return os.stat(store.file).st_size, 0


def _store(about: Description, processes: Sequence[Process]) -> StoreHealth:
    chosen = {process.durability for process in processes if process.is_alive}
    weakest = next((each for each in KEEPS if each in chosen), None)
    # What the store says of itself is how this client has opened it, and others may have chosen otherwise.
    keeps = about.keeps if weakest is None else KEEPS[weakest]
    return StoreHealth(about.name, about.location, keeps, about.lacks, weakest, *file_sizes(about))


def _oldest(reads: Reads, rows: Sequence[Segment], now: int) -> dict[str, ReadyTask]:
    """The oldest of the first and of the first added rows of each kind, by queue.

    One that is first by its priority may be young, and those behind it old.
    """
    heads: dict[tuple[str, str, bool], Segment] = {}
    eldest: dict[tuple[str, str, bool], Segment] = {}
    for row in sorted(rows, key=lambda row: row.rank if row.due is None else row.due):
        line = (row.kind, row.queue, row.due is None)
        heads.setdefault(line, row)
        if row.first < eldest.setdefault(line, row).first:
            eldest[line] = row
    looked = {row.id: row for line, head in list(heads.items())[:LOOKED] for row in (head, eldest[line])}
    found: dict[str, ReadyTask] = {}
    for each in sorted((_ready(reads, row, now) for row in looked.values()), key=lambda task: task.seconds):
        found[each.queue] = each
    return found


def _queues(held: Mapping[int, Sequence[Segment]], oldest: Mapping[str, ReadyTask]) -> list[QueueHealth]:
    running: Counter[str] = Counter()
    for row in (row for rows in held.values() for row in rows):
        running[row.queue] += width(row)
    return [QueueHealth(queue, running[queue], oldest.get(queue)) for queue in sorted({*running, *oldest})]


def _ready(reads: Reads, row: Segment, now: int) -> ReadyTask:
    task = row.tasks[0]
    since = row.due
    if since is None:
        known = reads.task(task)
        deep = row.round if reads.run(row.run).order is Order.DEPTH_FIRST else 0
        since = added_of(row.rank, 0 if known is None else known.priority, deep)
    return ReadyTask(task, row.run, row.kind, row.queue, max(0, now - since) / SECOND)


def _late(reads: Reads, rows: Sequence[Segment], now: int) -> LateWork:
    if not rows:
        return LateWork()
    oldest = min(rows, key=lambda row: (row.due, row.id))
    return LateWork(sum(map(width, rows)), _is_crowded(rows), _ready(reads, oldest, now))


def _is_crowded(rows: Sequence[Segment]) -> bool:
    """Return whether there may be more rows of a kind and queue than were looked at."""
    lines = Counter((row.kind, row.queue, row.due is None) for row in rows)
    return max(lines.values(), default=0) >= LOOKED


def _stuck(
    store: Store,
    ready: Sequence[Segment],
    processes: Sequence[Process],
    held: Mapping[int, Sequence[Segment]],
    now: int,
) -> tuple[list[StuckRun], bool]:
    """Runs that do not go on by themselves, the first reason for each; and whether there may be more."""
    reads = store.reads
    paused = reads.runs(state=RunState.PAUSED, limit=LOOKED)
    found = {run.id: _paused(run) for run in paused.rows}
    at_least = paused.more
    for run, reason, advice in _unserved(store, ready, processes, held):
        if run not in found:
            found[run] = StuckRun(run, title(reads.run(run)), reason, advice)
        # Behind those that were looked at there may be rows of other runs.
        at_least = at_least or _is_crowded(ready)
    for newest in reads.runs(newest_first=True, limit=LOOKED).rows:
        if newest.id not in found and (in_vain := _in_vain(reads, newest, now)) is not None:
            found[newest.id] = StuckRun(newest.id, title(newest), in_vain, f"ramify errors {typed(newest)}")
    return list(found.values()), at_least


def _paused(run: StoredRun) -> StuckRun:
    told = "paused" if run.decision is None else str(run.decision)
    return StuckRun(run.id, title(run), told, f"ramify resume {typed(run)}")


def _unserved(
    store: Store, ready: Sequence[Segment], processes: Sequence[Process], held: Mapping[int, Sequence[Segment]]
) -> Iterator[tuple[int, str, str]]:
    """Runs with work that nobody will take: the run, why, and what to do."""
    working = at_work(processes)
    for row in ready:
        nobody = nobody_for(row, working)
        if nobody is not None and not is_undeclared(row, nobody[0]):
            yield row.run, f"task {row.tasks[0]} is ready, and {nobody[1]}", nobody[2]
    if takers(working):
        # They offer what the dead held, and move on what can be moved.
        return
    for process in processes:
        if not process.is_alive:
            for row in held[process.id]:
                yield (
                    row.run,
                    f"{in_words(process)} holds task {row.tasks[0]} and is dead, and nobody works",
                    "start one",
                )
    for run, _ in store.movable(LOOKED):
        yield run, "it can continue, and no process works on this store", "start one"


def _in_vain(reads: Reads, run: StoredRun, now: int) -> str | None:
    """Why a run is over, or has nothing left to do, without having come to anything; None when that is not so."""
    if run.ended is not None and now - run.ended > TOLD_SECONDS * SECOND:
        return None
    if is_stalled(run):
        return run.reason
    if run.state not in (RunState.OPEN, RunState.FAILED, RunState.HALTED):
        return None
    total = sum(counts_of(reads, run.id).values(), Counts())
    ran = total.ended - total.skipped - total.cancelled
    return "all of its tasks are in quarantine" if ran and not total.pending and ran == total.quarantined else None
