"""Verdicts: from what an attempt came to, to the event that records it and when it is tried again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

import msgspec

from ramify.errors import ConfigError, ValueContended
from ramify.kernel.attempts.values import DraftSwap
from ramify.kernel.core.handler import Policy
from ramify.kernel.core.holding import Holding
from ramify.kernel.core.work import Chunk, Dropped, Forgone, Interrupted, Postponed, Raised, Ran, Wait
from ramify.model.call import EXPIRED, NO_EXTRA
from ramify.model.event import UNTRIED, Status
from ramify.model.limit import Closes
from ramify.model.mark import reason_value
from ramify.model.outcome import Failure
from ramify.model.value import MOST_TRIES

#: How many values an error names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class EndedUntried:
    """A task ends like this without an attempt."""

    status: Status
    value: bytes | None


Verdict = Raised | Postponed | Dropped | Forgone | EndedUntried


def verdict_of(
    verdict: Verdict,
    holding: Holding,
    position: int,
    chance: Callable[[], float],
    limited_queues: Collection[str] = (),
) -> tuple[Status, bytes | None, Wait | None]:
    """The event of one attempt, and the wait for the next one, None when there is none."""
    match verdict:
        case Postponed(closes="lane" | "limit" as closes) if not _covers(closes, holding, limited_queues):
            return Status.FAILED, _unclosable(closes, holding.claim.kind).encode(), None
        case Postponed(seconds, reason, awaits, closes):
            value = reason_value(reason) or msgspec.json.encode({"seconds": seconds})
            return Status.DEFERRED, value, Wait(seconds, awaits, closes)
        case Dropped(reason, by):
            return Status.CANCELLED, reason_value(reason, by), None
        case Forgone(reason):
            return Status.SKIPPED, reason_value(reason), None
        case EndedUntried(status, value):
            return status, value, None
        case Raised(failure, final):
            policy = holding.handler.policy
            attempt = holding.attempts.get(position, 1)
            own = holding.extras.get(position, NO_EXTRA)
            if final or policy.is_last(attempt, own.retries):
                if own.spare:
                    return Status.SKIPPED, reason_value(f"{failure.type}: {failure.text}"), None
                return Status.FAILED, failure.encode(), None
            return Status.RETRYING, failure.encode(), Wait(policy.backoff.wait(attempt, chance()))
        case _:
            assert_never(verdict)


def _covers(closes: Closes, holding: Holding, limited_queues: Collection[str]) -> bool:
    """Return whether a limit covers a task that it could close. Those of other programs are in all, for all we know."""
    policy, claim = holding.handler.policy, holding.claim
    if closes == "lane":
        return policy.per_lane
    return policy.in_all or claim.queue in limited_queues or (claim.limited and not policy.per_lane)


def _unclosable(closes: Closes, kind: str) -> Failure:
    what, instead = ("per lane", 'max_running=..., per="lane"') if closes == "lane" else ("in all", "max_running=...")
    text = f"Defer(closes={closes!r}): no limit {what} covers {kind!r}. Write @engine.task({instead}), or leave it out."
    return Failure.of(ConfigError(text))


def known_ends(holding: Holding, now: int) -> dict[int, Verdict]:
    """Tasks of a claim made `now` that need no attempt: marked, quarantined, expired, or their members broke."""
    claim, policy = holding.claim, holding.handler.policy
    ends: dict[int, Verdict] = {}
    for task, mark in claim.marks.items():
        if mark.status is Status.RETRYING:
            # The process that ran it was killed for it, and could not say so itself.
            ends[task] = timed_out(policy, holding.extra_of(task).timeout)
        else:
            ends[task] = EndedUntried(mark.status, mark.end_value)
    # Blame needs proof: a row of one task, whose process died while it held nothing else.
    if len(claim.tasks) == 1 and claim.deaths.blames(policy.max_crashes):
        (task,) = claim.tasks
        text = f"{claim.deaths.count} processes died over it, the last one while it ran alone"
        ended = EndedUntried(Status.QUARANTINED, Failure("Quarantined", text).encode())
        spared = EndedUntried(Status.SKIPPED, reason_value(text))
        ends.setdefault(task, spared if holding.extra_of(task).spare else ended)
    for task, more in claim.details.items():
        if holding.extra_of(task).has_expired(now, claim.history.get(task, UNTRIED), claim.deaths):
            ends.setdefault(task, EndedUntried(Status.CANCELLED, reason_value(EXPIRED)))
        if more.members is not None and not more.rule.allows(more.members):
            ends.setdefault(task, EndedUntried(Status.SKIPPED, reason_value(more.rule.refusal(more.members))))
    return ends


def in_time(ran: Ran) -> Ran:
    """Return what a worker brings, or that it timed out: who comes late came to nothing, whatever kept anybody from
    saying so sooner. What is said of a task that did not come to an end stands.
    """
    chunk = ran.chunk
    ended = ran.done or [task for task, verdict in ran.others if isinstance(verdict, Raised | Postponed)]
    if chunk.limit is None or ran.seconds < chunk.limit or not ended:
        return ran
    late = timed_out(chunk.handler.policy, chunk.limit)
    return Ran(chunk, [], None, [(ended[0], late)], ran.offspring.undone(), ran.seconds, ran.busy)


def given_up(chunks: Iterable[Chunk], unwanted: Container[int], now: float) -> Iterator[Ran]:
    """Yield what is said of chunks that were waited for long enough, unless they are waited for after all.

    Of one that went on after a cancel nothing is said: the mark on its task is honoured by whoever claims it next.
    """
    for chunk in chunks:
        if chunk.is_late(now):
            late = timed_out(chunk.handler.policy, chunk.limit)
            yield Ran(chunk, others=[(chunk.tasks[0], late)], seconds=chunk.limit or 0.0)
        elif any(task in unwanted for task in chunk.tasks):
            yield Ran(chunk, others=[(task, Interrupted()) for task in chunk.tasks])


def contended(holding: Holding, swaps: Iterable[DraftSwap]) -> Raised:
    """An attempt that was made again and again, because others changed the values that it read."""
    values = [f"{name!r} of {space!r}" for (space, name), seen, *_ in swaps if seen is not None]
    shown = ", ".join(values[:_NAMED]) + (f" and {len(values) - _NAMED} more" if len(values) > _NAMED else "")
    text = (
        f"others changed a value {MOST_TRIES + 1} times in a row between its read and the end of this task: {shown}. "
        "Read it at the end of the task, or split it into several values."
    )
    final = not holding.handler.policy.retries_after(ValueContended)
    return Raised(Failure.of(ValueContended(text)), final=final)


def timed_out(policy: Policy, limit: float | None) -> Raised:
    """An attempt that was over its time limit: the call's own, or that of its kind."""
    limit = policy.timeout if limit is None else limit
    failure = Failure("TimeoutError", "no result in time" if limit is None else f"no result after {limit:g} seconds")
    return Raised(failure, final=not policy.retries_after(TimeoutError))
