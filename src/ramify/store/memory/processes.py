"""Processes in the reference store: entering, beating, leaving, and the reaper.

Here a dead process can only be told by its missing beats; a store with locks knows more, and sooner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ramify.model.blame import after_death
from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.deciding import storable_said
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.log import LogLine, StoredLine
from ramify.model.mark import Mark, Scope
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, Reap
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.store.contract import GAP_SHARE, SESSION_SECONDS, Vacuumed
from ramify.store.memory import commits
from ramify.store.memory.place import BEATS_KEPT, Place, SegmentRow, SessionRow


def enter(place: Place, process: NewProcess, now: int, tick: int) -> None:
    """Open a session; sent again, it stays as it is."""
    if process.id in place.sessions:
        place.session(process.id)
        return
    place.sessions[process.id] = SessionRow(process, now, deque([tick], maxlen=BEATS_KEPT))


def drain(place: Place, process: int, said: Said) -> bool:
    """Note that a process is to leave; False when its session has ended, or never began."""
    session = place.sessions.get(process)
    if session is None or session.gone_at is not None:
        return False
    session.draining = session.draining or storable_said(said)
    return True


def bury(place: Place, process: int, now: int, death: Death) -> int:
    """End a session and void its claims; the tasks offered again."""
    session = place.sessions.get(process)
    if session is None or session.gone_at is not None:
        return 0
    session.gone_at = now
    tasks = 0
    for row in sorted(place.held_by(process), key=lambda row: row.id):
        tasks += row.count
        late = [Mark(row.run, Scope.TASK, task, Status.RETRYING) for task in death.late if row.covers(task)]
        place.marks.setdefault(row.run, []).extend(late)
        _offer_again(place, row, death)
    return tasks


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
    return Reap(tuple(dead), sum(bury(place, number, now, place.records.get(number, NOBODYS_FAULT)) for number in dead))


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


def _offer_again(place: Place, row: SegmentRow, death: Death) -> None:
    commits.put_back(place, row)
    before = (row.first, row.last, row.left), row.deaths
    offered = after_death(*before, death)
    if offered == [before]:
        return
    for (first, last, left), deaths in offered:
        place.copy_segment(row, first=first, last=last, left=left, deaths=deaths)
    place.drop_segment(row)


def note(place: Place, process: int, lines: Sequence[LogLine]) -> None:
    """Keep the lines of a process that are not here yet; of a run that was forgotten, none."""
    for line in lines:
        run = place.runs.get(line.run)
        if (process, line.n) not in place.noted and (run is None or run.state is not RunState.FORGOTTEN):
            place.noted.add((process, line.n))
            place.lines.append(StoredLine(place.next_line, process, line))
            place.next_line += 1


def vacuum(place: Place, now: int, limit: int) -> Vacuumed:
    """Remove what nobody can reach."""
    ends = ((row.expires, name) for name, row in place.keys.items() if row.expires is not None)
    expired = sorted((end, name) for end, name in ends if end <= now)[:limit]
    for _, name in expired:
        del place.keys[name]
    sessions = _forget_old(place, now - SESSION_SECONDS * SECOND)
    return Vacuumed(_remove_garbage(place, limit), len(expired), sessions)


def _forget_old(place: Place, before: int) -> int:
    """Remove sessions that ended before a time; nothing can name them any more."""
    old = [number for number, s in place.sessions.items() if s.gone_at is not None and s.gone_at < before]
    for number in old:
        del place.sessions[number]
    return len(old)


def _remove_garbage(place: Place, limit: int) -> int:
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
