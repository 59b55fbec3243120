"""Order within a key: the tasks of an ordered reader, each behind the one before it of the same key.

Promises: of one key the handler is called for one publication at a time, in the order of their numbers, whatever is
retried, deferred or killed. A task that failed for good, was cancelled or skipped lets the next one begin; a person who
retries it then does so out of order.

Two means together. A limit of one task per lane, where a lane is a key, keeps others of a key out of the claims while
one runs. It cannot do so while a task is out of all claims, because it waits for its retry or its process has died. So
each task also names the one before it, the latest one when it was added, and puts itself off until that one has ended.

The latest task is a value, by reader and key, swapped with the cursor. One that was not touched for `LATEST_KEPT` is
forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ramify.coordination.handling import Handling
from ramify.coordination.host import TopicHost
from ramify.coordination.publishing import arguments
from ramify.kernel.attempts.control import Defer
from ramify.kernel.attempts.current import Current
from ramify.kernel.outgoing.offspring import Brood, new_tasks
from ramify.model.addition import Addition
from ramify.model.call import Call, Extra
from ramify.model.job import queue_run
from ramify.model.key import key_bytes
from ramify.model.policy import SECOND
from ramify.model.reader import LATEST, cursor_name, read_number, write
from ramify.model.task import NewTasks
from ramify.model.topic import StoredPublication
from ramify.model.value import StoredValue, Swap

#: How long it is kept, in microseconds: a task that takes longer to end is not waited for.
LATEST_KEPT = 30 * 86_400 * SECOND
#: The most keys that a pump remembers.
_REMEMBERED = 4_096


class LatestTasks:
    """The last task of each key of one reader, as one pump knows them."""

    def __init__(self, host: TopicHost, reader: Handling) -> None:
        self._host, self._reader = host, reader
        self._known: dict[str, tuple[int, int]] = {}

    def forget(self) -> None:
        """Somebody else has added tasks: what was known may be old."""
        self._known.clear()

    def additions(self, page: Sequence[StoredPublication]) -> tuple[list[Addition], list[Swap]]:
        """Return the tasks of a page, those of a key behind each other, and the swaps that note the last of each."""
        store, group = self._host.store, self._reader.group.varied or self._reader.group
        keys: defaultdict[str | None, list[StoredPublication]] = defaultdict(list)
        for each in page:
            keys[each.key].append(each)
        now, task, version = store.now(), self._host.reserve_ids(len(page)), self._host.reserve_ids(len(keys))
        rows: list[NewTasks] = []
        swaps: list[Swap] = []
        if len(self._known) > _REMEMBERED:
            self.forget()
        for at, (key, some) in enumerate(keys.items()):
            name = cursor_name(self._reader.name, key or "")
            before, seen = self._before(name, now)
            brood, first = Brood(), task
            for each in some:
                label = None if key is None else key_bytes(key)
                body = arguments(each, whole=self._reader.whole)
                brood.add(0, Call(group, body, label, Extra(behind=before or None).encode(), key))
                before, task = task, task + 1
            rows.append(replace(new_tasks(group, first, brood, now), parents=None))
            swaps.append(Swap(LATEST, name, seen, version + at, write(before), now + LATEST_KEPT))
            self._known[name] = before, version + at
        return [Addition.opening(queue_run(group.queue, self._host.reserve_ids(1)), rows)], swaps

    def _before(self, name: str, now: int) -> tuple[int, int]:
        if name not in self._known:
            found: StoredValue | None = self._host.store.reads.value(LATEST, name)
            is_there = found is not None and found.is_live(now)
            self._known[name] = (read_number(found.value), found.version) if found is not None and is_there else (0, 0)
        return self._known[name]


def in_turn(attempt: Current) -> Iterator[None]:
    """Let a task of an ordered reader wait for the one before it: a hook around its attempts."""
    before = attempt._behind
    wait = None if before is None else attempt._ends_after(before)
    if wait is not None:
        raise Defer(wait, "the one before it of its key has not ended")
    yield
