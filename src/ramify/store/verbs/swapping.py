"""Swaps of values by themselves, with tasks and publications that come along: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.addition import Addition
from ramify.model.process import Stamp
from ramify.model.topic import Publication
from ramify.model.value import Swap
from ramify.store.answers import Answer
from ramify.store.changes import Changes
from ramify.store.tables import Ask, Tables
from ramify.store.verbs import adding, entries
from ramify.store.verbs.opening import OpeningRuns, may_open
from ramify.store.verbs.stamps import answered
from ramify.store.verbs.values import SwappedValues


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
        entries.check_links(tables, additions)
        opening = OpeningRuns(loaded, changes)
        into = [(opening.run(each), each, 0) for each in additions]
        entries.add(tables, changes, {run.id: run for run, _, _ in into}, into, extends=False)
        changes.publications += publications
    changes.answer = Answer("swap", done=done)
    tables.write(changes)
    return done
