"""Processes in the reference store: entering, beating, leaving, and the reaper.

Here a dead process can only be told by its missing beats; a store with locks knows more, and sooner.
"""

from __future__ import annotations

from collections import deque

from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, Reap
from ramify.model.segment import SegmentState, mask_of, reoffer, tasks_in, trim
from ramify.store.contract import GAP_SHARE
from ramify.store.memory import commits
from ramify.store.memory.place import BEATS_KEPT, Place, SegmentRow, SessionRow


def enter(place: Place, process: NewProcess, now: int, tick: int) -> None:
    """Open a session; sent again, it stays as it is."""
    if process.id in place.sessions:
        place.session(process.id)
        return
    place.sessions[process.id] = SessionRow(process, now, deque([tick], maxlen=BEATS_KEPT))


def bury(place: Place, process: int, now: int) -> int:
    """End a session and void its claims; the tasks offered again."""
    session = place.sessions[process]
    session.gone_at = now
    tasks = 0
    for row in sorted(place.held_by(process), key=lambda row: row.id):
        tasks += row.count
        _offer_again(place, row, session)
    return tasks


def leave(place: Place, process: int, now: int) -> None:
    """End a session on purpose: nobody is blamed."""
    session = place.sessions.get(process)
    if session is not None and session.gone_at is None:
        session.blame_announced, session.blame = True, None
        bury(place, process, now)


def reap(place: Place, process: int, dead_after: float, now: int, tick: int) -> Reap:
    """Bury the processes that have not beaten for `dead_after` seconds."""
    reaper = place.session(process)
    limit = int(dead_after * SECOND)
    if not clean_window(reaper.beats, limit, tick):
        return Reap(clean_window=False)
    dead = [
        number
        for number, session in sorted(place.sessions.items())
        if number != process and session.gone_at is None and tick - session.beats[-1] > limit
    ]
    return Reap(tuple(dead), sum(bury(place, number, now) for number in dead))


def clean_window(beats: deque[int], limit: int, tick: int) -> bool:
    """Whether these beats reach back `limit` from `tick` with no gap over `limit / GAP_SHARE`."""
    later = tick
    for beat in reversed(beats):
        if later - beat > limit // GAP_SHARE:
            return False
        if tick - beat >= limit:
            return True
        later = beat
    return False


def _offer_again(place: Place, row: SegmentRow, session: SessionRow) -> None:
    """The unfinished tasks of a dead process's row, in parts if they are suspect."""
    ran_alone = row.crashes > 0 and row.count == 1
    commits.put_back(place, row)
    if not session.blame_announced:
        _replace(place, row, reoffer(row.first, row.last, row.left), row.crashes + 1, ran_alone)
    elif session.blame is not None and row.covers(session.blame):
        rest = [task for task in tasks_in(row.first, row.last, row.left) if task != session.blame]
        _replace(place, row, [(session.blame, session.blame, None)], row.crashes + 1, alone=True)
        if rest:
            _replace(place, row, [trim(rest[0], mask_of(rest, rest[0]))], row.crashes, row.alone)


def _replace(
    place: Place, row: SegmentRow, parts: list[tuple[int, int, int | None]], crashes: int, alone: bool
) -> None:
    for first, last, left in parts:
        place.add_segment(
            row.span, round=row.round, first=first, last=last, left=left, rank=row.rank, due=row.due, state=row.state,
            attempt=row.attempt, crashes=crashes, alone=alone,
        )  # fmt: skip
    if row.id in place.segments:
        place.drop_segment(row)


def forget_old(place: Place, before: int) -> int:
    """Remove sessions that ended before a time; nothing can name them any more."""
    old = [number for number, s in place.sessions.items() if s.gone_at is not None and s.gone_at < before]
    for number in old:
        del place.sessions[number]
    return len(old)


def remove_garbage(place: Place, limit: int) -> int:
    """Remove up to `limit` unpublished rows that nobody will publish."""
    removed = 0
    garbage = [row for row in place.segments.values() if row.state is SegmentState.GARBAGE]
    for row in sorted(garbage, key=lambda row: row.first):
        size = min(row.count, limit - removed)
        removed += size
        row.last -= size
        for column in (row.span.bodies, row.span.parents, row.span.keys, row.span.mores):
            if column is not None and size:
                del column[-size:]
        if row.last < row.first:
            place.firsts.remove(row.span.first)
            del place.spans[row.span.first]
            place.drop_segment(row)
    return removed
