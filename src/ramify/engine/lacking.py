"""What is said of a run that did not come to all of its results."""

from __future__ import annotations

from ramify.errors import RunCancelled, RunFailed
from ramify.inspect.status import Counts
from ramify.model.run import RunState, StoredRun
from ramify.store.error_groups import ErrorGroup, ErrorSummary

#: How many groups of errors stand in the text of RunFailed.
_GROUPS = 3


def not_whole(run: StoredRun, counts: Counts, errors: ErrorSummary) -> RunFailed:
    """What to raise for a run that did not come to all of its results."""
    groups = errors.groups
    shown = "; ".join(map(_in_words, groups[:_GROUPS]))
    rest = f"; and {len(groups) - _GROUPS} more kinds of error" if len(groups) > _GROUPS else ""
    among = "" if errors.complete else f", among the newest {errors.looked_at}"
    failed = f"{counts.failures} of {counts.added} tasks failed{among}{': ' if shown else ''}{shown}{rest}"
    what, partial = f"run {run.name or run.id}", "results(partial=True) gives what there is"
    if run.state is RunState.CANCELLED:
        because = f" ({run.reason})" if run.reason else ""
        also = f", {failed}" if counts.failures else ""
        return RunCancelled(
            f"{what} was cancelled{because}: {counts.cancelled} of {counts.added} tasks were cancelled{also}. "
            f"{partial}, retry(cancelled=True) takes up what was cancelled",
            groups,
            errors.complete,
        )
    why = failed if counts.failures else run.reason
    return RunFailed(f"{what}: {why}. {partial}, retry() tries them again", groups, errors.complete)


def _in_words(group: ErrorGroup) -> str:
    alike = "" if group.example == group.text else " and the like"
    return f"{group.count} x {group.kind}: {group.type}: {group.example}{alike}"
