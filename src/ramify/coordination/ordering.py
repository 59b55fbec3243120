"""Order within a key: the tasks of an ordered reader, each behind the one before it of the same key.

Promises: of one key the handler is called for one publication at a time, in the order of their numbers, whatever is
retried, deferred or killed: a task waits in the store, on a join, for the end of the one before it. A task that failed
for good, was cancelled or skipped lets the next one begin; a person who retries it then does so out of order.

The latest task of each key is a value, by reader and key, swapped with the cursor. One that was not touched for
`LATEST_KEPT` is forgotten. Whoever adds the next task reads whether that one has ended; then it waits for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ramify.coordination.handling import Handling
from ramify.coordination.host import TopicHost
from ramify.coordination.publishing import arguments
from ramify.kernel.outgoing.offspring import Brood, new_tasks
from ramify.model.addition import Addition
from ramify.model.call import Call, Extra
from ramify.model.job import queue_run
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.key import key_bytes
from ramify.model.policy import SECOND
from ramify.model.reader import LATEST, cursor_name, read_number, write
from ramify.model.task import NewTasks
from ramify.model.topic import StoredPublication
from ramify.model.value import Swap

#: How long it is kept, in microseconds: a task that takes longer to end is not waited for.
LATEST_KEPT = 30 * 86_400 * SECOND
#: The most keys that a pump remembers.
_REMEMBERED = 4_096
_BEHIND = Extra(rule=Rule.ALWAYS).encode()
#: A publication, and the id of the task that it becomes.
_Placed = tuple[int, StoredPublication]


class Latest(NamedTuple):
    """The latest task of a key, and the version of that value; 0 for none."""

    task: int = 0
    version: int = 0


class LatestTasks:
    """The latest task of each key of one reader, as one pump knows them."""

    def __init__(self, host: TopicHost, reader: Handling) -> None:
        self._host, self._reader = host, reader
        self._known: dict[str, Latest] = {}

    def forget(self) -> None:
        """Somebody else has added tasks: what was known may be old."""
        self._known.clear()

    def additions(self, page: Sequence[StoredPublication]) -> tuple[list[Addition], list[Swap]]:
        """Return the tasks of a page, those of a key behind each other, and the swaps that note the latest of each."""
        if len(self._known) > _REMEMBERED:
            self.forget()
        keys: defaultdict[str | None, list[StoredPublication]] = defaultdict(list)
        for each in page:
            keys[each.key].append(each)
        now = self._host.store.now()
        before = {key: self._before(key, now) for key in keys}
        pending = self._pending([latest.task for latest in before.values() if latest.task])
        version, first = self._host.reserve_ids(len(keys)), self._host.reserve_ids(len(page))
        # Tasks that wait for nothing come first: then the ids of both kinds are contiguous.
        heads = [some[0] for key, some in keys.items() if before[key].task not in pending]
        free: list[_Placed] = list(enumerate(heads, first))
        given = {id(each): task for task, each in free}
        behind: list[_Placed] = []
        waits_for: list[int] = []
        swaps: list[Swap] = []
        for at, (key, some) in enumerate(keys.items()):
            latest = before[key].task
            for each in some:
                if (task := given.get(id(each))) is None:
                    task = first + len(free) + len(behind)
                    behind.append((task, each))
                    waits_for.append(latest)
                latest = task
            name = self._name(key)
            swaps.append(Swap(LATEST, name, before[key].version, version + at, write(latest), now + LATEST_KEPT))
            self._known[name] = Latest(latest, version + at)
        return [self._addition(free, behind, waits_for, now)], swaps

    def _addition(
        self, free: Sequence[_Placed], behind: Sequence[_Placed], waits_for: Sequence[int], now: int
    ) -> Addition:
        tasks = [self._tasks(some, now, waits=waits) for some, waits in ((free, False), (behind, True)) if some]
        ids = [task for task, _ in behind]
        joins = [NewJoins(ids, [1] * len(ids), Rule.ALWAYS)] if behind else []
        waiters = [NewWaiters(waits_for, ids, [0] * len(ids))] if behind else []
        opens = queue_run(self._reader.group.queue, self._host.reserve_ids(1))
        return Addition(opens.id, tasks, joins, waiters, opens)

    def _tasks(self, some: Sequence[_Placed], now: int, *, waits: bool) -> NewTasks:
        group = self._reader.group.varied or self._reader.group
        brood = Brood()
        for _, each in some:
            label = None if each.key is None else key_bytes(each.key)
            brood.add(0, Call(group, arguments(each, whole=self._reader.whole), label, _BEHIND if waits else None))
        return replace(new_tasks(group, some[0][0], brood, now, waits=waits), parents=None)

    def _before(self, key: str | None, now: int) -> Latest:
        name = self._name(key)
        if name not in self._known:
            found = self._host.store.reads.value(LATEST, name)
            is_there = found is not None and found.is_live(now)
            self._known[name] = Latest(read_number(found.value), found.version) if found and is_there else Latest()
        return self._known[name]

    def _pending(self, tasks: Sequence[int]) -> set[int]:
        """Return those that have not ended."""
        if not tasks:
            return set()
        standings = self._host.store.reads.standings(tasks)
        return {task for task, found in standings.items() if found.ended is None}

    def _name(self, key: str | None) -> str:
        # No key is the empty one: no publication has that.
        return cursor_name(self._reader.name, key or "")
