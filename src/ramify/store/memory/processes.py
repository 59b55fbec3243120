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
from ramify.store.memory import commits, topics, values
from ramify.store.memory.tables import BEATS_KEPT, MemorySegment, MemoryTables, SessionRow


def enter(tables: MemoryTables, process: NewProcess, now: int, tick: int) -> None:
    """Open a session; sent again, it stays as it is."""
    if process.id in tables.sessions:
        tables.session(process.id)
        return
    tables.sessions[process.id] = SessionRow(process, now, deque([tick], maxlen=BEATS_KEPT))
    tables.starts += process.kinds != ()


def peers(tables: MemoryTables) -> int:
    """How many sessions have not ended."""
    return sum(session.gone_at is None for session in tables.sessions.values())


def drain(tables: MemoryTables, process: int, said: Said) -> bool:
    """Note that a process is to leave; False when its session has ended, or never began."""
    session = tables.sessions.get(process)
    if session is None or session.gone_at is not None:
        return False
    session.draining = session.draining or storable_said(said)
    return True


def bury(tables: MemoryTables, process: int, now: int, death: Death) -> int:
    """End the session of a dead process, and count its death; the tasks offered again."""
    session = tables.sessions.get(process)
    # One that knows no kinds came to change something, and works on nothing.
    is_death = session is not None and session.gone_at is None and session.new.kinds != ()
    tasks = end(tables, process, now, death)
    tables.deaths += is_death
    tables.redelivered += tasks if is_death else 0
    return tasks


def end(tables: MemoryTables, process: int, now: int, death: Death) -> int:
    """End a session and void its claims; the tasks offered again."""
    session = tables.sessions.get(process)
    if session is None or session.gone_at is not None:
        return 0
    session.gone_at = now
    tasks = 0
    for row in sorted(tables.held_by(process), key=lambda row: row.id):
        tasks += row.count
        late = [Mark(row.run, Scope.TASK, task, Status.RETRYING) for task in death.late if row.covers(task)]
        tables.marks.setdefault(row.run, []).extend(late)
        _offer_again(tables, row, death)
    return tasks


def reap(tables: MemoryTables, process: int, dead_after: float, now: int, tick: int) -> Reap:
    """Bury the processes that have not beaten for `dead_after` seconds."""
    reaper = tables.session(process)
    limit = int(dead_after * SECOND)
    if not clean_window(reaper.beats, limit, tick):
        return Reap(clean_window=False)
    dead = [
        number
        for number, session in sorted(tables.sessions.items())
        if number != process and session.gone_at is None and tick - session.beats[-1] > limit
    ]
    return Reap(
        tuple(dead), sum(bury(tables, number, now, tables.records.get(number, NOBODYS_FAULT)) for number in dead)
    )


def clean_window(beats: deque[int], limit: int, tick: int) -> bool:
    """Return whether these beats reach back `limit` from `tick` with no gap over `limit / GAP_SHARE`."""
    later = tick
    for beat in reversed(beats):
        if later - beat > limit // GAP_SHARE:
            return False
        if tick - beat >= limit:
            return True
        later = beat
    return False


def _offer_again(tables: MemoryTables, row: MemorySegment, death: Death) -> None:
    commits.put_back(tables, row)
    before = (row.first, row.last, row.left), row.deaths
    offered = after_death(*before, death)
    if offered == [before]:
        return
    for (first, last, left), deaths in offered:
        tables.copy_segment(row, first=first, last=last, left=left, deaths=deaths)
    tables.drop_segment(row)


def note(tables: MemoryTables, process: int, lines: Sequence[LogLine]) -> None:
    """Keep the lines of a process that are not here yet; of a run that was forgotten, none."""
    for line in lines:
        run = tables.runs.get(line.run)
        if (process, line.n) not in tables.noted and (run is None or run.state is not RunState.FORGOTTEN):
            tables.noted.add((process, line.n))
            tables.lines.append(StoredLine(tables.next_line, process, line))
            tables.next_line += 1


def vacuum(tables: MemoryTables, now: int, limit: int) -> Vacuumed:
    """Remove what nobody can reach."""
    ends = ((row.expires, name) for name, row in tables.keys.items() if row.expires is not None)
    expired = sorted((end, name) for end, name in ends if end <= now)[:limit]
    for _, name in expired:
        del tables.keys[name]
    sessions = _forget_old(tables, now - SESSION_SECONDS * SECOND)
    gone = values.remove_expired(tables, now, limit)
    old = topics.remove_expired(tables, now, limit)
    return Vacuumed(_remove_garbage(tables, limit), len(expired), sessions, values=gone, publications=old)


def _forget_old(tables: MemoryTables, before: int) -> int:
    """Remove sessions that ended before a time; nothing can name them any more."""
    old = [number for number, s in tables.sessions.items() if s.gone_at is not None and s.gone_at < before]
    for number in old:
        del tables.sessions[number]
    return len(old)


def _remove_garbage(tables: MemoryTables, limit: int) -> int:
    """Remove up to `limit` unpublished rows that nobody will publish."""
    removed = 0
    garbage = [row for row in tables.segments.values() if row.state is SegmentState.GARBAGE]
    for row in sorted(garbage, key=lambda row: row.first):
        size = min(row.count, limit - removed)
        removed += size
        row.last -= size
        for column in (row.span.bodies, row.span.parents, row.span.keys, row.span.details):
            if column is not None and size:
                del column[-size:]
        if row.last < row.first:
            tables.firsts.remove(row.span.first)
            del tables.spans[row.span.first]
            tables.drop_segment(row)
    return removed
