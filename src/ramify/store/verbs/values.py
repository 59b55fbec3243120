"""Values: swapped alone, with tasks and publications that come along, or with the ends of tasks in a commit.

What one swap of a verb leaves is what the next one sees.
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.addition import Addition
from ramify.model.limit import LIMITS, read_limit
from ramify.model.process import Stamp
from ramify.model.topic import Publication
from ramify.model.value import Key, StoredValue, Swap, after_swaps
from ramify.store.answers import Answer
from ramify.store.changes import Changes
from ramify.store.tables import Ask, Loaded, Tables
from ramify.store.verbs import adding
from ramify.store.verbs.adding import Adding
from ramify.store.verbs.arriving import Arriving
from ramify.store.verbs.keys import Keys
from ramify.store.verbs.opening import OpeningRuns, may_open
from ramify.store.verbs.stamps import answered


class SwappedValues:
    """The values of a verb, as its swaps leave them."""

    def __init__(self, loaded: Loaded, changes: Changes) -> None:
        self._changes = changes
        self._known: dict[Key, StoredValue | None] = dict(loaded.values)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Swap all of them, or none if one of them loses."""
        changed = after_swaps(self._known, swaps, self._changes.now)
        if changed is None:
            return False
        self._known.update(changed)
        self._changes.values.update(changed)
        limits = ((name, value) for (space, name), value in changed.items() if space == LIMITS)
        self._changes.relimited += ((name, None if v is None else read_limit(v.value).limit) for name, v in limits)
        return True


def swap(
    tables: Tables,
    stamp: Stamp,
    swaps: Sequence[Swap],
    additions: Sequence[Addition],
    publications: Sequence[Publication],
    now: int,
) -> bool:
    """Swap all of them, with what is added and published then; or nothing of it."""
    groups = [tasks for each in additions for tasks in each.tasks]
    new, values = adding.ranges(groups), {each.key for each in swaps}
    loaded = tables.load(Ask(now, stamp, new=new, opens=may_open(additions), values=values))
    if (again := answered(loaded.session, stamp, "swap")) is not None:
        return again.done
    adding.check_room(loaded, groups)
    changes = Changes(stamp.process, stamp.n, now)
    done = SwappedValues(loaded, changes).swap(swaps)
    if done:
        _add(tables, loaded, changes, additions)
        changes.publications += publications
    changes.answer = Answer("swap", done=done)
    tables.write(changes)
    return done


def _add(tables: Tables, loaded: Loaded, changes: Changes, additions: Sequence[Addition]) -> None:
    """Add tasks to the runs that they open. Nobody waits for them."""
    opening = OpeningRuns(loaded, changes)
    into = [(opening.run(each), tasks) for each in additions for tasks in each.tasks]
    keys = Keys(tables, changes, [(run.id, tasks) for run, tasks in into])
    putting = Adding(changes, keys, Arriving(tables, changes, {}))
    for run, tasks in into:
        putting.add(run, tasks, 0)
