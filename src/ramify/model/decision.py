"""Decisions: what a person decided about a run, when, who it was and why.

The decisions about a run are numbered from 1, and all of them are kept. Whoever decides names the number they have
seen; if another decision was made since, theirs was overtaken and changes nothing. So a `pause` that arrives after the
`resume` that followed it stays without effect.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class What(StrEnum):
    """The kind of a decision. The words are stored; never reuse one for something else."""

    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    REOPENED = "reopened"
    FORGOTTEN = "forgotten"


class Decision(msgspec.Struct, frozen=True):
    """One decision about a run. `at` is the store's time; what a rule of a program decides is `by` nobody."""

    n: int
    what: What
    by: str = ""
    reason: str = ""
    at: int = 0

    def __str__(self) -> str:
        return f"{self.what.value}{in_words(self.by, self.reason)}"


class Said(msgspec.Struct, frozen=True):
    """The reason for a decision, and who decides.

    `after` is the number of the decision about the run that it follows, `life` the life of the task that is meant; None
    means whichever it is, and is for callers whose verbs are never delivered late.
    """

    reason: str = ""
    by: str = ""
    after: int | None = None
    life: int | None = None


UNSAID = Said()


def in_words(by: str, reason: str) -> str:
    """Return who and why, to be put behind what was done."""
    return (f" by {by}" if by else "") + (f": {reason}" if reason else "")
