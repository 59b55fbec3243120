"""Sessions that end: a process leaves, or is dead; its claims are void in the same transaction, and offered again.

Who is dead is the backend's to tell; what a death says about tasks is said by `model/blame.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ramify.model.blame import after_death
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.run import StoredRun
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.tables import Ask, Loaded, Tables
from ramify.store.verbs.lines import lines_of, refill
from ramify.store.verbs.staging import put_back


def leave(tables: Tables, process: int, death: Death, now: int) -> int:
    """End a session; the tasks offered again."""
    loaded, changes = tables.load(Ask(now, leaving=process)), Changes(process, 0, now)
    return _end(tables, changes, loaded, death)


def bury(tables: Tables, process: int, death: Death, now: int) -> int:
    """End the session of a dead process, and count its death; the tasks offered again."""
    loaded, changes = tables.load(Ask(now, leaving=process)), Changes(process, 0, now)
    # One that knows no kinds came to change something, and works on nothing.
    changes.has_died = loaded.session is not None and loaded.session.works
    return _end(tables, changes, loaded, death)


def _end(tables: Tables, changes: Changes, loaded: Loaded, death: Death) -> int:
    if loaded.session is None:
        return 0
    changes.has_left = True
    lines = lines_of(loaded.limits, loaded.held.values())
    for row in loaded.held.values():
        changes.offered_again += row.count
        late = filter(row.covers, death.late)
        changes.marks += (Mark(row.run, Scope.TASK, task, Status.RETRYING) for task in late)
        _offer_again(changes, loaded.runs, row, death)
    tables.write(changes)
    refill(tables, loaded.limits, lines, changes.now)
    return changes.offered_again


def _offer_again(changes: Changes, runs: Mapping[int, StoredRun], row: SegmentRow, death: Death) -> None:
    put_back(changes, runs[row.run], row)
    before = (row.first, row.last, row.left), row.deaths
    offered = after_death(*before, death)
    if offered == [before]:
        return
    changes.offered.remove(row)
    changes.dropped.append(row)
    changes.segments += (
        replace(row, id=0, first=first, last=last, left=left, packed_deaths=on_record.packed)
        for (first, last, left), on_record in offered
    )
