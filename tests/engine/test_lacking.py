"""RunFailed says what failed, and when that is not all of it."""

import pytest

from ramify.engine.lacking import not_whole
from ramify.inspect.status import Counts
from ramify.model.run import RunState, StoredRun
from ramify.store.error_groups import ErrorGroup, ErrorSummary

GROUP = ErrorGroup("walk", "OSError", "gone", 2, (1, 2), "gone")


def stored(state: RunState) -> StoredRun:
    """A run that ended so."""
    return StoredRun(7, "walk", state=state, round=0, reason=None, created=0, ended=1, since=0)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
def test_failures_of_which_only_the_newest_were_looked_at_are_told_as_such(state: RunState) -> None:
    part = not_whole(stored(state), Counts(added=9, failed=5), ErrorSummary([GROUP], complete=False, others=1))
    assert "5 of 9 tasks failed, among the newest 3: 2 x walk: OSError: gone" in str(part)
    assert (part.groups, part.complete) == ((GROUP,), False)
    whole = not_whole(stored(state), Counts(added=9, failed=2), ErrorSummary([GROUP], complete=True))
    assert "2 of 9 tasks failed: 2 x walk: OSError: gone" in str(whole)
    assert whole.complete
