"""Keys as a verb frees and takes them: in the order of its parts, and before any of it is written."""

from __future__ import annotations

import pytest

from ramify.model.event import Status
from ramify.model.key import Hold, digest
from ramify.model.task import NewTasks
from ramify.store.changes import Changes
from ramify.store.sqlite.tables import SqliteTables
from ramify.store.verbs.keys import Keys
from tests.store.verbs.values import KIND, NOW, PROCESS, a_span


def keyed(first: int, *keys: bytes, hold: Hold = Hold.UNIQUE, again: bool = False) -> NewTasks:
    return NewTasks(first, KIND, [b"[]"] * len(keys), keys=keys, hold=hold, again=again)


def asked(tables: SqliteTables, *groups: NewTasks) -> tuple[Changes, Keys]:
    changes = Changes(PROCESS, 1, NOW)
    return changes, Keys(tables, changes, [(1, tasks) for tasks in groups])


def name_of(key: bytes) -> bytes:
    return digest(Hold.UNIQUE, 1, KIND, key)


@pytest.mark.parametrize("hold", [Hold.ONCE, Hold.UNIQUE])
def test_of_equal_keys_the_first_wins_in_a_group_and_in_those_after_it(tables: SqliteTables, hold: Hold) -> None:
    first, second = keyed(10, b"a", b"b", b"a", hold=hold), keyed(20, b"b", b"c", hold=hold)
    changes, keys = asked(tables, first, second)
    kept = [keys.offer(1, tasks, in_place=False) for tasks in (first, second)]
    assert [(list(each.positions), dict(each.lost)) for each in kept] == [([0, 1], {2: 10}), ([1], {0: 11})]
    written = changes.once if hold is Hold.ONCE else changes.unique
    assert list(written.values()) == [10, 11, 20]


@pytest.mark.parametrize(("in_place", "ids"), [(False, [10, 11]), (True, [10, 12])])
def test_the_kept_ones_close_ranks_unless_a_join_knows_their_places(
    tables: SqliteTables, in_place: bool, ids: list[int]
) -> None:
    tasks = keyed(10, b"a", b"a", b"b")
    _, keys = asked(tables, tasks)
    assert list(keys.offer(1, tasks, in_place=in_place).ids) == ids


@pytest.mark.parametrize(
    ("status", "keep", "again", "holder"),
    [
        (Status.DONE, 0, False, 20),
        (Status.DONE, 60, False, 10),
        (Status.DONE, 60, True, 20),
        (Status.FAILED, 60, False, 20),
    ],
)
def test_a_task_hands_its_key_on_to_who_asks_in_the_same_verb(
    tables: SqliteTables, status: Status, keep: int, again: bool, holder: int
) -> None:
    tables.write(Changes(0, 0, NOW, unique={name_of(b"a"): 10}))
    successor = keyed(20, b"a", again=again)
    changes, keys = asked(tables, successor)
    keys.release(a_span(10, 10, keyed=True, hold=Hold.UNIQUE, keep=keep), {10: b"a"}, [(10, status)])
    assert keys.offer(1, successor, in_place=False).lost == ({} if holder == 20 else {0: holder})
    tables.write(changes)
    assert tables.holders(Hold.UNIQUE, [name_of(b"a")], NOW) == {name_of(b"a"): holder}


def test_each_key_ends_as_its_task_did(tables: SqliteTables) -> None:
    changes, keys = asked(tables)
    span = a_span(10, 12, keyed=True, hold=Hold.UNIQUE, keep=60)
    keys.release(span, {10: b"a", 11: b"b"}, [(10, Status.DONE), (11, Status.FAILED), (12, Status.DONE)])
    assert changes.kept == [(NOW + 60, name_of(b"a"), 10)]
    assert changes.freed == [(name_of(b"b"), 11)]
