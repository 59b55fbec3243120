"""An idle kernel writes nothing and hears at once of new work, from its own process and from others."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ramify.kernel.signals import Moved, Signals
from tests.kernel.shop import Away, Ear, Shop, wait_until

pytestmark = pytest.mark.alone


def work(sent: float) -> float:
    return time.time() - sent


def settled(shop: Shop, away: Away) -> None:
    """Until the kernel has nothing to do and waits for the store."""
    wait_until(lambda: away.calls[-2:].count("wait") or "wait" in away.calls[-4:])


def test_an_idle_kernel_writes_nothing(filed: Shop, tmp_path: Path) -> None:
    run = filed.start(filed.task(work).of(time.time()))
    away = Away(filed.open())
    with filed.working(store=away, beat_every=60.0):
        wait_until(lambda: filed.state(run).is_end)
        settled(filed, away)
        log = tmp_path / "shop.db-wal"
        before, calls = log.read_bytes(), len(away.calls)
        threading.Event().wait(1.2)
        assert log.read_bytes() == before
        # A claim and a rest now and then, nothing else.
        assert set(away.calls[calls:]) <= {"claim", "wait", "advance"}
        assert len(away.calls) - calls < 15


def test_it_hears_at_once_of_tasks_added_in_its_own_process(shop: Shop) -> None:
    task = shop.task(work)
    with shop.working():
        shop.finish(shop.start(task.of(time.time())), store=shop.open())
        threading.Event().wait(0.1)
        run = shop.start(task.of(time.time()), store=shop.open())
        wait_until(lambda: shop.state(run).is_end)
        assert shop.results(run)[0] < 0.7


ADD = """
import sys, time
sys.path[:0] = {path!r}
from pathlib import Path
from tests.kernel.shop import Shop, opener
from tests.kernel.test_idle import work
shop = Shop(opener("sqlite", Path({folder!r})))
task = shop.task(work)
for line in sys.stdin:
    print(shop.start(task.of(time.time())), flush=True)
"""


def test_it_hears_at_once_of_tasks_added_by_another_process(filed: Shop, tmp_path: Path) -> None:
    filed.task(work)
    root = Path(__file__).parents[2]
    code = ADD.format(path=[str(root), str(root / "src")], folder=str(tmp_path))
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin is not None
    assert other.stdout is not None
    with other, filed.working():
        for _ in range(3):
            threading.Event().wait(0.1)
            other.stdin.write("\n")
            other.stdin.flush()
            run = int(other.stdout.readline())
            wait_until(lambda run=run: filed.state(run).is_end)  # type: ignore[misc]
            assert filed.results(run)[0] < 0.7
        other.stdin.close()


def test_it_begins_a_task_when_it_is_due_although_somebody_else_added_it(shop: Shop) -> None:
    task = shop.task(work)
    with shop.working():
        due = time.time() + 0.4
        run = shop.start(task.of(due).delay(0.4), store=shop.open())
        wait_until(lambda: shop.state(run).is_end)
        # It looks once a second besides, and looked when the task was added.
        assert -0.01 < shop.results(run)[0] < 0.3


def test_it_ends_runs_of_others_that_nobody_moves_on(shop: Shop) -> None:
    ear, signals = Ear(), Signals()
    signals.listen(ear)
    task = shop.task(work)
    run = shop.start(task.of(time.time()))
    shop.open().cancel(run)
    other = shop.start(task.of(time.time()))
    with shop.working(signals=signals):
        wait_until(lambda: shop.state(other).is_end)
    assert shop.state(run).is_end
    assert other in {moved.run for moved in ear.of(Moved)}
