"""The figures of jobs: what they are made of, when their bars are met, and that they are told without rivals."""

from pathlib import Path

import pytest

from bench import jobs_cron, jobs_drain, jobs_enqueue, jobs_latency, jobs_retention, jobs_waiting, rivals
from bench.contest import Rates
from bench.figure import Figure, Setting
from bench.frontier_turn import Bare, Enqueue, Report, Schedules, Waiting, take
from bench.jobs_drain import OURS
from bench.jobs_enqueue import ALONE, BARE, BATCH, CORE, CROWD
from bench.jobs_rivals import RIVALS

FULL = Setting(1, None, Path())


def met(figure: Figure) -> bool:
    assert figure.bar is not None
    return figure.bar.met


def test_jobs_of_several_threads_are_all_there_and_their_transactions_counted(tmp_path: Path) -> None:
    report = take(Enqueue(20, threads=4), tmp_path)
    assert report.tasks == 20
    # Ids are reserved anew once a second, and on a busy machine this may take some.
    assert 0 < report.commits <= 22 + report.seconds


def test_jobs_can_be_enqueued_many_at_a_time(tmp_path: Path) -> None:
    report = take(Enqueue(50, many=20), tmp_path)
    assert report.tasks == 50
    assert report.commits >= 3


def test_bare_transactions_can_begin_with_a_warm_log(tmp_path: Path) -> None:
    assert take(Bare(3, warm=True), tmp_path).tasks == 3


def test_a_queue_is_sampled_beside_an_empty_one(tmp_path: Path) -> None:
    report = take(Waiting(200, samples=2), tmp_path)
    sampled = {name: len(samples) for name, samples in report.samples.items()}
    sides = {"enqueue": 20, "claim": 2, "commit": 2}
    assert sampled == sides | {f"{name} empty": many for name, many in sides.items()}


def test_a_drained_queue_without_rivals_is_measured_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(rivals.LEFT_OUT, "1")
    (figure,) = jobs_drain.measure(Setting(0.0001, 1, tmp_path), frozenset((jobs_drain.NAME,)))
    assert figure.more["jobs"] == 1_000
    assert figure.missing[0].startswith("huey, rq, dramatiq: left out")
    assert not met(figure)
    assert list(tmp_path.iterdir()) == []


def test_the_bar_of_one_thread_asks_for_half_of_bare_transactions() -> None:
    def judged(alone: float, bare: float) -> bool:
        return met(jobs_enqueue.one(FULL, Rates({ALONE: [alone], BARE: [bare]}), 5_000))

    assert judged(50, 100)
    assert not judged(49, 100)


def test_the_bar_of_threads_asks_for_twice_one_thread_and_for_shared_commits_in_every_turn() -> None:
    def judged(crowd: float, *commits: int) -> bool:
        rates = Rates({ALONE: [100.0] * len(commits), CROWD: [crowd] * len(commits)})
        return met(jobs_enqueue.threads(FULL, rates, [Report(400, 1.0, 1.0, commits=each) for each in commits]))

    assert judged(200, 100, 90)
    assert not judged(199, 100, 90)
    assert not judged(200, 90, 101)


def test_the_bar_of_many_asks_for_half_of_the_store() -> None:
    def judged(batch: float, core: float) -> bool:
        return met(jobs_enqueue.many(FULL, Rates({BATCH: [batch], CORE: [core]}), Enqueue(1_000, many=100)))

    assert judged(50, 100)
    assert not judged(49, 100)


def test_the_bar_of_a_drained_queue_asks_for_its_multiple_of_each_rival() -> None:
    found = {name: settings[0] for name, settings in RIVALS.items()}
    report = Report(3_000, 1.0, 1.0, starting=1.0)

    def judged(huey: float, rq: float, dramatiq: float) -> bool:
        rates = Rates({OURS: [3_000], "huey": [huey], "rq": [rq], "dramatiq": [dramatiq]})
        return met(jobs_drain.figure(FULL, rates, [report], 5_000, found, ()))

    assert judged(60, 100, 100)
    assert not judged(61, 100, 100)
    assert not judged(60, 101, 100)
    assert not judged(60, 100, 101)


def test_the_bar_of_latency_asks_for_both_sides() -> None:
    def judged(same: float, other: float) -> bool:
        return met(jobs_latency.figure(FULL, [Report(2, 1.0, 1.0, same=[same], other=[other])]))

    assert judged(0.0049, 0.0099)
    assert not judged(0.005, 0.0099)
    assert not judged(0.0049, 0.01)


def test_the_bar_of_waiting_jobs_asks_for_claims_and_enqueues_and_tells_commits() -> None:
    def judged(claim: float, enqueue: float, commit: float) -> bool:
        samples = {"claim": [claim], "enqueue": [enqueue], "commit": [commit]}
        empty = {f"{name} empty": [1.0] for name in samples}
        return met(jobs_waiting.figure(FULL, [Report(1, 1.0, 1.0, samples=samples | empty)]))

    assert judged(2.0, 2.0, 9.0)
    assert not judged(2.1, 1.0, 1.0)
    assert not judged(1.0, 2.1, 1.0)


def test_the_bar_of_retention_asks_for_the_rate_of_both() -> None:
    def judged(forgotten: int, busy: float) -> bool:
        rates = Rates({jobs_retention.OURS: [busy], jobs_retention.WITHOUT: [100]})
        return met(jobs_retention.figure(FULL, rates, [Report(1, 1.0, 1.0, forgotten=forgotten)]))

    assert judged(2_500, 95)
    assert not judged(2_499, 95)
    assert not judged(2_500, 94)


def test_schedules_are_sampled_spread_and_at_once(tmp_path: Path) -> None:
    report = take(Schedules(3, seconds=0.3, idle=0.1), tmp_path)
    assert {name: len(samples) for name, samples in report.samples.items()} == {"spread": 3, "moment": 3}
    assert all(late > 0 for samples in report.samples.values() for late in samples)


def test_the_bar_of_schedules_asks_for_punctual_slots_and_for_rest() -> None:
    def judged(late: float, idle: float) -> bool:
        samples = {"spread": [late], "moment": [9.0]}
        return met(jobs_cron.figure(FULL, [Report(1_000, 1.0, 1.0, samples=samples, idle_cpu=idle)], {}))

    assert judged(0.049, 0.009)
    assert not judged(0.051, 0.009)
    assert not judged(0.049, 0.011)


def test_every_setting_of_a_rival_says_what_it_keeps() -> None:
    assert all("fsync per commit" in rival.keeps for rival in RIVALS["huey"])
    assert all("nothing to disk" in rival.keeps for name in ("rq", "dramatiq") for rival in RIVALS[name])
