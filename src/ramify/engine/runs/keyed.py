"""Tasks of a run by their keys, and where each of them stands. The nodes of a DAG have their ids as keys.

The items of a map are named like `load[17]`, from 0 on; they have no keys of their own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from ramify.engine.runs.reading import Members, Reading
from ramify.engine.validation import check_task
from ramify.errors import ConfigError, UnknownTask
from ramify.kernel.attempts.stream import Stream
from ramify.model.event import Status
from ramify.model.gate import GATE
from ramify.model.key import key_bytes, key_text
from ramify.model.outcome import TaskError
from ramify.model.policy import SECOND
from ramify.model.segment import SegmentState
from ramify.model.task import Row, is_own
from ramify.shapes.dag.own import MAPS
from ramify.shapes.pipeline.own import BRANCH, SLEEP
from ramify.store.reads import Reads

_ITEM = re.compile(r"(.+)\[(.*)\]", re.DOTALL)
#: How many keys are looked at for one that is like an unknown one.
_LOOKED_AT = 1_000

_LIVE = {
    SegmentState.READY: "ready",
    SegmentState.GATED: "waiting",
    SegmentState.WAITING: "waiting",
    SegmentState.CLAIMED: "running",
    SegmentState.LIMITED: "limited",
}


class TaskState(msgspec.Struct, frozen=True):
    """The state of one task: waiting, ready, limited (in the line of a limit), running, or ended as done, failed,
    skipped, cancelled, quarantined or replaced.

    The result of a map is a `Stream` of the results of its items. `attempts` counts the attempts since the last retry
    by hand. `duration` is the length of the last attempt in seconds, 0 below a millisecond.
    """

    task: int
    kind: str
    key: str | None
    state: str
    attempts: int
    duration: float | None = None
    result: Any = None
    error: TaskError | None = None


def task_with(reads: Reads, run: int, key: object) -> int:
    """The task of a run with this key; UnknownTask when there is none, ConfigError when there are several."""
    if not isinstance(key, str) or not key:
        raise ConfigError(f"run[{key!r}]: expected the key of a task; in a DAG, the id of a node.")
    found, item = _with_key(reads, run, key), _ITEM.fullmatch(key)
    if not found and item is not None and item[2].isascii() and item[2].isdigit():
        found = _items(reads, run, item[1], int(item[2]))
    if not found:
        hint = None if item is None else _item_hint(reads, run, item[1])
        raise UnknownTask(f"run {run} has no task with the key {key!r}. {hint or _nearest(reads, run, key)}")
    if len(found) > 1:
        raise ConfigError(
            f"run {run} has several tasks with the key {key!r} ({', '.join(map(str, found[:3]))}, …). Give an id."
        )
    return found[0]


def id_of(reads: Reads, run: int, task: int | str) -> int:
    """The id of a task that somebody named by that, or by its key."""
    if isinstance(task, str):
        return task_with(reads, run, task)
    check_task("a task named by {}", task)
    return task


def ids_to_retry(reads: Reads, run: int, tasks: Sequence[int | str]) -> tuple[int, ...]:
    """Return what trying these again means."""
    named = (tasks_to_retry(reads, run, task) if isinstance(task, str) else [id_of(reads, run, task)] for task in tasks)
    return tuple(chain.from_iterable(named))


def check_in_place(reads: Reads, tasks: Sequence[int]) -> None:
    """Refuse tasks that were replaced: ConfigError says what to name instead."""
    for task, standing in reads.standings(tasks).items():
        if standing.ended is Status.REPLACED:
            key = key_text(standing.row.key)
            named = "the node or the item instead, such as load[0]." if key is None else f"{key!r} instead."
            raise ConfigError(
                f"task {task} was replaced: the task that made it ran again and made others. Give {named}"
            )


def tasks_to_retry(reads: Reads, run: int, key: str) -> list[int]:
    """Return what trying the task with this key again means: it alone; of a map, those of its items that were not done.

    A map whose items were all done is made again; one whose items are on their way is left alone. Of a branch it is
    what halted in it.
    """
    task = task_with(reads, run, key)
    row = reads.task(task)
    assert row is not None
    branch = None if row.parent is None or _with_key(reads, run, key) else reads.task(row.parent)
    if branch is not None and branch.kind == BRANCH and reads.history(task).ended is not Status.DONE:
        return sorted(_not_done(reads, branch)) or [task]
    gathering = _with_key(reads, run, f"{key}[]") if row.kind in MAPS else []
    if not gathering:
        return [task]
    is_open = reads.history(gathering[-1]).ended is None
    return sorted(_not_done(reads, row)) or ([] if is_open else [task])


def _not_done(reads: Reads, made_by: Row) -> Iterator[int]:
    """Items of a map that were not done, and what halted inside of its branches, however deep."""
    known: dict[int | None, bool] = {None: False, made_by.id: True}

    def is_inside(task: int | None) -> bool:
        if task not in known:
            maker = None if task is None else reads.task(task)
            known[task] = maker is not None and is_own(maker.kind) and is_inside(maker.parent)
        return known[task]

    for kind, counters in reads.counts(made_by.run).items():
        for status in (Status.FAILED, Status.QUARANTINED, Status.CANCELLED, Status.SKIPPED):
            after, more = 0, bool(counters.get(status)) and not is_own(kind)
            while more:
                page = reads.results(made_by.run, kind=kind, status=status, after=after)
                for task, standing in reads.standings([ended.task for ended in page.rows]).items():
                    parent = standing.row.parent
                    if parent == made_by.id or (status is not Status.SKIPPED and is_inside(parent)):
                        yield task
                after, more = page.after, page.more


def standing_tasks(reads: Reads, run: int, key: str) -> list[int]:
    """The task that tells where the one with this key stands: of a map, what gathers it, once its items are known."""
    return _with_key(reads, run, f"{key}[]")[-1:] or [task_with(reads, run, key)]


def state_of(reading: Reading, run: int, key: str) -> TaskState:
    """Where the task with this key stands. A map stands where what gathers it does, once its items are known."""
    reads = reading.reads
    gathering = _with_key(reads, run, f"{key}[]") if isinstance(key, str) else []
    task = gathering[-1] if gathering else task_with(reads, run, key)
    row = reads.task(task)
    assert row is not None
    events = list(reads.events(task, task))
    history = reads.history(task)
    segment = reads.segment(task)
    tries = history.attempts + (history.ended is Status.DONE)
    named = key_text(row.key) if not gathering else key
    if history.ended is None:
        state = "waiting" if segment is None else _LIVE.get(segment.state, "waiting")
        if state == "ready" and row.kind in (GATE, SLEEP) and segment is not None and segment.due is not None:
            # For an answer, or for a time.
            state = "waiting"
        return TaskState(task, row.kind, named, state, tries)
    end = next((event for event in reversed(events) if event.status.is_end), None)
    value, took = (None, None) if end is None else (end.value, end.took)
    seconds = (took or 0) / SECOND if tries else None
    state = history.ended.name.lower()
    if history.ended is Status.DONE:
        result = Stream(Members(reading, task, Any)) if gathering else reading.result(row.kind, value)
        return TaskState(task, row.kind, named, state, tries, seconds, result)
    return TaskState(task, row.kind, named, state, tries, seconds, error=reading.error(row, history.ended, value))


def results_with(reads: Reads, run: int, keys: Sequence[str]) -> dict[str, bytes | None]:
    """Return what the tasks with these keys gave, as stored; ConfigError when one of them did not end well."""
    found: dict[str, bytes | None] = {}
    for key in keys:
        task = (_with_key(reads, run, key) or [task_with(reads, run, key.removesuffix("[]"))])[-1]
        history = reads.history(task)
        if history.ended is not Status.DONE:
            how = "has not ended" if history.ended is None else f"ended as {history.ended.name.lower()}"
            raise ConfigError(
                f"given=run: {key.removesuffix('[]')} {how} in run {run} and has no result. Give one: given={{...}}."
            )
        found[key] = next(event.value for event in reversed(reads.events(task, task)) if event.status is Status.DONE)
    return found


def _with_key(reads: Reads, run: int, key: str) -> list[int]:
    stored = key_bytes(key)
    return sorted(task for kind in reads.counts(run) for task in reads.find_tasks(run, kind, stored))


def _items(reads: Reads, run: int, of: str, at: int) -> list[int]:
    gathering = _with_key(reads, run, f"{of}[]")
    members = reads.members(gathering[-1], after=at - 1, limit=1).rows if gathering else ()
    return [task for slot, task in members if slot == at]


def _item_hint(reads: Reads, run: int, of: str) -> str | None:
    """How many items a map has, and which to give; None when there is no such task."""
    gathering = _with_key(reads, run, f"{of}[]")
    if not gathering:
        maps = [task for kind in MAPS for task in reads.find_tasks(run, kind, key_bytes(of))]
        if maps:
            return f"{of} has made no items. Give {of!r}, the map itself."
        return f"{of} is not a map and has no items. Give {of!r}." if _with_key(reads, run, of) else None
    join = reads.joins(run, after=gathering[-1] - 1, limit=1).rows[0]
    if not join.needs:
        return f"{of} has no items. Give {of!r}, the map itself."
    return f"{of} has {join.needs:,} items. Give {of}[0]" + (f" to {of}[{join.needs - 1}]." if join.needs > 1 else ".")


def _nearest(reads: Reads, run: int, key: str) -> str:
    rows = [row for row in reads.tasks(run, limit=_LOOKED_AT).rows if row.key is not None]
    ends = reads.standings([row.id for row in rows if not (is_own(row.kind) and row.parent is not None)])
    keys = [key_text(each.row.key) or "" for each in ends.values() if each.ended is not Status.REPLACED]
    near = difflib.get_close_matches(key, keys, 1)
    return f"Did you mean {near[0]!r}?" if near else "`ramify tasks RUN` lists its tasks."
