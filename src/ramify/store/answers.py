"""Answers of numbered verbs, kept in the session so that the last one can be sent again.

A claim is remembered by its tokens only: the rows themselves are the truth about it.
"""

from __future__ import annotations

import msgspec

from ramify.errors import BadPayload
from ramify.model.decoder import decoder
from ramify.model.reopening import Reopened


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form; `verb` catches a stamp that is reused for another verb.

    `looked` is the time up to which a claim that found nothing looked at due times.
    """

    verb: str
    done: bool = False
    seq: int = 0
    refused: tuple[bytes, ...] = ()
    lost: tuple[int, ...] = ()
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
