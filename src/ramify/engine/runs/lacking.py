"""Errors for runs that did not end with all of their results."""

from __future__ import annotations

from ramify.errors import RunCancelled, RunFailed
from ramify.inspect.status import Counts, counts_of
from ramify.model.run import RunState, StoredRun, Tolerance
from ramify.model.task import is_own
from ramify.store.error_groups import ErrorGroup, ErrorSummary
from ramify.store.reads import Reads

#: How many groups of errors stand in the text of RunFailed.
_GROUPS = 3


def failure_of(reads: Reads, run: StoredRun) -> RunFailed | None:
    """Return the exception for a run that ended but not as done; None for one that is done or has not ended."""
    if run.state not in (RunState.FAILED, RunState.CANCELLED, RunState.HALTED):
        return None
    return not_whole(run, _counts(reads, run), reads.errors(run.id))


def check_whole(reads: Reads, run: StoredRun) -> None:
    """Raise for a run that did not come to all of its results. One that was halted without failures did."""
    counts = _counts(reads, run)
    is_lacking = counts.failures and run.tolerates is Tolerance.NONE
    if is_lacking or run.state in (RunState.FAILED, RunState.CANCELLED):
        raise not_whole(run, counts, reads.errors(run.id))


def _counts(reads: Reads, run: StoredRun) -> Counts:
    """Return the numbers of its users' tasks; of ours, such as those that gather a map, only those that failed."""
    return sum((_failed(each) if is_own(kind) else each for kind, each in counts_of(reads, run.id).items()), Counts())


def _failed(counts: Counts) -> Counts:
    return Counts(added=counts.failures, failed=counts.failed, quarantined=counts.quarantined)


def not_whole(run: StoredRun, counts: Counts, errors: ErrorSummary) -> RunFailed:
    """Return what to raise for a run that did not come to all of its results."""
    groups = errors.groups
    shown = "; ".join(map(_in_words, groups[:_GROUPS]))
    rest = f"; and {len(groups) - _GROUPS} more kinds of error" if len(groups) > _GROUPS else ""
    among = "" if errors.complete else f", among the newest {errors.looked_at}"
    failed = f"{counts.failures} of {counts.added} tasks failed{among}{': ' if shown else ''}{shown}{rest}"
    what, partial = f"run {run.name or run.id}", "results(partial=True) gives the results that exist"
    if run.state is RunState.CANCELLED:
        because = f" ({run.reason})" if run.reason else ""
        also = f", {failed}" if counts.failures else ""
        return RunCancelled(
            f"{what} was cancelled{because}: {counts.cancelled} of {counts.added} tasks were cancelled{also}. "
            f"{partial}, retry(cancelled=True) retries cancelled tasks.",
            groups,
            errors.complete,
        )
    if counts.failures:
        return RunFailed(f"{what}: {failed}. {partial}, retry() retries the failed tasks.", groups, errors.complete)
    advice = f"{partial}, retry(cancelled=True) retries cancelled tasks."
    return RunFailed(f"{what} {run.state.value}: {run.reason}. {advice}", groups, errors.complete)


def _in_words(group: ErrorGroup) -> str:
    alike = "" if group.example == group.text else " and the like"
    return f"{group.count} x {group.kind}: {group.type}: {group.example}{alike}"
