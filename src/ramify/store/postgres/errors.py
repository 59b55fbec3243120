"""Errors of a server in our words: away or outcome unknown, refused here, or a person is needed."""

from __future__ import annotations

from ramify.errors import StoreBroken, StoreError, StoreRefused, StoreUnavailable
from ramify.store.postgres.pipe import Refused

#: Nothing was changed, and the same once more may go well: a deadlock, a conflict of transactions, a row that somebody
#: else has added since it was looked for, and something relied on that is not so any more (its check divides by zero).
REDO = frozenset({"40001", "40P01", "23505", "22012"})
#: A lock that is not waited for.
IS_LOCKED = "55P03"
#: Classes of reasons that pass: connection, resources, objects in use, an operator's or a time limit's intervention.
_PASSING = ("08", "40", "53", "55", "57", "58")
_ENDED_BY_TIME = ("25P02", "25P03", "25P04", "23505")
_IS_STANDBY = "25006"
_NOT_ALLOWED = ("42501", "28000", "28P01", "3D000")


def explain(error: Refused, place: str) -> StoreError:
    """The same in our tree of errors."""
    text = f"{place}: {error} ({error.code})"
    if error.code == _IS_STANDBY:
        return StoreUnavailable(f"{text}. This server is a standby; work goes on when it is promoted")
    if error.code[:2] in _PASSING or error.code in _ENDED_BY_TIME:
        return StoreUnavailable(f"{text}; try again")
    if error.code in _NOT_ALLOWED:
        return StoreRefused(f"{text}. Check the address and what its user may do")
    return StoreBroken(text)
