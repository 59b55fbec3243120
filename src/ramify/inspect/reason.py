"""Why a run ended as it did, in one line: what was said when it was stopped, or which of its tasks did not end well."""

from __future__ import annotations

from ramify.inspect.words import plural
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.run import RunState, StoredRun
from ramify.store.reads import Reads

#: How many tasks are named.
_NAMED = 3


def reason_of(reads: Reads, run: StoredRun) -> str | None:
    """Why a run is paused or ended; None when there is nothing to say."""
    if run.state is RunState.PAUSED:
        return (run.decision and run.decision.reason) or None
    if run.state in (RunState.OPEN, RunState.DONE):
        # Why it was stopped before somebody opened it again is no reason any more.
        return None
    if run.reason or run.state not in (RunState.FAILED, RunState.HALTED):
        return run.reason
    kinds = reads.counts(run.id)
    told = []
    for status, ended in ((Status.FAILED, "failed"), (Status.QUARANTINED, "quarantined")):
        if many := sum(counts.get(status, 0) for counts in kinds.values()):
            rows = reads.results(run.id, status=status, limit=_NAMED).rows
            names = ", ".join(_called(reads, row.task) for row in rows) + (", …" if many > _NAMED else "")
            told.append(f"{plural(many, 'task')} {ended}: {names}")
    return "; ".join(told) or None


def _called(reads: Reads, task: int) -> str:
    row = reads.task(task)
    # The first task of a branch has the name of the branch with a dot behind it.
    key = None if row is None else key_text(row.key)
    return f"{'' if row is None else row.kind} ({task})" if key is None else key.removesuffix(".")
