"""Decisions of people about runs and tasks, sent so that each counts once and never late.

Promises: each decision names what its maker had seen, the last decision about the run or the life of the task, and is
sent again under the same name until it is answered. So a copy that arrives late changes nothing, whatever was decided
meanwhile. Who decides is noted with it: `user@host` unless told otherwise.

A cancel that another decision overtook is decided anew; a pause that a resume overtook is over.
"""

from __future__ import annotations

from functools import partial

import msgspec

from ramify.engine.runs.keyed import check_in_place
from ramify.engine.runs.reopening import reopen
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, Settled
from ramify.model.run import RunState
from ramify.shapes.start import until_answered
from ramify.store.contract import Store
from ramify.store.here import person


class Resolved(msgspec.Struct, frozen=True):
    """The answer of `resolve`. A task that had ended is left alone if another one has taken its key since."""

    settled: Settled
    superseded_by: int | None = None


def pause(store: Store, run: int, reason: str = "", by: str | None = None) -> RunState:
    """Grant no more work of a run."""
    said = _about_run(store, run, reason, by)
    return until_answered(lambda: store.pause(run, said))


def resume(store: Store, run: int, reason: str = "", by: str | None = None) -> RunState:
    """Let a run go on."""
    said = _about_run(store, run, reason, by)
    return until_answered(lambda: store.resume(run, said))


def cancel(store: Store, run: int, reason: str = "", by: str | None = None) -> Settled:
    """Let a run end as cancelled."""
    answer = Settled.OVERTAKEN
    while answer is Settled.OVERTAKEN:
        answer = until_answered(partial(store.cancel, run, said=_about_run(store, run, reason, by)))
    return answer


def halt(store: Store, run: int, reason: str) -> None:
    """Let a run end as halted, as a rule of the program says. A store that is away is not waited for."""
    answer = Settled.OVERTAKEN
    while answer is Settled.OVERTAKEN:
        said = Said(reason, after=store.reads.run(run).decisions)
        answer = store.cancel(run, said=said, into=RunState.HALTED)


def cancel_task(
    store: Store, run: int, task: int, *, below: bool = False, reason: str = "", by: str | None = None
) -> Settled:
    """Cancel a task, or it and everything below it."""
    said = _about_task(store, task, reason, by)
    return until_answered(lambda: store.cancel(run, task, below=below, said=said))


def resolve(
    store: Store, run: int, task: int, status: Status, value: bytes | None, reason: str = "", by: str | None = None
) -> Resolved:
    """Say how a task counts, whether it has ended or not: as done with a result, or as skipped."""
    before = until_answered(lambda: store.reads.history(task))
    said = Said(reason, person() if by is None else by, life=before.life)
    if before.ended is not None:
        check_in_place(store.reads, [task])
        mark = Mark(run, Scope.TASK, task, status, said.reason, value, said.by)
        # What was skipped because of it, or ran without it, is tried once more.
        opened = reopen(store, run, [task], said, mark)
        if task in (taken := dict(opened.superseded)):
            return Resolved(Settled.ENDED, taken[task])
        # CRASH: it is open again, and marked -> the next worker ends it as the mark says.
        said = msgspec.structs.replace(said, life=before.life + 1)
    answer = until_answered(lambda: store.settle(run, task, status, value, said))
    if answer is Settled.CERTAIN:
        # Perhaps nobody works, and it was the last.
        while until_answered(lambda: store.advance([(run, store.reads.run(run).round)]))[0].moved:
            pass
    return Resolved(answer)


def _about_run(store: Store, run: int, reason: str, by: str | None) -> Said:
    seen = until_answered(lambda: store.reads.run(run)).decisions
    return Said(reason, person() if by is None else by, after=seen)


def _about_task(store: Store, task: int, reason: str, by: str | None) -> Said:
    seen = until_answered(lambda: store.reads.history(task)).life
    return Said(reason, person() if by is None else by, life=seen)
