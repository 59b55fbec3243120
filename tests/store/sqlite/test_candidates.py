"""Claims in SQLite: what is found must not cost what lies beside it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ramify.model.claim import Rooms, Want
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.sqlite import candidates, due_rows
from ramify.store.sqlite.store import SqliteStore
from ramify.store.sqlite.wanted import NEXT_DUE_PLACE, NEXT_PLACE, places, wanted_places
from ramify.store.verbs.claim import is_wanted

FEW, MANY = 2, 60
STEPS = 10
FUTURE = 10**18
WALK = frozenset({"walk"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "due.db", durability="process")) as store:
        yield store


def add(store: SqliteStore, dues: Sequence[tuple[str, int | None]], queues: tuple[str, ...] = ("default",)) -> None:
    """A run with a row for each kind and due time."""
    groups = [
        NewTasks(store.reserve(2), kind, [b"[]"], queue=queues[n % len(queues)], due=due)
        for n, (kind, due) in enumerate(dues)
    ]
    store.start(NewRun(store.reserve(1), order=Order.ANY), groups)


@pytest.mark.parametrize(("statement", "due"), [(NEXT_PLACE, None), (NEXT_DUE_PLACE, 10**18)], ids=["ready", "due"])
def test_kinds_are_found_by_skipping_all_that_wait_in_one_place(
    tmp_path: Path, statement: str, due: int | None
) -> None:
    def steps(rows: int) -> int:
        """How many steps of SQLite's machine, in tens, it takes to find three places of so many rows."""
        with closing(SqliteStore(tmp_path / f"{rows}.db", durability="process")) as store:
            for _ in range(rows):
                run = store.reserve(4)
                tasks = (("a", "default"), ("a", "other"), ("b", "default"))
                store.start(
                    NewRun(run, order=Order.ANY),
                    [
                        NewTasks(run + 1 + n, kind, [b"[]"], queue=queue, due=due)
                        for n, (kind, queue) in enumerate(tasks)
                    ],
                )
            ticks = 0

            def tick() -> bool:
                nonlocal ticks
                ticks += 1
                return False

            with store._link.read() as db:
                assert isinstance(db, apsw.Connection)
                db.set_progress_handler(tick, STEPS)
                found = list(wanted_places(db, statement, Want(frozenset("ab"), 1)))
                db.set_progress_handler(None)
            assert found == list(tasks)
            return ticks

    assert steps(MANY) <= steps(FEW) + 1


def test_kinds_that_are_not_wanted_are_passed_over_in_one_step(store: SqliteStore, seed: random.Random) -> None:
    kinds = [f"kind {n:02}" for n in range(30)]
    rows: list[tuple[str, int | None]] = [(kind, due) for kind in kinds for due in (None, 1) for _ in range(3)]
    seed.shuffle(rows)
    add(store, rows, ("default", "slow", "fast"))
    some = Want(frozenset(seed.sample([*kinds, "a", "z", "kind 05 b"], 12)), 1, frozenset({"slow", "default"}))
    with store._link.read() as db:
        assert isinstance(db, apsw.Connection)
        asked: list[str] = []
        db.set_exec_trace(lambda _, sql, values: not asked.append(sql))  # type: ignore[func-returns-value]
        for statement in (NEXT_PLACE, NEXT_DUE_PLACE):
            for want in (some, Want(frozenset(kinds), 1), Want(frozenset(), 1)):
                wanted = [place for place in places(db, statement) if is_wanted(want, *place)]
                assert list(wanted_places(db, statement, want)) == wanted
        asked.clear()
        assert len(list(wanted_places(db, NEXT_PLACE, Want(frozenset({"kind 15", "kind 25"}), 1)))) >= 2
        # Each of the three queues of a kind, a kind in front of each, and the end.
        assert len(asked) <= 9
        db.set_exec_trace(None)


# rows with a due time


@pytest.mark.parametrize("ready", [False, True], ids=["finds nothing", "takes a task"])
def test_rows_that_are_not_due_cost_a_claim_no_statement(store: SqliteStore, ready: bool) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    kinds = frozenset(f"cron {n}" for n in range(2_000)) | WALK
    numbers = iter(range(1, 100))

    def statements(want: Want) -> int:
        seen: list[str] = []
        connections: list[apsw.Connection] = []
        for link in (store._link.read, store._link.write):
            with link() as db:
                assert isinstance(db, apsw.Connection)
                connections.append(db)
        for db in connections:
            db.set_exec_trace(lambda _, sql, values: not seen.append(sql))  # type: ignore[func-returns-value]
        try:
            assert bool(store.claim(Stamp(process, next(numbers)), want).claims) is ready
        finally:
            for db in connections:
                db.set_exec_trace(None)
        return len(seen)

    if ready:
        add(store, [("walk", None)] * 8)
    # What the store learns from its first answer changes how it asks.
    statements(Want(WALK, 1))
    one, two = statements(Want(WALK, 1)), statements(Want(kinds, 1))
    add(store, [(f"cron {n}", FUTURE + n) for n in range(2_000)])
    assert (statements(Want(WALK, 1)), statements(Want(kinds, 1))) == (one, two)


@pytest.mark.parametrize("many", [due_rows.DUE_WINDOW, due_rows.DUE_WINDOW + 1, 2_000])
def test_however_many_rows_of_others_are_due_one_that_is_wanted_is_taken(store: SqliteStore, many: int) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    add(store, [(f"cron {n}", n) for n in range(many - 1)] + [("walk", many)])
    (claim,) = store.claim(Stamp(process, 1), Want(WALK, 9)).claims
    assert claim.kind == "walk"


@pytest.mark.parametrize("kind", ["walk", "cron"])
def test_a_claim_reads_no_more_rows_however_many_are_due(store: SqliteStore, kind: str) -> None:
    process = new_process_id()
    store.enter(NewProcess(process))
    add(store, [(kind, n) for n in range(3_000)])
    read: list[object] = []

    def count(cursor: apsw.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        read.append(row)
        return row

    for link in (store._link.read, store._link.write):
        with link() as db:
            assert isinstance(db, apsw.Connection)
            db.row_trace = count
    store.claim(Stamp(process, 1), Want(WALK, 1))
    assert len(read) < 3 * due_rows.DUE_WINDOW


def test_both_ways_to_read_due_rows_give_the_same_rows_in_the_same_order(
    store: SqliteStore, seed: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [f"kind {n}" for n in range(12)]
    for _ in range(3):
        add(store, [(seed.choice(kinds), seed.randrange(60)) for _ in range(80)], ("default", "slow", "fast"))
    wants = [
        Want(frozenset(seed.sample(kinds, seed.randrange(13))), 9, seed.choice([None, frozenset({"slow", "fast"})]))
        for _ in range(40)
    ]

    def read(now: int) -> list[object]:
        found: list[object] = []
        with store._link.read() as db:
            for want in wants:
                due = due_rows.due_now(db, want, Rooms(lambda run: None), now)
                left = due_rows.due_tasks(db, want, now, candidates.READY_WINDOW)
                found.append(([row.id for row in due], [tuple(row) for row in left]))
        return found

    by_time = [read(now) for now in (0, 30, 60)]
    monkeypatch.setattr(due_rows, "_are_many", lambda db, now: True)
    assert by_time == [read(now) for now in (0, 30, 60)]


def test_due_rows_are_found_by_their_time_alone(store: SqliteStore) -> None:
    with store._link.read() as db:

        def plan(statement: str, *values: object) -> list[str]:
            return [line for *_, line in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

        # The lower end is that of "IS NOT NULL".
        by_time = ["SEARCH segment USING INDEX due_at (due>? AND due<?)"]
        assert plan(due_rows.ALL_DUE, 1) == by_time
        assert plan(due_rows.LEFT_DUE, 1) == by_time
        assert plan(due_rows.NEXT_DUE, 1, 2) == by_time
        assert plan(due_rows.MORE_DUE, 1, 2) == by_time
        by_place = ["SEARCH segment USING INDEX due (kind=? AND queue=? AND due>? AND due<?)"]
        assert plan(due_rows.DUE_OF_PLACE, "walk", "default", 1) == by_place
        assert plan(due_rows.LEFT_OF_PLACE, "walk", "default", 1, 2) == by_place
        assert plan(due_rows.DUE_SUSPECTS, 1) == ["SCAN segment USING INDEX suspect"]


def test_the_next_row_that_is_due_is_told_after_a_look_at_a_few(store: SqliteStore) -> None:
    others = due_rows.NEXT_WINDOW
    add(store, [(f"cron {n}", (n + 1) * SECOND) for n in range(2 * others)] + [("walk", 10 * others * SECOND)])
    with store._link.read() as db:

        def told(looked: int, now: int) -> float | None:
            return due_rows.next_due(db, Want(WALK, 1), looked * SECOND, now * SECOND)

        assert told(0, 0) == others, "the last of those that were looked at"
        assert told(others, others) == others
        assert told(2 * others, 2 * others) == 8 * others
        # Rows that became due after the claim looked are due at once.
        assert told(2 * others, 10 * others + 1) == 0
        assert told(10 * others, 10 * others) is None
