"""Parts that are written together leave the same behind as parts that are committed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apsw
import pytest

from ramify.model.addition import Addition
from ramify.model.claim import Claim, Want
from ramify.model.commit import Later, Part
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.process import NewProcess, Stamp
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore, whole
from ramify.testing.clock import FakeClock

PROCESS = 77
TABLES = {
    "event": "task, n, status, value",
    "counter": "*",
    "key": "*",
    "mark": "*",
    "waiter": "*",
    "join_part": "*",
    "joins": "*",
    "segment": "span, run, round, lane, first, last, mask, due, state, attempt, owner, token IS NULL",
    "commits": "sum(events)",
    "run": "id, state, round",
    "span": "*",
    "task": "*",
}
ALL_ENDS = [Status.DONE, Status.FAILED, Status.DONE, Status.CANCELLED]


class Shop:
    """A store with one worker that holds rows of many sorts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "walk.db"
        self.store = SqliteStore(self.path, clock=FakeClock())
        self.store.enter(NewProcess(PROCESS))
        self.run = self.store.reserve(1)
        self.n = 0

    def stamp(self) -> Stamp:
        self.n += 1
        return Stamp(PROCESS, self.n)

    def start(self) -> list[Claim]:
        """Rows of one task, wider ones, with keys of every hold, members of a join, and one that is waited for."""
        groups = [self._group(1, lane=str(i)) for i in range(6)]
        groups += [self._group(count, lane=f"wide-{count}") for count in (2, 5, 40)]
        groups += [self._group(1, lane=f"key-{hold}", keys=[b"k"], hold=hold) for hold in Hold]
        groups += [self._group(2, lane="once-again", keys=[b"k2", b"k3"], hold=Hold.ONCE)]
        inner = self.store.reserve(1)
        groups += [NewTasks(inner, "walk", [b"[]"], lane="then", waits=True)]
        groups += [self._group(1, lane=f"member-{i}", join=inner, slot=i) for i in range(2)]
        self.store.start(NewRun(self.run), groups, [NewJoins.one(inner, 2)])
        self.waited = groups[3].first
        outer = self.store.reserve(1)
        self.store.append(
            [
                Addition(
                    self.run,
                    [NewTasks(outer, "walk", [b"[]"], lane="outer", waits=True)],
                    [NewJoins.one(outer, 1)],
                    [NewWaiters.one(self.waited, outer, 0)]
                    if self.is_waited_for
                    else [NewWaiters.one(inner, outer, 0)],
                )
            ]
        )
        return self.claim()

    def claim(self) -> list[Claim]:
        return list(self.store.claim(self.stamp(), Want(frozenset(["walk"]), 1_000)).claims)

    is_waited_for = False

    def _group(self, count: int, **more: Any) -> NewTasks:
        first = self.store.reserve(count)
        return NewTasks(first, "walk", [b"[%d]" % i for i in range(count)], **more)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return {
                table: sorted(db.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)
                for table, columns in TABLES.items()
            }
        finally:
            db.close()


Plan = Callable[[Shop, list[Claim]], Iterable[Part]]


def in_every_way(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    for i, claim in enumerate(held):
        statuses = [ALL_ENDS[(i + j) % 4] for j in range(len(claim.tasks))]
        values = [None if (i + j) % 3 else b"%d" % j for j in range(len(claim.tasks))]
        yield Part(claim.token, claim.tasks, statuses if i % 2 else statuses[0], values if i % 5 else None)


def with_children_in_between(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    for i, claim in enumerate(held):
        first = shop.store.reserve(1)
        born = [NewTasks(first, "walk", [b"[]"], claim.tasks[0], lane=f"child-{i}", keys=[b"k"], hold=Hold.UNIQUE)]
        yield Part(claim.token, claim.tasks, children=born if i % 3 == 0 else ())


def with_children(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    for i, claim in enumerate(held):
        first = shop.store.reserve(i % 3 + 1)
        born = [NewTasks(first, "walk", [b"[%d]" % i] * (i % 3 + 1), claim.tasks[0], lane=f"child-{i}")]
        yield Part(claim.token, claim.tasks, ALL_ENDS[i % 4], children=born if i % 4 else ())


def of_many_runs(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    yield from in_every_way(shop, held)
    for i in range(6):
        run, first = shop.store.reserve(1), shop.store.reserve(2)
        shop.store.start(NewRun(run, order=list(Order)[i % 3]), [NewTasks(first, "walk", [b"[]", b"[1]"])])
    yield from with_children(shop, shop.claim())


def some_not_over(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    for i, claim in enumerate(held):
        yield Part(claim.token, claim.tasks[:1], Status.RETRYING if i % 4 == 0 else Status.DONE)


def with_marks(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    for claim in held[::2]:
        shop.store.cancel(shop.run, claim.tasks[0], said=Said("enough"))
    return in_every_way(shop, held)


def with_staged_children(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    for claim in held[::2]:
        first = shop.store.reserve(2)
        shop.store.stage(shop.stamp(), claim.token, [NewTasks(first, "walk", [b"[]"] * 2, claim.tasks[0])])
    return in_every_way(shop, held)


def at_the_second_attempt(shop: Shop, held: list[Claim]) -> Iterable[Part]:
    later = [Later(claim.tasks, shop.store.now()) for claim in held]
    for claim, due in zip(held, later, strict=True):
        shop.store.commit(shop.stamp(), [Part(claim.token, claim.tasks, Status.RETRYING, later=[due])])
    return in_every_way(shop, shop.claim())


PLANS = [
    in_every_way,
    with_children_in_between,
    with_children,
    of_many_runs,
    some_not_over,
    with_marks,
    with_staged_children,
    at_the_second_attempt,
]


@pytest.mark.parametrize("is_waited_for", [False, True])
@pytest.mark.parametrize("plan", PLANS)
def test_one_commit_leaves_the_same_behind_as_a_commit_for_each_part(
    plan: Plan, is_waited_for: bool, tmp_path: Path
) -> None:
    left: list[dict[str, list[tuple[Any, ...]]]] = []
    for name in ("together", "alone"):
        shop = Shop(tmp_path / name)
        shop.is_waited_for = is_waited_for
        parts = list(plan(shop, shop.start()))
        for batch in [parts] if name == "together" else [[part] for part in parts]:
            assert not shop.store.commit(shop.stamp(), batch).refused
        left.append(shop.rows())
        shop.store.close()
    assert left[0] == left[1]


def test_parts_that_end_narrow_rows_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []
    write = whole.end

    def counting(db: Any, log: Any, batch: whole.Batch, process: int) -> None:
        together.append(len(batch))
        write(db, log, batch, process)

    monkeypatch.setattr(whole, "end", counting)
    shop = Shop(tmp_path / "shop")
    parts = list(of_many_runs(shop, shop.start()))
    shop.store.commit(shop.stamp(), parts)
    assert sum(together) >= 11 + 6
    shop.store.close()
