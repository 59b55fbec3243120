"""Names that nobody knows: of kinds, whose tasks wait because no live process has a task of that name, and of queues.

A task that was renamed between two starts is the usual cause. Nothing is wrong with the run then, and without this
nothing would ever say so: what nobody knows is claimed by nobody. Told from counters and sessions, so it costs the same
for any number of tasks. Nothing is told while nobody works, or while somebody works who did not say which kinds it
knows.
"""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ramify.inspect.jobs import queues
from ramify.inspect.live import workers
from ramify.model.event import pending_of
from ramify.model.job import QUEUES
from ramify.model.process import Process
from ramify.model.run import StoredRun
from ramify.shapes.cron.declaration import schedule_of
from ramify.store.reads import PAGE_LIMIT, Reads


def unknown_among(reads: Reads, runs: Iterable[StoredRun], working: Sequence[Process] | None = None) -> dict[str, int]:
    """The kinds with unfinished tasks in these runs that no live process knows, and how many tasks each has."""
    some = workers(reads) if working is None else working
    known: set[str] = set()
    for process in some:
        if process.kinds is None:
            return {}
        known.update(process.kinds)
    waiting: Counter[str] = Counter()
    if some:
        for run in runs:
            for kind, counters in reads.counts(run.id).items():
                if kind not in known:
                    waiting[kind] += pending_of(counters)
    return {kind: count for kind, count in waiting.most_common() if count > 0}


def unknown_in_words(kind: str, count: int) -> str:
    """One of them, and what to do about it."""
    if (schedule := schedule_of(kind)) is not None:
        return (
            f"schedule {schedule!a} waits: no worker declares it; declare it, or remove it: "
            f"`ramify crons remove {shlex.quote(schedule)}`"
        )
    tasks = "1 task" if count == 1 else f"{count:,} tasks"
    return (
        f"{tasks} of kind {kind!a} {'waits' if count == 1 else 'wait'}: no task of that name here; "
        f"rename it back or give aliases=({kind!a},)"
    )


def queues_in(reads: Reads) -> set[str]:
    """The queues that were given a job, or that a live task is in, as far as a page of those shows."""
    live = (*reads.in_line(limit=1), *reads.segments(limit=PAGE_LIMIT).rows)
    return {run.name.removeprefix(QUEUES) for run in queues(reads) if run.name} | {row.queue for row in live}


def unknown_queue_in_words(name: str, known: Collection[str]) -> str:
    """A name of a queue that is none of those known, with the nearest that is."""
    near = difflib.get_close_matches(name, known, 1)
    instead = f"Did you mean {near[0]!a}?" if near else f"There are {', '.join(map(ascii, sorted(known)))}."
    return f"queue {name!a}: no task of this engine and no job of this store is in it. {instead}"
