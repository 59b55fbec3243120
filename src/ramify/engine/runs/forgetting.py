"""Forgetting what is over: whole runs, or the old tasks of one that goes on, page by page.

Promises: each page is a transaction of its own, so that others work on meanwhile. Killed in between, a run that was
begun with is forgotten and not gone yet; the same call goes on with it. Runs are never forgotten by themselves.

What may go is decided in `ramify.model.forgetting`.
"""

from __future__ import annotations

from functools import partial

from ramify.errors import ConfigError
from ramify.model.decision import Said
from ramify.model.forgetting import Forgot
from ramify.model.policy import Duration, microseconds_in
from ramify.model.run import RunState
from ramify.model.task import MAX_ID
from ramify.shapes.start import until_answered
from ramify.store.contract import Store
from ramify.store.here import person


def forget(store: Store, run: int, reason: str = "", by: str | None = None) -> int:
    """Forget a run that has ended, all of it; how many tasks went now. RunNeeded says why it must stay."""
    seen = until_answered(lambda: store.reads.run(run)).decisions
    said = Said(reason, person() if by is None else by, after=seen)
    tasks, page = 0, Forgot(more=True)
    while page.more:
        # CRASH: some pages are gone -> the run is marked, and the same call goes on with the rest.
        page = until_answered(partial(store.forget, run, said=said))
        tasks += page.tasks
    return tasks


def forget_tasks(store: Store, run: int, age: int, *, dry: bool = False) -> int:
    """Forget the tasks of a run that ended longer ago than this, as far as they may go; how many went.

    A `dry` call tells how many would go at first: those that must not go before them may follow.
    """
    before = store.now() - age
    if dry:
        return _one_pass(store, run, before, dry=True)
    tasks, went = 0, True
    while went:
        # What a task must not go before may have gone with a later page: so it is tried again.
        in_this_pass = _one_pass(store, run, before)
        tasks, went = tasks + in_this_pass, in_this_pass > 0
    return tasks


def _one_pass(store: Store, run: int, before: int, *, dry: bool = False) -> int:
    tasks, page = 0, Forgot(more=True)
    while page.more:
        page = until_answered(partial(store.forget, run, range(page.after + 1, MAX_ID), before=before, dry=dry))
        tasks += page.tasks
    return tasks


def forget_older(store: Store, run: int, older: Duration, reason: str = "", by: str | None = None) -> int:
    """Forget a run that ended longer ago than this, or the tasks of one that goes on that did; how many tasks went."""
    age = microseconds_in(older)
    if age is None:
        raise ConfigError(f"forget(older={older!r}): expected an age in seconds or a timedelta.")
    found = until_answered(lambda: store.reads.run(run))
    if not found.state.is_end:
        return forget_tasks(store, run, age)
    is_old = found.ended is not None and found.ended < store.now() - age
    return forget(store, run, reason, by) if is_old or found.state is RunState.FORGOTTEN else 0
