"""New lives for ended tasks of a run and for all that follows them: what `retry` and `resolve` have in common.

Promises: each page is sent under the numbers of a brief process of its own, so that a lost answer is asked for again,
and not guessed. A map or branch that begins a new life has a new edition: the store replaces the old one in the same
transaction. Runs that the old one launched are cancelled here, or by the new one when it launches the next generation.

A crash in between, or a refusal, leaves some pages done and the others as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from ramify.errors import ConfigError
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.mark import Mark
from ramify.model.process import Stamp
from ramify.model.reopening import REOPEN_LIMIT, Reopened
from ramify.model.run import RunState, StoredRun
from ramify.shapes.launch import launched_heads, place_of
from ramify.shapes.pipeline.own import CHILD
from ramify.shapes.start import is_launched_from, until_answered
from ramify.store.contract import Store
from ramify.store.reads import Reads


def reopen(store: Store, run: int, tasks: Iterable[int], said: Said, settle: Mark | None = None) -> Reopened:
    """Begin new lives, page by page; with `settle`, those named end as that says."""
    sender = Sender(store, Settings(), Signals(), threading.Event(), kinds=())
    sender.enter()
    reopened: set[int] = set()
    superseded: list[tuple[int, int]] = []
    makers: list[int] = []
    replaced = 0
    try:
        # One that was taken along with others may have ended again by now.
        for page in _pages((task for task in tasks if task not in reopened), REOPEN_LIMIT):
            answer = sender.send(partial(_reopen, store, run, page, settle, said))
            if answer.held is not None:
                raise ConfigError(_at_work(store.reads, run, answer.held))
            reopened.update(answer.tasks)
            superseded += answer.superseded
            makers += answer.makers
            replaced += answer.replaced
    finally:
        store.leave(sender.process)
        # CRASH: runs that old items launched go on -> the new ones cancel them when they launch their own.
        _cancel_launched(store, run, makers)
    return Reopened(tuple(reopened), tuple(superseded), makers=tuple(makers), replaced=replaced)


def _reopen(store: Store, run: int, page: list[int], settle: Mark | None, said: Said, stamp: Stamp) -> Reopened:
    return store.reopen(stamp, run, page, settle=settle, said=said)


def _pages(tasks: Iterable[int], size: int) -> Iterator[list[int]]:
    rest = iter(tasks)
    while page := list(islice(rest, size)):
        yield page


def _at_work(reads: Reads, run: int, task: int) -> str:
    row = reads.task(task)
    name = f"task {task}" if row is None or row.key is None else f"{key_text(row.key)} (task {task})"
    return (
        f"run {run} is not tried again: {name} would be replaced, and a worker has it at the moment. Wait for it, or "
        f"end it first: run.cancel(task={task})"
    )


def _cancel_launched(store: Store, run: int, makers: Iterable[int]) -> None:
    """Cancel what tasks that were replaced have launched: runs whose names follow from theirs, and that are older."""
    reads = store.reads
    if not makers or CHILD not in reads.counts(run):
        return
    launcher = reads.run(run)
    for maker in makers:
        row = reads.task(maker)
        if row is None or row.key is None:
            continue
        key = f"{key_text(row.key)}".replace("#", "+")
        began = max(event.seq for event in reads.events(maker, maker) if event.status is Status.REOPENED)
        for head in launched_heads(launcher.id, launcher.name, launcher.generation):
            for old in _unfinished(reads, f"{head}/{key}["):
                place = place_of(run, (old.name or "").removeprefix(f"{head}/"))
                if old.since < began and is_launched_from(old, place):
                    said = Said(f"{key} of run {run} was made anew", after=old.decisions)
                    until_answered(partial(store.cancel, old.id, said=said))


def _unfinished(reads: Reads, prefix: str) -> Iterator[StoredRun]:
    """Runs whose names begin like this and that have not ended."""
    for state in (RunState.OPEN, RunState.PAUSED):
        after, more = 0, True
        while more:
            page = reads.runs(state=state, prefix=prefix, after=after)
            yield from page.rows
            after, more = page.after, page.more
