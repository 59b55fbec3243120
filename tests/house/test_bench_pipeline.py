"""The figures of pipelines: what they are made of, when their bars are met, and that they are told without rivals."""

from pathlib import Path

import pytest

from bench import pipeline_expand, pipeline_gates, pipeline_small, rivals
from bench.contest import Rates
from bench.figure import Figure, Setting
from bench.frontier_turn import Gates, Report, Steps, take
from bench.pipeline_rivals import RIVALS
from bench.pipeline_small import OURS, STARTS


def met(figure: Figure) -> bool:
    assert figure.bar is not None
    return figure.bar.met


def test_small_pipelines_are_started_and_then_worked_off(tmp_path: Path) -> None:
    report = take(Steps(3), tmp_path)
    assert (report.tasks, report.starting > 0, report.seconds > 0) == (15, True, True)


def test_gates_are_waited_at_and_answered_from_here_and_from_elsewhere(tmp_path: Path) -> None:
    report = take(Gates(runs=5, samples=2, idle=0.1), tmp_path)
    assert (len(report.same), len(report.other)) == (2, 2)
    assert report.idle_cpu > 0


def test_elements_are_expanded_and_added_up_and_compared_with_the_tree(tmp_path: Path) -> None:
    (figure,) = pipeline_expand.measure(Setting(0.0001, 1, tmp_path), frozenset((pipeline_expand.NAME,)))
    assert set(figure.ratios) == {pipeline_expand.ONE, pipeline_expand.TENTH}
    assert figure.more["elements"] == 100
    assert list(tmp_path.iterdir()) == []


def test_small_pipelines_without_rivals_are_measured_and_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(rivals.LEFT_OUT, "1")
    (figure,) = pipeline_small.measure(Setting(0.0001, 1, tmp_path), frozenset((pipeline_small.NAME,)))
    assert not figure.ratios
    assert figure.missing[0].startswith("dbos and procrastinate: left out")
    assert not met(figure)


def test_the_bar_of_small_pipelines_asks_for_steps_and_for_ten_times_each_rival(tmp_path: Path) -> None:
    found = {name: settings[0] for name, settings in RIVALS.items()}

    def judged(steps: float, dbos: float, procrastinate: float) -> bool:
        rates = Rates({OURS: [steps], STARTS: [1.0], "dbos": [dbos], "procrastinate": [procrastinate]})
        return met(pipeline_small.figure(Setting(1, None, tmp_path), rates, 10_000, 500, found, ()))

    assert judged(5_000, 500, 500)
    assert not judged(4_999, 100, 100)
    assert not judged(5_000, 501, 100)
    assert not judged(5_000, 100, 501)


def test_the_bar_of_gates_asks_for_answers_from_both_sides_and_for_rest(tmp_path: Path) -> None:
    def judged(same: float, other: float, idle_cpu: float) -> bool:
        report = Report(2, 1.0, 1.0, same=[same], other=[other], idle_cpu=idle_cpu)
        return met(pipeline_gates.figure(Setting(1, None, tmp_path), [report], 100_000))

    assert judged(0.009, 0.009, 0.009)
    assert not judged(0.010, 0.009, 0.009)
    assert not judged(0.009, 0.010, 0.009)
    assert not judged(0.009, 0.009, 0.010)


def test_every_setting_of_a_rival_says_what_it_keeps() -> None:
    assert all("fsync per commit" in rival.keeps for settings in RIVALS.values() for rival in settings)
