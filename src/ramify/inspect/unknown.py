"""Kinds that nobody knows: tasks that wait because no live process has a task of that name.

A task that was renamed between two starts is the usual cause. Nothing is wrong with the run then, and without this
nothing would ever say so: what nobody knows is claimed by nobody. Told from counters and sessions, so it costs the same
for any number of tasks. Nothing is told while nobody works, or while somebody works who did not say which kinds it
knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ramify.inspect.live import workers
from ramify.model.event import ENDS, Tally
from ramify.model.process import Process
from ramify.model.run import StoredRun
from ramify.store.reads import Reads


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
                    waiting[kind] += _pending(counters)
    return {kind: count for kind, count in waiting.most_common() if count > 0}


def unknown_in_words(kind: str, count: int) -> str:
    """One of them, and what to do about it."""
    tasks = "1 task" if count == 1 else f"{count:,} tasks"
    return (
        f"{tasks} of kind {kind!a} {'waits' if count == 1 else 'wait'}: no task of that name here; "
        f"rename it back or give aliases=({kind!a},)"
    )


def _pending(counters: Mapping[int, int]) -> int:
    return counters.get(Tally.ADDED, 0) - sum(counters.get(status, 0) for status in ENDS)
