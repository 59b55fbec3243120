"""`--log`: what a worker does as lines for programs, also of its worker processes."""

import json
import logging
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
    (told,) = [found for found in map(json.loads, lines) if "1 of 1 tasks failed" in found["text"]]
    assert told["level"] == "error"


def test_without_log_nothing_is_told_of_attempts(program: Path, desk: Desk) -> None:
    told = desk.err("run", "walk.py:engine", "load", "1", code=1)
    assert "attempt" not in told
    # What failed is on standard output, with commands to type; how to go on in Python is not for here.
    assert "retry()" not in told
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
    assert worker.returncode == 0
    lines = [json.loads(line) for line in written.splitlines()]
    assert attempts(iter(lines)) == [DONE, FAILED, RETRYING]
    assert sum(line["event"] == "entered" for line in lines) == 1
    assert (lines[0]["event"], lines[0]["text"].split()[0], lines[-1]["text"]) == ("said", "working", "stopped")
    engine.close()


def load(n: int) -> int:
    return n


LOGGING = """
import logging

from ramify import Engine

%s
engine = Engine("walk.db")
log = logging.getLogger("shop")


@engine.task(queue="mail")
def send(n: int) -> None:
    log.debug("not for the log")
    log.info("sending %%d", n)
    try:
        raise OSError("no")
    except OSError:
        log.warning("not sent", exc_info=True)


if __name__ == "__main__":
    engine.enqueue(send.of(7))
"""
SETUPS = {
    "nobody set it up": "",
    "to standard error": "logging.basicConfig(level=logging.INFO)",
    "twice": "logging.basicConfig()\nlogging.getLogger('shop').addHandler(logging.StreamHandler())",
    "by one logger": "logging.getLogger('shop').addHandler(logging.StreamHandler())",
}


def worked(form: list[str], processes: int) -> list[str]:
    """What a worker writes on standard error until it has nothing to do."""
    command = [*RAMIFY, "worker", "walk.py:engine", "--burst", "--processes", str(processes), *form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    return done.stderr.splitlines()


@pytest.mark.parametrize(("setup", "processes"), [*((each, 0) for each in SETUPS), ("to standard error", 1)])
def test_what_a_task_logs_is_in_the_log_once_and_with_its_facts(folder: Path, setup: str, processes: int) -> None:
    (folder / "walk.py").write_text(LOGGING % SETUPS[setup])
    subprocess.run([sys.executable, "walk.py"], check=True, capture_output=True)
    lines = [json.loads(line) for line in worked(["--log", "json"], processes)]
    logged = [line for line in lines if line["event"] == "log"]
    assert [(line["level"], line["text"].splitlines()[0]) for line in logged] == [
        ("info", "sending 7"),
        ("warning", "not sent"),
    ]
    assert logged[1]["text"].endswith("OSError: no")
    for line in logged:
        assert (line["logger"], line["queue"], line["name"], line["kind"]) == ("shop", "mail", "jobs/mail", "send")
        assert line["process"]
        assert line["attempt"] == 1
    engine = Engine("walk.db")
    stored = engine._runtime.store.reads.logs(logged[0]["run"]).rows
    assert [(each.line.task, each.line.text) for each in stored] == [(line["task"], line["text"]) for line in logged]
    engine.close()


def test_a_log_for_people_has_what_a_task_logs_too(folder: Path) -> None:
    (folder / "walk.py").write_text(LOGGING % "logging.basicConfig()")
    subprocess.run([sys.executable, "walk.py"], check=True, capture_output=True)
    found = [line for line in worked(["--log", "text"], 1) if "sending 7" in line]
    assert len(found) == 1
    assert found[0].endswith(" log: sending 7")


@pytest.mark.parametrize(
    ("setup", "head", "processes"), [("", "", 0), ("", "", 1), ("logging.basicConfig()", "WARNING:shop:", 0)]
)
def test_without_a_log_warnings_of_tasks_are_seen_as_the_program_has_it(
    folder: Path, setup: str, head: str, processes: int
) -> None:
    (folder / "walk.py").write_text(LOGGING % setup)
    subprocess.run([sys.executable, "walk.py"], check=True, capture_output=True)
    written = worked([], processes)
    assert written.count(f"{head}not sent") == 1
    assert not any("sending" in line for line in written)


def test_logging_is_put_back_when_the_command_is_over(program: Path, desk: Desk) -> None:
    before = list(logging.getLogger().handlers)
    desk.err("run", "walk.py:engine", "load", "0", "--log", "json")
    assert logging.getLogger().handlers == before


def test_a_worker_process_that_dies_is_a_warning(folder: Path) -> None:
    (folder / "walk.py").write_text(
        "import os\nfrom ramify import Engine\nengine = Engine('walk.db')\n"
        "@engine.task(max_crashes=1)\ndef leave() -> None:\n    os._exit(7)\n"
    )
    subprocess.run([sys.executable, "-c", "from walk import *; engine.enqueue(leave.of())"], check=True)
    lines = [json.loads(line) for line in worked(["--log", "json"], 1)]
    deaths = {line["event"]: line["level"] for line in lines if line["event"] in ("buried", "replaced")}
    assert deaths == {"buried": "warning", "replaced": "warning"}
