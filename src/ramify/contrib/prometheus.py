"""Metrics for Prometheus: what the workers of an engine do, counted from their signals, and how its store is.

Promises: one port is enough, that of the program that started the workers, because what worker processes did reaches it
with their beats. Counters cost memory by kind and queue. A scrape reads the store in bounds (`health`), and while the
store is away it tells what it knows.

Does not know other programs that work on the same store: each counts its own work. What `health` tells is of all.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EADDRNOTAVAIL
from itertools import accumulate

from ramify.engine.engine import Engine
from ramify.errors import ConfigError, NotInstalled, RamifyError
from ramify.inspect.health import ProcessState
from ramify.inspect.status import Counts
from ramify.signals import BOUNDS, Attempts, Buried, Signal, Worked

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

#: Outcomes after which a task is tried again; they are counted apart from ends.
_AGAIN = {"retrying": "retries", "deferred": "deferrals"}


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
    """What the workers did that `engine` starts from now on, and how its store is: a collector for a registry.

    `with metrics.serve(port):` gives it a port of its own; or add it to a registry that is served already:
    `REGISTRY.register(Metrics(engine))`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._claimed = self._commits = self._refused = self._redelivered = 0
        self._commit_seconds = 0.0
        self._outcomes: Counter[tuple[str, str, str]] = Counter()
        self._times: dict[tuple[str, str], _Times] = {}
        engine.listen(self._hear)

    @contextmanager
    def serve(self, port: int, host: str = "127.0.0.1") -> Iterator[int]:
        """Answer scrapes on a port for as long as a block runs, beside it; port 0 is any that is free. Which one it is.

        Whoever reaches the port can read all of it, so other hosts than this one are for networks that are trusted.
        """
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, thread = start_http_server(port, host, registry)
        except (OSError, OverflowError, UnicodeError) as error:
            is_host = isinstance(error, socket.gaierror | UnicodeError) or getattr(error, "errno", 0) == EADDRNOTAVAIL
            other = "host, which must be one of this machine" if is_host else "port"
            raise ConfigError(f"metrics cannot be served on {host}:{port} ({error}); give another {other}") from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def describe(self) -> Iterable[Metric]:
        """Nothing: whoever registers it must not make it read the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """What it knows, and what the store tells now."""
        with self._lock:
            told = list(self._counted())
        try:
            told += self._read()
        except RamifyError:
            told.append(_gauge("ramify_store_up", "Whether the store answers.", 0))
        return iter(told)

    def _hear(self, signal: Signal) -> None:
        with self._lock:
            match signal:
                case Worked():
                    self._claimed += signal.claimed
                    self._commits += signal.commits
                    self._commit_seconds += signal.seconds
                    self._refused += signal.refused
                    for told in signal.attempts:
                        for outcome, count in told.outcomes:
                            self._outcomes[told.queue, told.kind, outcome] += count
                        self._times.setdefault((told.queue, told.kind), _Times()).add(told)
                case Buried():
                    self._redelivered += signal.tasks
                case _:
                    pass

    def _counted(self) -> Iterator[Metric]:
        tasks = CounterMetricFamily("ramify_tasks", "Tasks that ended.", labels=["queue", "task", "outcome"])
        again = {
            outcome: CounterMetricFamily(
                f"ramify_{name}", f"Attempts that ended as {outcome}.", labels=["queue", "task"]
            )
            for outcome, name in _AGAIN.items()
        }
        for (queue, kind, outcome), count in self._outcomes.items():
            if outcome in again:
                again[outcome].add_metric([queue, kind], count)
            else:
                tasks.add_metric([queue, kind, outcome], count)
        times = HistogramMetricFamily(
            "ramify_task_duration_seconds", "How long attempts took.", labels=["queue", "task"]
        )
        for (queue, kind), each in self._times.items():
            times.add_metric([queue, kind], each.buckets(), each.seconds)
        yield from (tasks, *again.values(), times)
        yield CounterMetricFamily("ramify_claimed_tasks", "Tasks that were claimed.", value=self._claimed)
        yield SummaryMetricFamily(
            "ramify_commit_duration_seconds", "Commits and how long they took.", self._commits, self._commit_seconds
        )
        yield CounterMetricFamily("ramify_fenced_writes", "Parts of commits that were refused.", value=self._refused)
        yield CounterMetricFamily(
            "ramify_redelivered", "Tasks that were offered again because a process died.", value=self._redelivered
        )

    def _read(self) -> Iterator[Metric]:
        found = self._engine.health()
        pending = GaugeMetricFamily("ramify_pending_tasks", "Tasks that have not ended.", labels=["task"])
        for kind, counters in self._engine._inside.store.reads.counts(None).items():
            pending.add_metric([kind], Counts.of(counters).pending)
        workers = GaugeMetricFamily("ramify_workers", "Processes on the store.", labels=["state"])
        states = Counter(each.state for each in found.processes)
        for state in ProcessState:
            workers.add_metric([state.value], states[state])
        running = sum(each.tasks for each in found.processes)
        yield from (pending, workers)
        yield _gauge("ramify_store_up", "Whether the store answers.", 1)
        yield _gauge("ramify_held_tasks", "Tasks that processes hold, to run them.", running)
        age = 0.0 if found.oldest is None else found.oldest.seconds
        yield _gauge("ramify_oldest_ready_age_seconds", "How long the oldest ready task has been there.", age)
        yield _gauge("ramify_late_tasks", "Tasks that are due and were not begun, at least.", found.late.tasks)
        yield _gauge("ramify_stuck_runs", "Runs that do not go on by themselves, at least.", len(found.stuck))
        if found.store.bytes is not None:
            yield _gauge("ramify_store_bytes", "The size of the store's file.", found.store.bytes)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
