"""Lines of limits in SQLite: a claim pays for what it may take, not for heads that it may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from msgspec import structs

from ramify.model.claim import Want
from ramify.model.segment import SegmentState
from ramify.store.sqlite.store import SqliteStore
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.limits import declare, of_lanes

#: More than the rows of runs without room that are passed over one by one.
FEW, MANY = 80, 320


def house_in(folder: Path, heads: int) -> tuple[House, int, int]:
    """A house with so many heads of one run without room, and two more runs: one waits in a full line, one is empty."""
    folder.mkdir()
    house = House(
        open=lambda clock: SqliteStore(folder / "lines.db", clock=clock, durability="process"),
        kill=lambda store: store.close(),
    )
    declare(house, "host", most=1, per_lane=True)
    declare(house, "few", most=1, kinds=("copy",))
    lanes = [f"{number}" for number in range(heads)]
    held = house.any_run(*of_lanes(house, *lanes), house.tasks(2, kind="copy"))
    worker = house.worker()
    claims = worker.claim(2 * heads)
    heading = house.any_run(*of_lanes(house, *lanes), *of_lanes(house, *lanes), max_running=1)
    assert worker.claim(2 * heads) == ()
    ours = house.any_run(house.tasks(2, kind="copy"))
    assert worker.claim() == ()
    for claim in claims:
        if claim.kind == "walk":
            worker.done(claim)
    assert len(house.worker().ask(want(1, runs=[heading])).claims) == 1
    rows = [row for row in house.live(heading) if row.state is SegmentState.READY]
    assert len(rows) >= heads - 1
    assert all(row.line is not None for row in rows)
    assert house.live(held)
    return house, ours, house.any_run(endless=True)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda ours, other: want(runs=[other]),
        lambda ours, other: want(runs=[ours]),
        lambda ours, other: want(queues=["mail"]),
        lambda ours, other: want(kinds=["copy"]),
        lambda ours, other: want(),
    ],
    ids=["other-runs", "runs-in-line", "other-queues", "other-kinds", "runs-without-room"],
)
def test_a_claim_that_finds_nothing_looks_at_no_head_that_it_may_not_take(
    tmp_path: Path, wanted: Callable[[int, int], Want]
) -> None:
    def looked(heads: int) -> int:
        """Count the steps of SQLite's machine, in tens, for a claim that finds nothing."""
        house, *runs = house_in(tmp_path / f"{heads}", heads)
        worker, steps = house.worker(), 0

        def step() -> bool:
            nonlocal steps
            steps += 1
            return False

        assert worker.ask(wanted(*runs)).claims == ()
        assert isinstance(worker.store, SqliteStore)
        with worker.store._link.read() as db:
            assert isinstance(db, apsw.Connection)
            db.set_progress_handler(step, 10)
        assert worker.ask(wanted(*runs)).claims == ()
        db.set_progress_handler(None)
        house.close()
        assert steps
        return steps

    assert looked(MANY) <= 1.5 * looked(FEW)


@pytest.mark.parametrize("by_run", [False, True], ids=["of-all-runs", "of-given-runs"])
def test_once_enough_of_a_kind_was_taken_no_more_of_its_rows_are_read(tmp_path: Path, by_run: bool) -> None:
    def looked(lanes: int) -> int:
        """Count the steps of SQLite's machine, in tens, for a claim that may take few of many rows."""
        house = House(
            open=lambda clock: SqliteStore(tmp_path / f"{lanes}.db", clock=clock, durability="process"),
            kill=lambda store: store.close(),
        )
        declare(house, "host", most=1, per_lane=True)
        run = house.any_run(*of_lanes(house, *(f"{number}" for number in range(lanes))))
        worker, steps = house.worker(), 0

        def step() -> bool:
            nonlocal steps
            steps += 1
            return False

        wanted = structs.replace(want(500, runs=[run] if by_run else None), few={"walk": 2})
        assert isinstance(worker.store, SqliteStore)
        with worker.store._link.write() as db:
            assert isinstance(db, apsw.Connection)
            db.set_progress_handler(step, 10)
        assert len(worker.ask(wanted).claims) == 2
        db.set_progress_handler(None)
        house.close()
        assert steps
        return steps

    assert looked(MANY) <= 1.5 * looked(FEW)
