"""Verdicts: from what an attempt came to, to the event that records it and when it is tried again. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from ramify.kernel.handler import Policy
from ramify.kernel.holding import Holding
from ramify.kernel.work import Dropped, Postponed, Raised
from ramify.model.call import NO_EXTRA, Extra
from ramify.model.claim import Claim
from ramify.model.event import Status
from ramify.model.mark import reason_value
from ramify.model.outcome import Failure

End = tuple[Status, bytes | None]


def verdict_of(
    verdict: Raised | Postponed | Dropped, holding: Holding, place: int, luck: Callable[[], float]
) -> tuple[Status, bytes | None, float | None]:
    """The event of one attempt, and the seconds until the next one, None when there is none."""
    match verdict:
        case Postponed(seconds):
            return Status.DEFERRED, msgspec.json.encode({"seconds": seconds}), seconds
        case Dropped(reason):
            return Status.CANCELLED, reason_value(reason), None
        case Raised(failure, final):
            policy = holding.handler.policy
            attempt = holding.attempts.get(place, 1)
            own = holding.extras.get(place, NO_EXTRA).retries
            if final or attempt > (policy.retries if own is None else own):
                return Status.FAILED, failure.encode(), None
            return Status.RETRYING, failure.encode(), policy.backoff.wait(attempt, luck())
        case _:
            assert_never(verdict)


def known_ends(claim: Claim, policy: Policy) -> dict[int, End]:
    """Tasks of a fresh claim that end without an attempt: marked, quarantined, or waiting for members that broke."""
    ends: dict[int, End] = {}
    for task, mark in claim.marks.items():
        ends[task] = (mark.status, mark.value if mark.value is not None else reason_value(mark.reason))
    most = policy.max_crashes
    # Blame needs proof: a row of one task, whose process died while it held nothing else.
    if most is not None and claim.crashes >= most and len(claim.tasks) == 1 and claim.alone:
        text = f"{claim.crashes} processes died over it, the last one while it ran alone"
        ends.setdefault(claim.tasks[0], (Status.QUARANTINED, Failure("Quarantined", text).encode()))
    for task, more in claim.mores.items():
        if more.broken and not Extra.decode(more.extra).always:
            text = f"{more.broken} of the {more.members} tasks it waits for did not end well"
            ends.setdefault(task, (Status.SKIPPED, reason_value(text)))
    return ends
