"""Expiry: a job that was not begun in time gives up its key to who asks for it, although no worker has come by.

Whoever claims such a job ends it as cancelled. Until then it is queued, and a request with its key would be answered
with a job that never runs.

Promises: nothing that was begun is ended. Once a job has expired, no claim begins it, so whoever is faster than the one
who found it unclaimed ends it as well.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ramify.engine.runs.deciding import cancel_task
from ramify.model.call import EXPIRED, Extra
from ramify.model.mark import Settled
from ramify.model.segment import SegmentState
from ramify.shapes.start import until_answered
from ramify.store.contract import Store


def end_expired(store: Store, jobs: Collection[int]) -> set[int]:
    """End those of these jobs that were not begun in time; the ones that have ended by now."""
    standings = until_answered(partial(store.reads.standings, list(jobs))) if jobs else {}
    ended: set[int] = set()
    for job, standing in standings.items():
        segment, extra = standing.segment, Extra.decode(standing.row.more)
        is_unclaimed = segment is not None and segment.state in (SegmentState.READY, SegmentState.LIMITED)
        if segment is None or not is_unclaimed or extra.until is None:
            continue
        history = until_answered(partial(store.reads.history, job))
        if extra.has_expired(store.now(), history, segment.deaths):
            answer = cancel_task(store, standing.row.run, job, reason=EXPIRED, by="")
            if answer in (Settled.CERTAIN, Settled.ENDED):
                ended.add(job)
    return ended
