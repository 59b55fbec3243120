"""The figure of many small runs: what it is made of, and when its bar is met."""

from pathlib import Path

import pytest

from bench import bare
from bench.contest import Rates
from bench.figure import Setting
from bench.frontier_small_runs import BARE, MIXED, MIXED_STARTING, ONE, STARTING, STEPPING, figure
from bench.frontier_turn import Bare, Small, take
from ramify.store.sqlite.file.wal import FEWEST_PAGES


def met(tmp_path: Path, steps: float, one: float, starts: float, transactions: float) -> bool:
    mixed = {MIXED: [1.0], MIXED_STARTING: [1.0]}
    rates = Rates({STEPPING: [steps], ONE: [one], STARTING: [starts], BARE: [transactions], **mixed})
    bar = figure(Setting(1, None, tmp_path), rates, runs=5_000).bar
    assert bar is not None
    return bar.met


def test_the_bar_asks_for_steps_in_one_of_two_ways_and_for_starts(tmp_path: Path) -> None:
    assert met(tmp_path, steps=5_000, one=1e6, starts=250, transactions=1_000)
    assert met(tmp_path, steps=2_000, one=100_000, starts=250, transactions=1_000)
    assert not met(tmp_path, steps=4_999, one=1e6, starts=250, transactions=1_000)
    assert not met(tmp_path, steps=5_000, one=1e6, starts=249, transactions=1_000)


@pytest.mark.parametrize("mixed", [False, True])
def test_small_runs_are_done_to_their_end_and_their_starts_are_timed(mixed: bool, tmp_path: Path) -> None:
    report = take(Small(runs=3, steps=5, mixed=mixed), tmp_path)
    assert report.tasks == 15
    assert report.starting > 0
    assert not mixed or report.starting < report.seconds
    assert list(tmp_path.iterdir()) == []


def test_bare_transactions_are_as_durable_as_the_store(tmp_path: Path) -> None:
    with bare.opened(tmp_path / "bare.db") as db:
        full, wal = 2, "wal"
        assert (db.pragma("synchronous"), db.pragma("journal_mode")) == (full, wal)
        assert db.pragma("wal_autocheckpoint") == FEWEST_PAGES
    report = take(Bare(count=3), tmp_path)
    assert (report.tasks, report.rate > 0) == (3, True)
