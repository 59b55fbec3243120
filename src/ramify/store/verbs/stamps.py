"""Stamps: whether a numbered verb is new, was the last one and is answered again, or came too late."""

from __future__ import annotations

from ramify.errors import BadPayload, Reaped, StaleStamp
from ramify.model.process import Stamp
from ramify.store.answers import Answer, recall
from ramify.store.tables import Session


def answered(session: Session | None, stamp: Stamp, verb: str) -> Answer | None:
    """Return what this verb was answered when it came first; None when it is new."""
    if session is None:
        raise Reaped(f"process {stamp.process:x} was reaped or never entered; enter again as a new process")
    if stamp.n > session.last:
        return None
    if stamp.n < session.last:
        raise StaleStamp(f"verb {stamp.n} of process {stamp.process:x} is older than its last, {session.last}")
    if session.answer is None:
        raise BadPayload("there is no verb 0; number the verbs of a process 1, 2, 3, …")
    return recall(session.answer, verb)
