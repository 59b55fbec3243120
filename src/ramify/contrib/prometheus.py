"""Metrics for Prometheus: what ever happened in a store, how it is now, and how long the work takes.

Promises: totals come from the store, which counts them in the commits that make them happen. So they never fall, no
process that dies takes any of them along, and every program that serves them tells the same. How long attempts and
commits took is told by the workers of this program, with their beats, since it started: one port is enough for all of
its worker processes, and one that dies takes the times since its last beat along. A scrape reads the store in bounds
(`totals`, `health`); while the store is away, only the times are told.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import EADDRNOTAVAIL
from itertools import accumulate

from ramify.engine.engine import Engine
from ramify.errors import ConfigError, NotInstalled, RamifyError
from ramify.inspect.health import ProcessState, QueueHealth
from ramify.model.event import ENDS, Status, Tally
from ramify.shapes.cron.declaration import late_kind, schedule_of
from ramify.signals import BOUNDS, Attempts, Signal, Worked
from ramify.store.reads import KindTotals

try:
    from prometheus_client import CollectorRegistry, Metric, start_http_server
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        SummaryMetricFamily,
    )
except ImportError as error:
    raise NotInstalled("metrics need the package prometheus-client: pip install 'ramify[prometheus]'") from error

#: What is counted besides ends, by its name in the metrics.
_COUNTED = {
    Tally.ADDED: ("added_tasks", "Tasks that were added."),
    Tally.DUPLICATE: ("duplicate_tasks", "Tasks that were not added because their key was taken."),
    Status.RETRYING: ("retries", "Attempts that failed and are tried again."),
    Status.DEFERRED: ("deferrals", "Attempts that put their task off."),
    Status.REOPENED: ("revivals", "Ended tasks that were begun anew."),
}


class _Times:
    """Attempts of one kind and queue."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.times = [0] * (len(BOUNDS) + 1)

    def add(self, told: Attempts) -> None:
        self.seconds += told.seconds
        self.times = [before + more for before, more in zip(self.times, told.times, strict=True)]

    def buckets(self) -> list[tuple[str, float]]:
        """Each with all that is below it, as Prometheus wants them."""
        return list(zip([*map(str, BOUNDS), "+Inf"], map(float, accumulate(self.times)), strict=True))


class Metrics:
    """Metrics of the store of `engine`: its totals, its health, and the times of the workers it starts from now on.

    It is a collector for a registry. `with metrics.serve(port):` serves it on a port of its own. Or add it to a
    registry that is served already: `REGISTRY.register(Metrics(engine))`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._commits = 0
        self._commit_seconds = 0.0
        self._times: dict[tuple[str, str], _Times] = {}
        engine.listen(self._hear)

    @contextmanager
    def serve(self, port: int, host: str = "127.0.0.1") -> Iterator[int]:
        """Serve the metrics on a port until the block ends, and give the port; 0 picks a free one.

        Anyone who can reach the port can read all of it, so serve on other addresses only in trusted networks.
        """
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, thread = start_http_server(port, host, registry)
        except (OSError, OverflowError, UnicodeError) as error:
            is_host = isinstance(error, socket.gaierror | UnicodeError) or getattr(error, "errno", 0) == EADDRNOTAVAIL
            other = "host, which must be one of this machine" if is_host else "port"
            raise ConfigError(f"metrics cannot be served on {host}:{port} ({error}). Give another {other}.") from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering it must not read the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the times of this program and the present figures of the store."""
        with self._lock:
            told = list(self._timed())
        try:
            told += self._read()
        except RamifyError:
            told.append(_gauge("ramify_store_up", "Whether the store answers.", 0))
        return iter(told)

    def _hear(self, signal: Signal) -> None:
        if isinstance(signal, Worked):
            with self._lock:
                self._commits += signal.commits
                self._commit_seconds += signal.seconds
                for told in signal.attempts:
                    self._times.setdefault((told.queue, told.kind), _Times()).add(told)

    def _timed(self) -> Iterator[Metric]:
        times = HistogramMetricFamily(
            "ramify_task_duration_seconds", "How long attempts of this program took.", labels=["queue", "task"]
        )
        for (queue, kind), each in self._times.items():
            times.add_metric([queue, kind], each.buckets(), each.seconds)
        yield times
        yield SummaryMetricFamily(
            "ramify_commit_duration_seconds",
            "Commits of this program and how long they took.",
            self._commits,
            self._commit_seconds,
        )

    def _read(self) -> Iterator[Metric]:
        totals = self._engine._runtime.store.reads.totals()
        found = self._engine.health()
        yield _gauge("ramify_store_up", "Whether the store answers.", 1)
        yield from _tasks(totals.kinds)
        for name, about, value in (
            ("worker_starts", "Worker processes that began, restarts included.", totals.starts),
            ("worker_deaths", "Worker processes that died.", totals.deaths),
            ("redelivered_tasks", "Tasks that were offered again because a process died.", totals.redelivered),
            ("refusals", "Parts of commits that came too late and were refused.", totals.refused),
        ):
            yield CounterMetricFamily(f"ramify_{name}", about, value=value)
        yield from _queues(totals.kinds, found.queues)
        workers = GaugeMetricFamily("ramify_workers", "Processes on the store.", labels=["state"])
        states = Counter(each.state for each in found.processes)
        for state in ProcessState:
            workers.add_metric([state.value], states[state])
        yield workers
        yield _gauge("ramify_late_tasks", "Tasks that are due and were not begun, at least.", found.late.tasks)
        yield _gauge("ramify_stuck_runs", "Runs that do not continue by themselves, at least.", len(found.stuck))
        if found.store.bytes is not None:
            yield _gauge("ramify_store_bytes", "The size of the store's file.", found.store.bytes)


def _tasks(kinds: Sequence[KindTotals]) -> Iterator[Metric]:
    """All that ever happened to tasks, and how many have not ended."""
    ends = CounterMetricFamily("ramify_tasks", "Tasks that ended.", labels=["queue", "task", "outcome"])
    pending = GaugeMetricFamily("ramify_pending_tasks", "Tasks that have not ended.", labels=["queue", "task"])
    for each in kinds:
        for status in ENDS:
            if status in each.ever:
                ends.add_metric([each.queue, each.kind, status.name.lower()], each.ever[status])
        pending.add_metric([each.queue, each.kind], each.pending)
    yield from (ends, pending)
    yield _late(kinds)
    for what, (name, about) in _COUNTED.items():
        counted = CounterMetricFamily(f"ramify_{name}", about, labels=["queue", "task"])
        for each in kinds:
            counted.add_metric([each.queue, each.kind], each.ever.get(what, 0))
        yield counted


def _late(kinds: Sequence[KindTotals]) -> Metric:
    """The slots of each schedule that were reported as late."""
    late = CounterMetricFamily("ramify_cron_late", "Slots that began or ended late.", labels=["schedule"])
    failed: Counter[str] = Counter()
    for each in kinds:
        if (schedule := schedule_of(each.kind)) is not None:
            failed[schedule] += each.ever.get(Status.FAILED, 0) if each.kind == late_kind(schedule) else 0
    for schedule, slots in sorted(failed.items()):
        late.add_metric([schedule], slots)
    return late


def _queues(kinds: Sequence[KindTotals], busy: Sequence[QueueHealth]) -> Iterator[Metric]:
    """Yield what goes on in each queue that ever had a task."""
    running = GaugeMetricFamily("ramify_running_tasks", "Tasks that processes hold, to run them.", labels=["queue"])
    oldest = GaugeMetricFamily(
        "ramify_oldest_ready_age_seconds", "How long the oldest ready task has been there.", labels=["queue"]
    )
    found = {each.queue: each for each in busy}
    for queue in sorted({each.queue for each in kinds}):
        now = found.get(queue, QueueHealth(queue))
        running.add_metric([queue], now.running)
        oldest.add_metric([queue], 0.0 if now.oldest is None else now.oldest.seconds)
    yield from (running, oldest)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
