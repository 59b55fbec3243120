"""New lives for ended tasks of a run and for all that follows them: what `retry` and `resolve` have in common.

Promises: each page is sent under the numbers of a brief process of its own, so that a lost answer is asked for again,
and not guessed. Where a map is made anew, what it made before no longer counts: those tasks begin a life that ends as
skipped, so that neither their failures nor their results are taken for those of now. Nothing is reopened while some of
that is still at work.

A crash in between, or a refusal, leaves some pages done and the others as they were. A crash may also leave what was
made before the last one, which then still counts: what failed of it can be resolved as skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice

from ramify.errors import ConfigError
from ramify.kernel.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.mark import Mark, Scope
from ramify.model.process import Stamp
from ramify.model.reopening import REOPEN_LIMIT
from ramify.model.task import is_own
from ramify.store.contract import Reopened, Store
from ramify.store.reads import PAGE_LIMIT, Reads

#: Why what a map had made before it was made anew counts as skipped: such tasks are no items of it any more.
MADE_ANEW = "what made it has made others in its stead"


def reopen(store: Store, run: int, tasks: Iterable[int], said: Said, settle: Mark | None = None) -> Reopened:
    """Begin new lives, page by page; with `settle`, those named end as that says."""
    sender = Sender(store, Settings(), Signals(), threading.Event(), kinds=())
    sender.enter()
    reopened: set[int] = set()
    superseded: list[tuple[int, int]] = []
    skip = Mark(run, Scope.TASK, None, Status.SKIPPED, MADE_ANEW, by=said.by)
    try:
        # One that was taken along with others may have ended again by now.
        for page in _pages((task for task in tasks if task not in reopened), REOPEN_LIMIT):
            answer = sender.send(partial(_reopen, store, run, page, True, settle, said))
            if answer.unfinished:
                raise ConfigError(_at_work(store.reads, run, answer.unfinished[0][0]))
            reopened.update(answer.tasks)
            superseded += answer.superseded
            # CRASH: what was made before still counts -> `resolve(..., skip=True)` of what failed of it.
            for old in _pages(_made_before(store.reads, answer.disowned), REOPEN_LIMIT):
                ended = sender.send(partial(_reopen, store, run, old, False, skip, said))
                if closed := {task for task, _ in ended.unfinished}:
                    rest = [task for task in old if task not in closed]
                    sender.send(partial(_reopen, store, run, rest, False, skip, said))
    finally:
        store.leave(sender.process)
    return Reopened(tuple(reopened), tuple(superseded))


def _reopen(
    store: Store, run: int, page: list[int], following: bool, settle: Mark | None, said: Said, stamp: Stamp
) -> Reopened:
    return store.reopen(stamp, run, page, following=following, settle=settle, said=said)


def _pages(tasks: Iterable[int], size: int) -> Iterator[list[int]]:
    rest = iter(tasks)
    while page := list(islice(rest, size)):
        yield page


def _at_work(reads: Reads, run: int, task: int) -> str:
    row = reads.task(task)
    name = f"task {task}" if row is None or row.key is None else key_text(row.key)
    return (
        f"run {run} is not tried again: {name} would be made anew, and some of what it made has not ended; wait for "
        f"that, or end it: run.cancel(task={task}, below=True), and run.resolve(GATE, skip=True) for an open gate"
    )


def _made_before(reads: Reads, heirs: Iterable[int]) -> Iterator[int]:
    """What maps made that these gathered for them, with those of ours that did not end well."""
    for heir in heirs:
        row = reads.task(heir)
        # A fork of a user's task is theirs: what it calls may have keys, and is not made anew then.
        if row is not None and row.parent is not None and is_own(row.kind):
            tops = (_made_by(reads, row.parent, task) for task in _members(reads, heir))
            yield from _below(reads, chain((heir,), tops))


def _made_by(reads: Reads, maker: int, task: int) -> int:
    """What a task made from which another comes: a branch is a member of its gathering by its last step."""
    row = reads.task(task)
    while row is not None and row.parent is not None and row.parent != maker:
        row = reads.task(row.parent)
    return task if row is None else row.id


def _below(reads: Reads, tasks: Iterable[int]) -> Iterator[int]:
    for page in _pages(tasks, PAGE_LIMIT):
        for task, standing in reads.standings(page).items():
            is_ours = is_own(standing.row.kind)
            if is_ours:
                yield from _below(reads, _children(reads, task))
            if standing.ended is not None and not (is_ours and standing.ended in (Status.DONE, Status.SKIPPED)):
                yield task


def _members(reads: Reads, join: int) -> Iterator[int]:
    after, more = -1, True
    while more:
        page = reads.members(join, after=after)
        yield from (task for _, task in page.rows)
        after, more = page.after, page.more


def _children(reads: Reads, task: int) -> Iterator[int]:
    after, more = 0, True
    while more:
        page = reads.children(task, after=after)
        yield from (row.id for row in page.rows)
        after, more = page.after, page.more
