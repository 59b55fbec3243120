"""Polling: tasks that are called again until they give something, or until their time is up.

Nobody waits meanwhile: between two looks such a task is a row with a due time. How long it has been tried is told by
the store, so that neither a kill nor a change of process starts the wait anew.
"""

from __future__ import annotations

from ramify.errors import StoreUnavailable
from ramify.kernel.attempts.attempt_env import AttemptEnv
from ramify.kernel.core.work import Postponed, Raised, Ran
from ramify.kernel.tuning import STORE_PAUSE
from ramify.model.event import UNTRIED
from ramify.model.outcome import Failure

#: Results that mean "not yet", as they are stored.
NOTHING = (None, b"false")


def looked(ran: Ran, attempt_env: AttemptEnv) -> Ran:
    """Return the outcome of the one task of a chunk that polls: it looks again if it found nothing in time."""
    polls = ran.chunk.polls
    assert polls is not None
    pause, reason, awaits, closes = polls.every, "", None, None
    if ran.done:
        found = ran.values[0] if ran.values is not None else None
        if pause is None or found not in NOTHING:
            return ran
    elif ran.others and isinstance(verdict := ran.others[0][1], Postponed):
        pause, reason, awaits, closes = verdict.seconds, verdict.reason, verdict.awaits, verdict.closes
    else:
        return ran
    assert pause is not None
    task = ran.tasks[0]
    again: Postponed | Raised = Postponed(pause, reason, awaits, closes)
    if polls.within is not None:
        life = ran.chunk.claim.history.get(task, UNTRIED).life
        try:
            left = polls.within - attempt_env.library.tried_for(task, life)
        except StoreUnavailable:
            left = pause = STORE_PAUSE
        again = Postponed(min(pause, left), reason, awaits, closes)
        if left <= 0:
            text = f"timed out after {polls.within:g} seconds: it was called again and again, and gave nothing"
            again = Raised(Failure("TimeoutError", text), final=True)
    return Ran(ran.chunk, [], None, [(task, again)], ran.offspring.undone(), ran.seconds, ran.busy, ran.took)
