"""Keys while a verb decides: who holds which, as the verb itself frees and takes them.

What is offered is loaded once for all groups, and then changes here in the order of the parts: a key that a task lets
go is free for the children that are added after its end, and one that was taken is held for all that come later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ramify.model.event import Status
from ramify.model.key import Hold, digests, kept_until, looked_at
from ramify.model.task import NewTasks
from ramify.store.changes import Changes
from ramify.store.rows import SpanRow
from ramify.store.tables import Tables


class KeptTasks(NamedTuple):
    """The positions of a group that keep their keys, the ids they have, and who holds the keys of the others."""

    positions: Sequence[int]
    ids: Sequence[int]
    lost: Mapping[int, int]


class Keys:
    """The keys that a verb asks for."""

    def __init__(self, tables: Tables, changes: Changes, offered: Iterable[tuple[int, NewTasks]] = ()) -> None:
        """`offered` are the groups that will ask for keys, each with its run."""
        self._tables, self._changes = tables, changes
        self._names: dict[int, Sequence[bytes]] = {}
        #: Who holds a digest now, and who holds it when all that is kept for a time is over.
        self._held: dict[tuple[Hold, bool], dict[bytes, int]] = {}
        self._wanted = wanted = dict[tuple[Hold, bool], set[bytes]]()
        for run, tasks in offered:
            if tasks.keys is not None and tasks.hold is not Hold.LABEL:
                names = self._names[tasks.first] = _names(tasks.hold, run, tasks.kind, tasks.keys)
                wanted.setdefault((tasks.hold, tasks.again), set()).update(names)
        self._load()

    def _load(self) -> None:
        for (hold, again), some in self._wanted.items():
            some.discard(b"")
            at = looked_at(self._changes.now, again=again)
            self._held[hold, again] = self._tables.holders(hold, sorted(some), at) if some else {}

    def take_staged(self, span: SpanRow) -> Mapping[int, int]:
        """Give the tasks of a staged range their keys; those that lost theirs, with the task that holds it. All that
        was decided before must be written.
        """
        lost = self._tables.take_staged(span, self._changes.now)
        self._load()
        return lost

    def offer(self, run: int, tasks: NewTasks, *, in_place: bool) -> KeptTasks:
        """Give the tasks of a group their keys, in order. The kept ones close ranks, unless they stay `in_place`."""
        assert tasks.keys is not None
        first, count = tasks.first, len(tasks.bodies)
        if tasks.hold is Hold.LABEL:
            kept = KeptTasks(range(count), tasks.ids, {})
        else:
            kept = self._taken(self._names[first], tasks, in_place)
        if tasks.hold is not Hold.ONCE:
            self._label(run, tasks, kept)
        return kept

    def _taken(self, names: Sequence[bytes], tasks: NewTasks, in_place: bool) -> KeptTasks:
        first, held = tasks.first, self._held[tasks.hold, tasks.again]
        positions: list[int] = []
        lost: dict[int, int] = {}
        taken: dict[bytes, int] = {}
        for i, name in enumerate(names):
            if (holder := held.get(name)) is not None:
                lost[i] = holder
                continue
            if name:
                task = held[name] = first + (i if in_place else len(positions))
                taken[name] = task
            positions.append(i)
        written = self._changes.once if tasks.hold is Hold.ONCE else self._changes.unique
        written.update(taken)
        for (hold, _), others in self._held.items():
            if hold is tasks.hold and others is not held:
                others.update(taken)
        ids = [first + i for i in positions] if in_place and lost else range(first, first + len(positions))
        return KeptTasks(positions if lost else range(len(names)), ids, lost)

    def _label(self, run: int, tasks: NewTasks, kept: KeptTasks) -> None:
        """Make the tasks findable by their keys."""
        assert tasks.keys is not None
        named = [(tasks.keys[i], task) for i, task in zip(kept.positions, kept.ids, strict=True)]
        keyed = [(key, task) for key, task in named if key is not None]
        found = digests(Hold.LABEL, run, tasks.kind, (key for key, _ in keyed))
        self._changes.labels += zip(found, (task for _, task in keyed), strict=True)

    def release(self, span: SpanRow, keys: Mapping[int, bytes], ended: Iterable[tuple[int, Status]]) -> None:
        """Free the keys of tasks of a span that ended, or let them expire; `keys` are those of the tasks."""
        now = self._changes.now
        found = [(task, keys[task], kept_until(span.keep, status, now)) for task, status in ended if task in keys]
        names = digests(span.hold, span.run, span.kind, (key for _, key, _ in found))
        for name, (task, _, until) in zip(names, found, strict=True):
            if until == now:
                self._changes.freed.append((name, task))
            else:
                self._changes.kept.append((until, name, task))
            for (hold, again), held in self._held.items():
                if hold is span.hold and (again or until == now) and held.get(name) == task:
                    del held[name]


def _names(hold: Hold, run: int, kind: str, keys: Sequence[bytes | None]) -> Sequence[bytes]:
    """The digest of each key, b"" without one."""
    given = [key for key in keys if key is not None]
    found = digests(hold, run, kind, given)
    if len(given) == len(keys):
        return found
    each = iter(found)
    return [b"" if key is None else next(each) for key in keys]


def holders(
    tables: Tables, hold: Hold, run: int, kind: str, keys: Iterable[bytes | None], now: int
) -> Mapping[bytes, int]:
    """Which of these keys are held now, and by whom."""
    given = [key for key in keys if key is not None]
    key_of = dict(zip(digests(hold, run, kind, given), given, strict=True))
    found = tables.holders(hold, sorted(key_of), now) if key_of else {}
    return {key_of[name]: task for name, task in found.items()}


def taken_by(tables: Tables, spans: Mapping[int, SpanRow], now: int) -> dict[int, int]:
    """Return those of some tasks, each with its span, whose key another task holds now, with that one."""
    found: dict[int, int] = {}
    for hold, some in _named(tables, spans).items():
        held = tables.holders(hold, sorted(some.values()), now)
        found.update((task, held[name]) for task, name in some.items() if held.get(name, task) != task)
    return found


def retake(tables: Tables, changes: Changes, spans: Mapping[int, SpanRow]) -> None:
    """Take the keys again of tasks, each with its span, that begin a new life."""
    released = {task: span for task, span in spans.items() if span.releases_keys}
    for some in _named(tables, released).values():
        changes.unique.update((name, task) for task, name in some.items())


def _named(tables: Tables, spans: Mapping[int, SpanRow]) -> Mapping[Hold, Mapping[int, bytes]]:
    """The digest of each key that is more than a label, by how it is held and by task."""
    keyed = [task for task, span in spans.items() if span.keyed and span.hold is not Hold.LABEL]
    alike: dict[tuple[Hold, int, str], list[tuple[int, bytes]]] = {}
    for task, key in tables.keys_of(sorted(keyed)).items():
        span = spans[task]
        alike.setdefault((span.hold, span.run, span.kind), []).append((task, key))
    found: dict[Hold, dict[int, bytes]] = {}
    for (hold, run, kind), some in alike.items():
        names = digests(hold, run, kind, (key for _, key in some))
        found.setdefault(hold, {}).update(zip((task for task, _ in some), names, strict=True))
    return found
