"""Answers of numbered verbs, kept in the session so that the last one can be sent again.

A claim is remembered by its tokens only: the rows themselves are the truth about it.
"""

from __future__ import annotations

import msgspec

from ramify.errors import BadPayload
from ramify.model.claim import Claimed, Want, within_bounds
from ramify.model.commit import Committed
from ramify.model.decoder import decoder
from ramify.model.reopening import Reopened
from ramify.store.sqlite import claims, due_rows, held
from ramify.store.sqlite.claims import Taken
from ramify.store.sqlite.db import Db


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form; `verb` catches a stamp that is reused for another verb.

    `looked` is the time up to which a claim that found nothing looked at due times.
    """

    verb: str
    done: bool = False
    seq: int = 0
    refused: tuple[bytes, ...] = ()
    tokens: tuple[bytes, ...] = ()
    suspects: bool = False
    looked: int = 0
    reopened: Reopened = Reopened()


_answer = decoder(Answer)


def remember(answer: Answer) -> bytes:
    """The bytes to keep."""
    return msgspec.json.encode(answer)


def recall(stored: bytes, verb: str) -> Answer:
    """The answer that was kept, for the same verb."""
    answer = _answer.decode(stored)
    if answer.verb != verb:
        raise BadPayload("this stamp was used for another verb; number the verbs of a process 1, 2, 3, …")
    return answer


def of_claim(taken: Taken) -> Answer:
    """Return what to keep of a claim."""
    return Answer("claim", tokens=taken.tokens, suspects=taken.suspects, looked=_looked(taken))


def of_commit(seq: int, refused: tuple[bytes, ...], taken: Taken) -> Answer:
    """Return what to keep of a commit and of the claim it carried."""
    return Answer(
        "commit", seq=seq, refused=refused, tokens=taken.tokens, suspects=taken.suspects, looked=_looked(taken)
    )


def _looked(taken: Taken) -> int:
    return 0 if taken.tokens else taken.looked


def claimed(db: Db, answer: Answer, want: Want, now: int) -> Claimed:
    """The claims of an answer, read from their rows: the same the first time and every time it is sent again.

    What is left to take is what it is now. A claim that got less than it asked for has left nothing. Only one that
    found nothing looks for the next row that is due: a process that got something claims again before it rests.
    """
    found = within_bounds(held.read(db, answer.tokens))
    emptied = found and not found[0].deaths.apart and sum(len(claim.tasks) for claim in found) < want.limit
    left = held.time_left(db, {claim.run for claim in found}, now)
    ready = 0 if emptied else claims.ready(db, want, now)
    next_due = None if found or ready else due_rows.next_due(db, want, answer.looked, now)
    return Claimed(found, answer.suspects, ready, left, now, next_due)


def committed(db: Db, answer: Answer, process: int, then_claim: Want | None, now: int) -> Committed:
    """The answer to a commit; marks are what they are now."""
    taken = Claimed() if then_claim is None else claimed(db, answer, then_claim, now)
    return Committed(answer.seq, answer.refused, held.marks_for(db, process), taken, now)
