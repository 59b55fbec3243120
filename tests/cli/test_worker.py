"""`ramify worker` as a service: how it ends by itself, and what it does at signals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ramify.store.open import open_store

RAMIFY = [sys.executable, "-m", "ramify"]
#: What no test should ever need.
LONG = 60.0

PROGRAM = """
import pathlib, threading
from ramify import Engine, Spawns

engine = Engine("walk.db")


@engine.task
def grow(depth: int) -> Spawns[int]:
    for _ in range(3 if depth else 0):
        yield grow.of(depth - 1)
    return depth


@engine.task
def wait_for(name: str) -> None:
    pathlib.Path(name + ".began").touch()
    while not pathlib.Path(name).exists():
        threading.Event().wait(0.01)
"""


@pytest.fixture
def program(folder: Path) -> Path:
    """A folder with a program in it, and no store yet."""
    (folder / "walk.py").write_text(PROGRAM)
    return folder


def start(line: str) -> None:
    """Register a run, on which nobody works yet."""
    text = f"from walk import *; engine.start({line}, name='tree', order='any')"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=LONG)


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["here", "processes"])
def test_a_burst_ends_when_nothing_is_ready_and_says_what_is_left(program: Path, options: list[str]) -> None:
    start("[grow.of(3), grow.of(0).delay(3_600)]")
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", *options]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG)
    assert found.stderr.splitlines()[-1].startswith("nothing is ready; left: 1 task due later, the first in 59 min")
    store = open_store("walk.db")
    try:
        assert sum(len(row.tasks) for row in store.reads.segments().rows) == 1
        assert all(process.reaped for process in store.reads.processes())
    finally:
        store.close()


def test_a_burst_without_anything_to_do_ends_at_once(program: Path) -> None:
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", "--processes", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG)
    assert found.stderr.splitlines()[-1] == "nothing is ready; left: nothing"
