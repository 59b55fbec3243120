"""What numbered verbs answered, kept in the session so that the last one can be sent again.

A claim is remembered by its tokens only: the rows themselves are the truth about it.
"""

from __future__ import annotations

import msgspec

from ramify.errors import BadPayload
from ramify.model.claim import Claimed
from ramify.model.commit import Committed
from ramify.store.contract import Reopened
from ramify.store.sqlite import claims, rows
from ramify.store.sqlite.db import Db


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form; `verb` catches a stamp that is reused for another verb."""

    verb: str
    done: bool = False
    seq: int = 0
    refused: tuple[bytes, ...] = ()
    tokens: tuple[bytes, ...] = ()
    suspects: bool = False
    reopened: Reopened = Reopened()


def remember(answer: Answer) -> bytes:
    """The bytes to keep."""
    return msgspec.json.encode(answer)


def recall(stored: bytes, verb: str) -> Answer:
    """The answer that was kept, for the same verb."""
    answer = msgspec.json.decode(stored, type=Answer)
    if answer.verb != verb:
        raise BadPayload("this stamp was used for another verb; number the verbs of a process 1, 2, 3, …")
    return answer


def of_claim(claimed: Claimed, verb: str = "claim", *, seq: int = 0, refused: tuple[bytes, ...] = ()) -> Answer:
    """What to keep of a claim, or of a commit with one."""
    tokens = tuple(claim.token for claim in claimed.claims)
    return Answer(verb, seq=seq, refused=refused, tokens=tokens, suspects=claimed.suspects)


def claimed_again(db: Db, answer: Answer) -> Claimed:
    """The same claims, read from their rows."""
    found = [row for token in answer.tokens for row in rows.segments(db, "WHERE token = ? AND state = 3", (token,))]
    return Claimed(tuple(claims.read(db, found)), answer.suspects)


def committed_again(db: Db, answer: Answer, process: int) -> Committed:
    """The same answer to a commit; marks are what they are now."""
    return Committed(answer.seq, answer.refused, claims.marks_for(db, process), claimed_again(db, answer))
