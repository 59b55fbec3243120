"""`ramify worker --metrics`: one port for a worker and all processes of it."""

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel.shop import wait_until

PROGRAM = """
from ramify import Engine, Spawns

engine = Engine("walk.db")


@engine.task
def grow(depth: int) -> Spawns[int]:
    for _ in range(2 if depth else 0):
        yield grow.of(depth - 1)
    return depth


if __name__ == "__main__":
    engine.start(grow.of(5), name="tree")
"""


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """A worker, and what its metrics say when they are asked for."""
    command = [sys.executable, "-m", "ramify", "worker", *arguments, "--metrics", "0"]
    working = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert working.stderr is not None
        told, address = working.stderr.readline().rstrip().rsplit(" ", 1)
        assert told == "metrics on"
        assert address.startswith("http://127.0.0.1:")
        assert working.stderr.readline().startswith("working on ")

        def scrape() -> str:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return str(answer.read().decode())

        yield working, scrape
    finally:
        working.kill()
        working.communicate()


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
def test_one_port_tells_what_a_worker_and_its_processes_did(folder: Path, options: list[str]) -> None:
    (folder / "walk.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "walk.py"], check=True)
    with serving("walk.py:engine", *options) as (working, scrape):
        wait_until(lambda: 'ramify_tasks_total{outcome="done",queue="default",task="grow"} 63.0\n' in scrape(), 60)
        workers = f'ramify_workers{{state="working"}} {len(options) or 1}.0\n'
        wait_until(lambda: workers in scrape(), 60)
        working.send_signal(signal.SIGINT)
        _, err = working.communicate(timeout=60)
        assert (working.returncode, err.splitlines()[-1]) == (130, "stopped")


CRASHING = """
import os

from ramify import Engine

engine = Engine("shop.db")


@engine.task(retries=0)
def bad(n: int) -> None:
    raise ValueError(n)


@engine.task(retries=0)
def good(n: int) -> int:
    return n


@engine.task(max_crashes=1)
def exits() -> None:
    os._exit(7)


if __name__ == "__main__":
    engine.enqueue_many([*map(bad.of, range(50)), *map(good.of, range(50))])
    engine.enqueue(exits.of())
"""


def test_a_worker_process_that_dies_takes_no_total_along(folder: Path) -> None:
    (folder / "shop.py").write_text(CRASHING)
    subprocess.run([sys.executable, "shop.py"], check=True)
    totals = (
        'ramify_tasks_total{outcome="failed",queue="default",task="bad"} 50.0',
        'ramify_tasks_total{outcome="done",queue="default",task="good"} 50.0',
        'ramify_tasks_total{outcome="quarantined",queue="default",task="exits"} 1.0',
    )
    with serving("shop.py:engine", "--processes", "1") as (_, scrape):
        wait_until(lambda: set(totals) <= set(scrape().splitlines()), 60)
        found = dict(line.rsplit(" ", 1) for line in scrape().splitlines())
    deaths = float(found["ramify_worker_deaths_total"])
    assert deaths >= 1
    assert float(found["ramify_worker_starts_total"]) == deaths + 1


def test_totals_do_not_fall_when_the_whole_worker_is_killed_and_started_again(folder: Path) -> None:
    (folder / "walk.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "walk.py"], check=True)
    done = 'ramify_tasks_total{outcome="done",queue="default",task="grow"} 63.0'
    with serving("walk.py:engine") as (working, scrape):
        wait_until(lambda: done in scrape().splitlines(), 60)
        working.kill()
        working.wait(60)
    with serving("walk.py:engine") as (_, scrape):
        assert done in scrape().splitlines()
        wait_until(lambda: "ramify_worker_deaths_total 1.0" in scrape().splitlines(), 60)
