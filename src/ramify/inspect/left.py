"""The work left in a store when nothing is ready: what waits, for what, and until when. One bounded pass."""

from __future__ import annotations

from collections import Counter
from functools import cache

from ramify.inspect.live import rows_of, wait_of, width
from ramify.inspect.words import SECOND, duration, plural
from ramify.model.policy import PARKED
from ramify.model.run import RunState
from ramify.store.contract import Store

#: What the fields of `Amounts` mean to whoever has done all that it could; and what waits at the gate of a pause.
_WAITS = {
    "held": "in the hands of others",
    "ready": "of runs, queues or kinds that are not served here",
    "limited": "waiting for a place of a limit",
    "suspect": "that must run apart",
    "asking": "waiting for an answer",
    "paused": "of runs or queues that are paused",
    "gated": "of later rounds",
    "joining": "waiting for others",
}


def left_in_words(store: Store) -> str:
    """Return what is left, by what it waits for; empty when nothing is."""
    now = store.now()
    many: Counter[str] = Counter()
    dues: list[int] = []
    is_paused = cache(lambda run: store.reads.run(run).state is RunState.PAUSED)
    for row in rows_of(store.reads, None):
        wait = wait_of(row, now)
        if wait == "gated" and is_paused(row.run):
            wait = "paused"
        if wait is not None:
            many[wait] += width(row)
            if wait == "later" and row.due is not None and row.due < PARKED:
                dues.append(row.due)
    said = [f"{plural(many[wait], 'task')} {words}" for wait, words in _WAITS.items() if many[wait]]
    if many["later"]:
        first = f", the first in {duration((min(dues) - now) / SECOND)}" if dues else ""
        said.insert(0, f"{plural(many['later'], 'task')} due later{first}")
    return "; ".join(said)
