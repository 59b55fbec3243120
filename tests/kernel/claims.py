"""Claims and handlers made by hand, for tests of the parts of the core that need no store."""

from __future__ import annotations

from typing import Any

from ramify.kernel.core.core import Core
from ramify.kernel.core.handler import Calling, Handler, Policy
from ramify.kernel.core.holding import Holding
from ramify.kernel.core.work import Chunk
from ramify.kernel.settings import Settings
from ramify.model.claim import Claim, Claimed
from ramify.model.codec import Signature
from ramify.model.commit import Committed
from ramify.store.contract import Beat


def work(number: int) -> None:
    """A function that tests never call."""


SIGNATURE = Signature.of(work)


def handler(kind: str = "work", colour: Calling = Calling.PLAIN, **policy: Any) -> Handler:
    """A handler with this policy."""
    return Handler(kind, work, SIGNATURE, colour, Policy(**policy))


def claim(tasks: int = 4, first: int = 100, kind: str = "work", run: int = 1, **fields: Any) -> Claim:
    """A claim of some tasks in a row."""
    ids = range(first, first + tasks)
    known: dict[str, Any] = {
        "token": b"%s-%d" % (kind.encode(), first),
        "run": run,
        "round": 0,
        "kind": kind,
        "queue": "default",
        "lane": None,
        "tasks": ids,
        "bodies": [b"[%d]" % task for task in ids],
        "parents": [None] * tasks,
        "details": {},
        "history": {},
        "marks": {},
    }
    return Claim(**{**known, **fields})


def holding(tasks: int = 4, by: Handler | None = None, **fields: Any) -> Holding:
    """A holding of such a claim."""
    return Holding(claim(tasks, **fields), by if by is not None else handler())


def core(*handlers: Handler, **settings: Any) -> Core:
    """A core that has entered at 0, and adapts nothing unless told to."""
    known = {made.kind: made for made in handlers or (handler(),)}
    made = Core(known, Settings(**{"threads": 4, "coroutines": 4, **settings}), lambda: 0.5)
    made.entered(Beat(), 0.0)
    return made


def lease(of: Core, now: float = 0.0, colour: bool = False) -> Chunk:
    """A chunk; it is an error when there is none."""
    chunk = of.lease(colour, now)
    assert chunk is not None
    return chunk


def answer(*claims: Claim, **fields: Any) -> Committed:
    """The answer to a commit that was applied."""
    return Committed(1, claimed=Claimed(claims), **fields)
