"""The benchmarks' own arithmetic: what a figure says must follow from what was measured, and nothing may be made up."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import frontier_race, frontier_rivals, rivals, suites
from bench.contest import Rates
from bench.figure import Figure, Setting
from bench.frontier_adapt import against_best
from bench.frontier_growth import shares
from bench.frontier_latency import percentile
from bench.frontier_skew import ideal_even, ideal_mixed
from bench.frontier_turn import Deque, Grow, Report, levels, take
from bench.recovery_kill import allowed
from bench.recovery_killer import hunt
from bench.recovery_work import Beside, Nap, Program, check_done, play
from bench.tree import Tree

INSTALLS = """#!/bin/sh
# Stands where Python stands: makes the place for `-m venv`, writes down every install, and fails it while told to.
place=$(dirname "$(dirname "$0")")
case "$*" in
    *"-m venv"*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    *) echo "$@" >> "$place/installs"; if [ -e "$place/../refuse" ]; then echo "no index" >&2; exit 1; fi ;;
esac
"""


def test_trees_are_cut_by_whole_levels() -> None:
    assert [Tree(levels(scale)).count for scale in (1, 0.1, 0.05, 0.01)] == [1_111_111, 111_111, 111_111, 11_111]
    assert levels(1e-9) == 1


def test_a_percentile_is_a_sample_that_enough_others_do_not_exceed() -> None:
    samples = [float(number) for number in range(200, 0, -1)]
    assert percentile(samples, 0.5) == 100
    assert percentile(samples, 0.99) == 198
    assert percentile([7.0], 0.99) == 7


def test_the_fifths_of_chains_are_read_off_the_starts_of_their_rounds() -> None:
    # Ten rounds of 100 tasks; the first five take a second each, the last five two.
    marks = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0, 11.0, 13.0]
    rates = shares(Report(tasks=1001, seconds=15.0, peak_mb=0.0, began=0.0, marks=marks), width=100)
    assert rates[0] == pytest.approx(100, rel=0.01)
    assert rates[-1] == pytest.approx(50, rel=0.01)


def test_rounds_that_were_not_seen_are_an_error_and_not_a_figure() -> None:
    with pytest.raises(AssertionError, match="9 rounds of 100"):
        shares(Report(tasks=1001, seconds=15.0, peak_mb=0.0, marks=[0.0] * 9), width=100)


def test_ideal_is_all_the_waiting_on_eight_threads() -> None:
    assert ideal_even(40, 500) == 2.5
    assert ideal_even(41, 500) == 3.0
    assert ideal_mixed(4_000) == pytest.approx((40 * 1.0 + 3_960 * 0.001) / 8)


def test_the_default_is_compared_with_the_best_of_the_others_by_median() -> None:
    rates = Rates({"default": [8.0, 8.0, 8.0], "1 thread": [1.0, 90.0, 1.0], "4 threads": [10.0, 10.0, 10.0]})
    best, ratio = against_best(rates)
    assert (best, ratio.median) == ("4 threads", 0.8)


def test_a_rival_that_cannot_be_installed_is_named_in_the_figure_and_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figure = Figure(
        "frontier/one-process", 1.0, "tasks/s", {}, {}, scale=1, repeat=1, missing=("huey: no index",), load=0.0
    )

    def measured(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
        yield figure

    monkeypatch.setattr(suites, "measure", measured)
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        code = command.main(["frontier", "--json", "--dir", str(tmp_path)])
    assert code == 1
    assert json.loads(printed.getvalue())["missing"] == ["huey: no index"]
    assert "NOT MEASURED: huey: no index" in figure.words()


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A place for the rivals, with a program where Python stands; gives the page on which installs are written down."""
    python = tmp_path / "python"
    python.write_text(INSTALLS)
    python.chmod(0o755)
    wanted = tmp_path / "rivals.txt"
    wanted.write_text("rival==1\n")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(rivals, "PLACE", tmp_path / "place")
    monkeypatch.setattr(rivals, "WANTED", wanted)
    return tmp_path / "place" / "installs"


def test_rivals_are_installed_once_and_again_when_a_pin_changes(installs: Path) -> None:
    rivals.python()
    rivals.python()
    assert installs.read_text().count("-m pip install") == 1
    rivals.WANTED.write_text("rival==2\n")
    rivals.python()
    assert installs.read_text().count("-m pip install") == 2


def test_an_install_that_failed_says_why_and_is_done_again(installs: Path) -> None:
    refusal = installs.parent.parent / "refuse"
    refusal.touch()
    with pytest.raises(rivals.Missing, match="-m pip install` failed: no index"):
        rivals.python()
    refusal.unlink()
    rivals.python()
    assert installs.read_text().count("-m pip install") == 2


def test_every_setting_of_huey_says_what_it_keeps() -> None:
    assert {fsync for fsync, _ in frontier_rivals.SETTINGS.values()} == {None, False}
    assert all("lost with its process" in kept for _, kept in frontier_rivals.SETTINGS.values())


def test_the_rivals_are_pinned() -> None:
    lines = [line for line in rivals.WANTED.read_text().splitlines() if not line.startswith("#")]
    pinned = {line.partition("==")[0] for line in rivals.PINS.read_text().splitlines() if "==" in line}
    assert lines
    assert all("==" in line or line in pinned for line in lines)


def test_a_turn_is_played_in_a_process_and_a_folder_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    grown, bare = take(Grow(2), tmp_path), take(Deque(2), tmp_path)
    assert (grown.tasks, bare.tasks) == (111, 111)
    assert grown.rate < bare.rate
    assert 5 < grown.peak_mb < 300
    assert list(tmp_path.iterdir()) == []


def test_a_race_without_huey_gives_the_rest_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_index(fsync: bool | None, folder: Path) -> frontier_rivals.Huey:
        raise rivals.Missing("no index")

    monkeypatch.setattr(frontier_race, "at_its_best", no_index)
    (figure,) = frontier_race.measure(Setting(0.0001, 1, tmp_path), frozenset((frontier_race.ONE,)))
    assert set(figure.ratios) == {"deque", "pool"}
    assert figure.missing == ("huey: no index",)
    assert figure.bar is not None
    assert not figure.bar.met


def test_the_rest_may_take_a_fifth_longer_with_a_start_and_the_longest_task_for_each_kill() -> None:
    assert allowed(rest=10.0, longest=3.0) == pytest.approx(12 + 3 + 1)
    assert allowed(rest=10.0, longest=3.0, kills=3) == pytest.approx(12 + 3 * (3 + 1))


def test_a_program_is_killed_at_half_way_and_ends_when_it_is_started_again(tmp_path: Path) -> None:
    whole, rest = play(Nap(8, ms=100, threads=1), tmp_path, (0.5,), killing=True)
    assert 0.3 < rest < whole


def test_a_program_that_was_not_started_again_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    work = Nap(8, ms=100, threads=1)
    program = Program(work, tmp_path)
    try:
        assert program.wait_for(2) < work.count
    finally:
        program.kill()
    with pytest.raises(AssertionError, match="9 tasks were to be done"):
        check_done(work, tmp_path)


@pytest.mark.full
def test_the_deaths_of_a_killer_are_counted_until_it_is_quarantined(tmp_path: Path) -> None:
    assert hunt(Beside(64, killer=20, end="exit", processes=1), tmp_path) == (5, True)
