"""`--log`: what a worker does as lines for programs, also of its worker processes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, Tasks
from tests.cli.conftest import Desk

#: Far above what a worker needs.
LIMIT = 60.0
RAMIFY = [sys.executable, "-m", "ramify"]

PROGRAM = """
from ramify import Backoff, Engine

engine = Engine("walk.db")


@engine.task(retries=1, backoff=Backoff(first=0))
def load(n: int) -> int:
    if n:
        raise OSError("no")
    return n
"""


@pytest.fixture
def program(folder: Path) -> Path:
    """A folder with a program in it."""
    (folder / "walk.py").write_text(PROGRAM)
    return folder


def attempts(lines: Iterator[dict[str, Any]]) -> list[tuple[object, ...]]:
    """What is told of attempts, and that all of it names the process."""
    found = [line for line in lines if line["event"].startswith("task-")]
    assert all(line["process"] and line["run"] and line["kind"] == "load" for line in found)
    return sorted((line["event"], line["attempt"], line["level"], line["error"]) for line in found)


FAILED = ("task-failed", 2, "error", "OSError: no")
RETRYING = ("task-retrying", 1, "warning", "OSError: no")
DONE = ("task-done", 1, "debug", None)


def test_run_writes_a_line_for_each_event(program: Path, desk: Desk) -> None:
    lines = desk.err("run", "walk.py:engine", "load", "1", "--log", "json", code=1).splitlines()
    assert attempts(map(json.loads, lines)) == [FAILED, RETRYING]
    assert sum(json.loads(line)["event"] == "run-ended" for line in lines) == 1


def test_without_log_nothing_is_told_of_attempts(program: Path, desk: Desk) -> None:
    assert "attempt" not in desk.err("run", "walk.py:engine", "load", "1", code=1)
    assert "attempt 2 failed" in desk.err("run", "walk.py:engine", "load", "1", "--log", "text", code=1)


@pytest.mark.parametrize("processes", [0, 1])
def test_all_that_a_worker_says_is_in_its_log_whichever_process_says_it(program: Path, processes: int) -> None:
    tasks = Tasks()
    call = tasks.task(load).of
    engine = Engine("walk.db", include=[tasks])
    run = engine.start([call(0), call(1)])
    command = [*RAMIFY, "worker", "walk.py:engine", "--log", "json", "--log-level", "debug"]
    with subprocess.Popen(
        [*command, "--processes", str(processes)], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as worker:
        try:
            assert run.wait(LIMIT)
            worker.terminate()
            _, written = worker.communicate(timeout=LIMIT)
        finally:
            worker.kill()
    assert worker.returncode == 130
    lines = [json.loads(line) for line in written.splitlines()]
    assert attempts(iter(lines)) == [DONE, FAILED, RETRYING]
    assert sum(line["event"] == "entered" for line in lines) == 1
    assert (lines[0]["event"], lines[0]["text"].split()[0], lines[-1]["text"]) == ("said", "working", "stopped")
    engine.close()


def load(n: int) -> int:
    return n
