"""All that can be seen of a store through its reads, as plain values that compare.

Two things are left out, because no store promises them: the numbers of segment rows (their order is kept: it is their
age), and how a store came to know when a process last beat. Pages are read a few rows at a time, so that every cursor
is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import structs

from ramify.model.context import ContextValue
from ramify.model.event import ENDS
from ramify.model.run import RunState, StoredRun
from ramify.model.segment import Segment
from ramify.model.topic import StoredPublication
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT, Page, Reads
from ramify.testing.paging import every

KINDS = ("walk", "sum")
KEYS = (b"", b"a", b"b", b"\0\xff")
ROWS = 7
EVERY_ID = 2**62

Picture = dict[str, Any]
T = TypeVar("T")


def all_of(read: Callable[..., Page[T]], *args: Any, start: int = 0, limit: int = ROWS, **options: Any) -> list[T]:
    """The rows of all pages of one read."""
    return every(lambda after: read(*args, after=after, limit=limit, **options), start)


def picture(store: Store, known: Callable[[bytes], bytes]) -> Picture:
    """Everything visible; `known` turns the store's tokens into comparable ones."""
    reads = store.reads
    runs = all_of(reads.runs)
    seen: Picture = {
        "runs": runs,
        "events": list(reads.events(0, EVERY_ID)),
        "tail": _tail(reads),
        "spans": all_of(reads.spans),
        "segments": [structs.replace(row, id=0) for row in all_of(reads.segments)],
        "processes": [structs.replace(process, beat_age=None, durability="") for process in reads.processes()],
        "refusals": _refusals(reads, known),
        "values": list(reads.values()),
        "topics": (topics := reads.topics()),
        "publications": [_published(reads, topic.name) for topic in topics],
        "decisions": [all_of(reads.decisions, run.id, limit=2) for run in runs],
        "movable": [store.movable(limit) for limit in (0, 1, ROWS)],
    }
    for run in runs:
        seen |= {f"{what} of run {run.id}": rows for what, rows in _of_run(reads, run).items()}
    return seen


def _published(reads: Reads, topic: str) -> list[StoredPublication]:
    """All of a topic, a page at a time."""
    found: list[StoredPublication] = []
    while some := reads.publications(topic, after=found[-1].number if found else 0, limit=ROWS):
        found += some
    return found


def close_up(store: Store) -> Picture:
    """What the picture leaves out because it is slow or seldom asked for: single reads, reads by state, name, kind."""
    reads = store.reads
    runs = all_of(reads.runs)
    last = max((span.last for span in all_of(reads.spans)), default=0)
    now = max((run.created for run in runs), default=0)
    seen: Picture = {
        "task": [reads.task(task) for task in range(last + 2)],
        "history": [reads.history(task) for task in range(last + 2)],
        "holders": [reads.holder(kind, key) for kind in KINDS for key in KEYS],
        "children": [all_of(reads.children, task, limit=2) for task in range(last + 2)],
        "rows": [_nameless(reads.segment(task)) for task in range(last + 2)],
        "standings": {
            task: structs.replace(standing, segment=_nameless(standing.segment))
            for task, standing in reads.standings(range(last + 2)).items()
        },
        "due": {
            kind: [
                structs.replace(task, segment=_nameless(task.segment))
                for task in all_of(reads.due_tasks, kind, limit=2)
            ]
            for kind in KINDS
        },
        "fired": dict(reads.fired_at(range(last + 2))),
        "runs": dict(reads.runs_at(range(last + 2))),
        "newest runs": list(reads.runs(newest_first=True, limit=3).rows),
        "totals": reads.totals(),
        "names": [reads.find_run(name) for name in sorted({run.name or "nobody" for run in runs})],
    }
    for state in RunState:
        seen[f"{state} runs"] = all_of(reads.runs, state=state, limit=2)
    for run in runs:
        if run.state is RunState.FORGOTTEN:
            continue
        for kind in KINDS:
            seen[f"{kind} tasks of run {run.id}"] = all_of(reads.tasks, run.id, kind=kind, limit=2)
            seen[f"{kind} results of run {run.id}"] = all_of(reads.results, run.id, kind=kind, limit=2)
            seen[f"{kind} due in run {run.id}"] = [
                task.row for task in all_of(reads.due_tasks, kind, run=run.id, limit=2)
            ]
        seen[f"left of run {run.id}"] = reads.live_counts(run.id, now)
        seen[f"segments of run {run.id}"] = len(all_of(reads.segments, run=run.id))
        seen[f"spans of run {run.id}"] = all_of(reads.spans, run=run.id, limit=2)
        seen[f"joins of run {run.id}"] = [all_of(reads.joins, run.id, fired=fired, limit=2) for fired in (False, True)]
    return seen


def _nameless(row: Segment | None) -> Segment | None:
    return None if row is None else structs.replace(row, id=0)


def difference(ours: Picture, theirs: Picture) -> str:
    """Where two pictures differ first; empty when they do not."""
    for what in [*ours, *(theirs.keys() - ours.keys())]:
        one, other = ours.get(what), theirs.get(what)
        if one != other:
            return f"{what}:\n  {_from_there(one, other)}\n  {_from_there(other, one)}"
    return ""


def _from_there(one: Any, other: Any) -> str:
    if not isinstance(one, list) or not isinstance(other, list):
        return repr(one)
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"{len(one)} rows, from {at} on: {one[at : at + 3]}"


def _of_run(reads: Reads, run: StoredRun) -> Picture:
    if run.state is RunState.FORGOTTEN:
        return {"counts": {kind: dict(counts) for kind, counts in reads.counts(run.id).items()}}
    joins = all_of(reads.joins, run.id)
    tasks = all_of(reads.tasks, run.id)
    errors = reads.errors(run.id)
    return {
        "counts": {kind: dict(counts) for kind, counts in reads.counts(run.id).items()},
        "tasks": tasks,
        "history": [reads.history(task.id) for task in tasks],
        "joins": joins,
        "members": [all_of(reads.members, join.id, start=-1) for join in joins],
        "results": [all_of(reads.results, run.id, status=status) for status in ENDS],
        "errors": errors,
        "keys": [list(reads.find_tasks(run.id, kind, key)) for kind in KINDS for key in KEYS],
        "sweeps": list(reads.sweeps(run.id)),
        "logs": all_of(reads.logs, run.id),
        "context": _context(reads, run.id),
    }


def _context(reads: Reads, run: int) -> list[ContextValue]:
    found: list[ContextValue] = []
    while some := reads.context(run, after=found[-1].name if found else "", limit=2):
        found += some
    assert found == [reads.context_value(run, each.name) for each in found]
    return found


def _refusals(reads: Reads, known: Callable[[bytes], bytes]) -> Sequence[Any]:
    rows = [structs.replace(row, token=known(row.token)) for row in reads.refusals(limit=PAGE_LIMIT)]
    # Parts that were refused at the same moment are equally new.
    return sorted(rows, key=lambda row: (-row.at, row.process, row.n, row.token))


def _tail(reads: Reads) -> Sequence[Picture]:
    tails: list[Picture] = []
    after = 0
    while (tail := reads.tail(after, limit=ROWS)).commits:
        columns = structs.asdict(tail).items()
        tails.append({name: each if isinstance(each, int) else list(each) for name, each in columns})
        after = tail.after
    return tails
