"""The pytest fixture, in a test session of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = """
from shop import engine
from ramify.testing.fixture import workbench

bench = workbench(engine)
"""
SHOP = """
from ramify import Engine

engine = Engine("own.db")

@engine.task
def double(n: int) -> int:
    return 2 * n
"""
TESTS = """
from shop import double, engine

def test_one(bench):
    engine.start(double.of(1), name="same")
    bench.assert_enqueued(double.of(1))
    bench.drain()

def test_two_begins_anew(bench):
    bench.refute_enqueued(double)
    run = engine.start(double.of(2), name="same")
    bench.drain()
    assert list(run.results()) == [4]
"""
UNAWARE = """
from shop import double, engine

def test_that_does_not_ask_for_it():
    assert list(engine.run(double.of(3), name="same").results()) == [6]
"""


def session(folder: Path, conftest: str, tests: str) -> subprocess.CompletedProcess[str]:
    for name, text in (("conftest.py", conftest), ("shop.py", SHOP), ("test_shop.py", tests)):
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_each_test_gets_an_empty_store(tmp_path: Path) -> None:
    done = session(tmp_path, CONFTEST, TESTS)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert not (tmp_path / "own.db").exists()


def test_autouse_keeps_every_test_away_from_the_own_store(tmp_path: Path) -> None:
    done = session(tmp_path, CONFTEST.replace("(engine)", "(lambda: engine, autouse=True)"), UNAWARE)
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "own.db").exists()
