"""Commits: what a process hands back, as columns, guarded part by part.

A part belongs to one claimed segment. It is applied whole or, when its token is void, refused whole; the other parts
of the batch do not care. A task appears at most once in a part. Parts may be partial: what they do not name stays
claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from ramify.errors import BadPayload
from ramify.model.addition import Addition, check_queued
from ramify.model.claim import Claimed
from ramify.model.context import SetValue, check_sets
from ramify.model.event import UNREPORTED, Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.limit import Closes
from ramify.model.mark import Mark
from ramify.model.task import MAX_ID, MAX_PAYLOAD, NewTasks, check_tasks
from ramify.model.topic import Publication, check_publications
from ramify.model.value import Swap, check_swaps

NO_HEIRS: Mapping[int, int] = MappingProxyType({})
NO_TIMES: Mapping[int, int] = MappingProxyType({})


class Later(msgspec.Struct, frozen=True):
    """Tasks of the part that leave memory and come back at `due`; their events here are RETRYING or DEFERRED.

    With `awaits` they come back when that run ends, and at `due` at the latest. A run that does not exist wakes nobody.
    `closes` shuts the lane of their limit, or their whole limit, until `due`, for every process.
    """

    tasks: Sequence[int]
    due: int
    awaits: int | None = None
    closes: Closes | None = None

    def wait(self, has_ended: bool) -> tuple[int | None, int | None]:
        """When they are due (None: now), and the run that wakes them; `has_ended` says whether that run is over."""
        return (None, None) if has_ended else (self.due, self.awaits)


class Part(msgspec.Struct, frozen=True, gc=False):
    """The outcomes of some tasks of one claimed segment, and all that follows from them.

    `statuses` and `values` are one for all (values: None) or one each. `publish` and `discard` name staged ranges by
    their first id. `heirs` names a child in this part for tasks that somebody may wait for: it arrives in their stead,
    with an id above that of its task, because of all that arrive for a slot the one with the largest id counts.
    `took` are the microseconds of the attempts that were not quick (sparse, by task). `sets` are the values that tasks
    which are done set in the context of their run, in order. `additions` are tasks for other runs, which they open:
    those of queues. `publications` name the tasks that are done with them, or none. A part with `swaps` holds one task
    that is done: if a swap loses, nothing of the part is applied.
    """

    token: bytes
    tasks: Sequence[int]
    statuses: Status | Sequence[Status] = Status.DONE
    values: Sequence[bytes | None] | None = None
    children: Sequence[NewTasks] = ()
    joins: Sequence[NewJoins] = ()
    waiters: Sequence[NewWaiters] = ()
    later: Sequence[Later] = ()
    publish: Sequence[int] = ()
    discard: Sequence[int] = ()
    heirs: Mapping[int, int] = NO_HEIRS
    took: Mapping[int, int] = NO_TIMES
    sets: Sequence[SetValue] = ()
    additions: Sequence[Addition] = ()
    swaps: Sequence[Swap] = ()
    publications: Sequence[Publication] = ()

    def status_column(self) -> Sequence[Status]:
        """One status each, whichever way they were given."""
        return [self.statuses] * len(self.tasks) if isinstance(self.statuses, Status) else self.statuses

    def ended(self) -> Sequence[int]:
        """The tasks whose life ends with this part."""
        if isinstance(self.statuses, Status):
            return self.tasks if self.statuses.is_end else ()
        return [task for task, status in zip(self.tasks, self.statuses, strict=True) if status.is_end]

    def value_column(self) -> Sequence[bytes | None]:
        """One value each."""
        return [None] * len(self.tasks) if self.values is None else self.values


class Committed(msgspec.Struct, frozen=True):
    """The answer to a commit: the parts that were refused, marks on what is still held, and the next claim.

    `seq` is the commit's place in the log; 0 when every part was refused or lost and nothing was written. `lost` are
    the tasks of parts of which a swap lost: they are held as before. `now` is the store's time.
    """

    seq: int
    refused: tuple[bytes, ...] = ()
    lost: tuple[int, ...] = ()
    marks: tuple[Mark, ...] = ()
    claimed: Claimed = Claimed()
    now: int = 0


def check_part(part: Part) -> Part:
    """Refuse a part whose columns do not fit together before anything is written."""
    count = len(part.tasks)
    if not isinstance(part.statuses, Status) and len(part.statuses) != count:
        raise BadPayload(f"column statuses has {len(part.statuses)} values for {count} tasks")
    if part.values is not None and len(part.values) != count:
        raise BadPayload(f"column values has {len(part.values)} values for {count} tasks")
    if not isinstance(part.tasks, range) and len(set(part.tasks)) != count:
        raise BadPayload("a task appears twice in one part; a task has one outcome per commit")
    if not _statuses(part).isdisjoint(UNREPORTED):
        raise BadPayload(
            "REOPENED, DECIDED, OUTRUN and REPLACED are written by stores themselves; a part does not bring them"
        )
    if (
        part.values is not None
        and (longest := max((len(v) for v in part.values if v is not None), default=0)) > MAX_PAYLOAD
    ):
        raise BadPayload(
            f"a result takes {longest} bytes; the limit is {MAX_PAYLOAD}. Store it elsewhere and return a reference"
        )
    if part.later:
        waiting = {t for t, s in zip(part.tasks, part.status_column(), strict=True) if not s.is_end}
        moved = [t for later in part.later for t in later.tasks]
        if len(set(moved)) != len(moved) or not waiting.issuperset(moved):
            raise BadPayload("`later` names a task twice, or one that has no RETRYING or DEFERRED event in this part")
    staged = (*part.publish, *part.discard)
    if staged and len(set(staged)) != len(staged):
        raise BadPayload("a staged range is published or discarded twice in one part")
    if part.took and not (
        part.took.keys() <= set(part.tasks) and all(0 < took < MAX_ID for took in part.took.values())
    ):
        raise BadPayload("`took` names a task that has no event in this part, or is no time in microseconds")
    if part.heirs and not (
        part.heirs.keys() <= set(part.tasks)
        and set(part.heirs.values()) <= {i for each in part.children for i in each.ids}
    ):
        raise BadPayload("`heirs` names a task that has no event in this part, or an heir that is no child in it")
    if part.heirs and any(heir <= task for task, heir in part.heirs.items()):
        raise BadPayload("an heir has a smaller id than its task: what arrives in its stead would not count")
    if part.sets or part.publications:
        done = _done(part)
        check_sets(part.sets, done)
        check_publications(part.publications, done)
    for tasks in part.children:
        check_tasks(tasks)
    for each in part.additions:
        check_queued(each)
    if part.swaps:
        if count != 1 or part.status_column()[0] is not Status.DONE:
            raise BadPayload("a part with swaps holds one task, and that task is done")
        check_swaps(part.swaps)
    return part


def check_together(parts: Sequence[Part]) -> None:
    """Refuse parts that share a token, unless they have swaps, and a task that is in two of them."""
    if len({part.token for part in parts}) == len(parts):
        return
    of_token: dict[bytes, set[int]] = {}
    for part in parts:
        tasks = of_token.setdefault(part.token, set())
        if part.swaps:
            if part.tasks[0] in tasks:
                raise BadPayload("two parts of one commit name the same task")
            tasks.update(part.tasks)
    plain = [part for part in parts if not part.swaps]
    if len({part.token for part in plain}) != len(plain):
        raise BadPayload("two parts of one commit name the same token; merge them")
    if any(not of_token[part.token].isdisjoint(part.tasks) for part in plain):
        raise BadPayload("two parts of one commit name the same task")


def _done(part: Part) -> set[int]:
    if isinstance(part.statuses, Status):
        return set(part.tasks) if part.statuses is Status.DONE else set()
    return {task for task, status in zip(part.tasks, part.statuses, strict=True) if status is Status.DONE}


def _statuses(part: Part) -> frozenset[Status]:
    return frozenset((part.statuses,)) if isinstance(part.statuses, Status) else frozenset(part.statuses)
