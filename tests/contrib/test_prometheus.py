"""Metrics for Prometheus, scraped over HTTP."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ramify import ConfigError, Defer, Engine
from ramify.contrib.prometheus import Metrics
from ramify.kernel.signals import Attempts, Worked
from ramify.testing import using
from ramify.testing.clock import SECOND
from tests.kernel.shop import wait_until

DASHBOARD = Path(__file__).parents[2] / "docs" / "operations" / "grafana.json"
#: Until then tasks of ours run.
SENT = threading.Event()

Sample = tuple[str, tuple[tuple[str, str], ...]]


def samples(text: str) -> dict[Sample, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(port: int) -> dict[Sample, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return samples(answer.read().decode())


def of(name: str, **labels: str) -> Sample:
    return name, tuple(sorted(labels.items()))


@pytest.fixture
def engine() -> Engine:
    engine = Engine("memory:")

    @engine.task(retries=1)
    def work(n: int) -> int:
        if n == 0:
            raise ValueError("zero")
        return n

    @engine.task(retries=0)
    def wait() -> None:
        raise Defer(60)

    engine.start([work.of(n) for n in range(4)], order="any")
    engine.start(wait.of())
    return engine


def test_a_scrape_tells_what_was_done_and_what_is_left(engine: Engine) -> None:
    metrics = Metrics(engine)
    labels = {"queue": "default", "task": "work"}
    with metrics.serve(0) as port:
        before = scrape(port)
        assert before[of("ramify_pending_tasks", **labels)] == 4
        assert before[of("ramify_oldest_ready_age_seconds", queue="default")] > 0
        assert before[of("ramify_running_tasks", queue="default")] == 0
        assert before[of("ramify_workers", state="working")] == 0
        assert before[of("ramify_stuck_runs")] == 2
        with engine.working(threads=1):
            wait_until(lambda: scrape(port)[of("ramify_deferrals_total", queue="default", task="wait")] == 1)
            wait_until(
                lambda: scrape(port).get(of("ramify_tasks_total", queue="default", task="work", outcome="failed"))
            )
            assert scrape(port)[of("ramify_workers", state="working")] == 1
        found = scrape(port)
    assert found[of("ramify_tasks_total", **labels, outcome="done")] == 3
    assert found[of("ramify_tasks_total", **labels, outcome="failed")] == 1
    assert found[of("ramify_added_tasks_total", **labels)] == 4
    assert found[of("ramify_retries_total", **labels)] == 1
    assert found[of("ramify_task_duration_seconds_count", **labels)] == 5
    assert found[of("ramify_task_duration_seconds_bucket", **labels, le="+Inf")] == 5
    assert found[of("ramify_commit_duration_seconds_count")] >= 1
    assert found[of("ramify_commit_duration_seconds_sum")] > 0
    assert found[of("ramify_pending_tasks", queue="default", task="wait")] == 1
    assert found[of("ramify_pending_tasks", **labels)] == 0
    assert found[of("ramify_oldest_ready_age_seconds", queue="default")] == 0
    assert found[of("ramify_worker_starts_total")] == 1
    assert found[of("ramify_worker_deaths_total")] == found[of("ramify_refusals_total")] == 0
    assert found[of("ramify_store_up")] == 1


def test_running_tasks_and_the_oldest_ready_one_are_told_by_queue(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "work.db")

    @engine.task(queue="mail")
    def send() -> None:
        SENT.wait(60)

    @engine.task(queue="slow")
    def pack() -> None:
        pass

    engine.enqueue_many([send.of(), send.of(), pack.of()])
    with Metrics(engine).serve(0) as port, engine.working(threads=2, queues=["mail"]):
        wait_until(lambda: scrape(port)[of("ramify_running_tasks", queue="mail")] == 2)
        found = scrape(port)
        SENT.set()
    assert found[of("ramify_oldest_ready_age_seconds", queue="mail")] == 0
    assert found[of("ramify_running_tasks", queue="slow")] == 0
    assert found[of("ramify_oldest_ready_age_seconds", queue="slow")] > 0
    assert found[of("ramify_pending_tasks", queue="slow", task="pack")] == 1
    engine.close()


def test_totals_are_those_of_the_store_whoever_did_the_work(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    first = Engine(path)

    @first.task
    def work(n: int) -> int:
        return n

    jobs = first.enqueue_many([work.of(n) for n in range(5)])
    with first.working():
        assert [job.result(60) for job in jobs] == [0, 1, 2, 3, 4]
    first.close()
    registry = CollectorRegistry()
    registry.register(Metrics(Engine(path)))
    found = samples(generate_latest(registry).decode())
    assert found[of("ramify_tasks_total", queue="default", task="work", outcome="done")] == 5
    assert of("ramify_task_duration_seconds_count", queue="default", task="work") not in found


def test_buckets_hold_all_that_is_below_them(engine: Engine) -> None:
    metrics, registry = Metrics(engine), CollectorRegistry()
    registry.register(metrics)
    signals = engine._runtime.signals()
    for _ in range(2):
        signals.send(Worked(0, 1, 0.5, 1, (Attempts("work", "mail", (("done", 6),), 9.0, (3, 2, *[0] * 11, 1)),)))
    found = samples(generate_latest(registry).decode())
    labels = {"queue": "mail", "task": "work"}
    assert found[of("ramify_task_duration_seconds_bucket", **labels, le="0.001")] == 6
    assert found[of("ramify_task_duration_seconds_bucket", **labels, le="0.005")] == 10
    assert found[of("ramify_task_duration_seconds_bucket", **labels, le="7200.0")] == 10
    assert found[of("ramify_task_duration_seconds_bucket", **labels, le="+Inf")] == 12
    assert found[of("ramify_task_duration_seconds_sum", **labels)] == 18.0


def test_slots_that_were_late_are_counted_by_schedule() -> None:
    engine = Engine("unused.db")

    @engine.task
    def work() -> None:
        pass

    engine.schedule(work.of(), name="etl", cron="@hourly", late_after=60)
    engine.schedule(work.of(), name="tidy", cron="@hourly")
    registry = CollectorRegistry()
    registry.register(Metrics(engine))
    with using(engine) as bench:
        bench.drain()
        for late in (0, 1, 2):
            found = samples(generate_latest(registry).decode())
            assert found[of("ramify_cron_late_total", schedule="etl")] == late
            assert found[of("ramify_cron_late_total", schedule="tidy")] == 0
            # Nobody works for two hours, so that the last slot begins far too late for a minute.
            bench.clock.advance(7_200 - bench.clock.now() // SECOND % 3_600 + 120)
            bench.drain(raising=False)


def test_the_dashboard_shows_every_metric_that_is_exported_and_no_other(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "work.db")

    @engine.cron("@yearly")
    @engine.task
    def work() -> None:
        pass

    registry = CollectorRegistry()
    registry.register(Metrics(engine))
    with engine.working():
        engine.enqueue(work.of()).result(60)
    exported = {name: dict(labels).keys() for name, labels in samples(generate_latest(registry).decode())}
    engine.close()
    board = json.loads(DASHBOARD.read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    asked = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    shown = set(re.findall(r"ramify_\w+", asked + board["templating"]["list"][1]["query"]["query"]))
    assert shown - exported.keys() == set()
    assert exported.keys() - shown == {"ramify_task_duration_seconds_count", "ramify_task_duration_seconds_sum"}
    grouped = re.findall(r"by \(([\w, ]+)\) \((?:rate\()?(ramify_\w+)", asked)
    assert grouped
    assert [
        (name, label) for labels, name in grouped for label in labels.split(", ") if label not in exported[name]
    ] == []


def test_whoever_registers_it_does_not_open_the_store(tmp_path: Path) -> None:
    CollectorRegistry(auto_describe=True).register(Metrics(Engine(tmp_path / "walk.db")))
    assert list(tmp_path.iterdir()) == []


def test_while_the_store_cannot_be_read_the_times_are_told(tmp_path: Path) -> None:
    (tmp_path / "walk.db").write_text("this is no store")
    registry = CollectorRegistry()
    registry.register(Metrics(Engine(tmp_path / "walk.db")))
    found = samples(generate_latest(registry).decode())
    assert (found[of("ramify_store_up")], found[of("ramify_commit_duration_seconds_count")]) == (0, 0)


def test_a_port_that_is_taken_is_refused_in_words(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} .*Give another port"), Metrics(engine).serve(port):
            pass


@pytest.mark.parametrize("host", ["nohost.invalid", "192.0.2.1", "a..b"], ids=["unknown", "not here", "no name"])
def test_a_host_that_is_not_this_machine_is_refused_in_words(engine: Engine, host: str) -> None:
    with pytest.raises(ConfigError, match=rf"on {host}:0 .*Give another host"), Metrics(engine).serve(0, host):
        pass


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "ramify.contrib.prometheus")
    with pytest.raises(Exception, match=r"pip install 'ramify\[prometheus\]'"):
        __import__("ramify.contrib.prometheus")
