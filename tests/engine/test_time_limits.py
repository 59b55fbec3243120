"""Whole programs with tasks that do not keep their time limit, in threads and in worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.planted import REPOSITORY

#: What no test should ever need.
LONG = 30.0

PROGRAM = """
import asyncio, ctypes, json, sys, threading, time
from pathlib import Path
from ramify import Engine, current

engine = Engine("late.db")
said = []
engine._runtime.say = said.append
#: Who started, in whatever process.
starts = Path("starts")

def note(who: str) -> int:
    with starts.open("a") as file:
        file.write(who + "\\n")
    return starts.read_text().split().count(who)

@engine.resource
async def client():
    yield note("client")

@engine.task(retries=0, timeout=0.3)
async def stubborn() -> str:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@engine.task(retries=0, timeout=0.3)
async def block() -> str:
    threading.Event().wait(60)
    return "late"

@engine.task(retries=0, timeout=0.3)
async def spin() -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
    return "late"

@engine.task(retries=0, timeout=0.3)
def plain() -> str:
    threading.Event().wait(60)
    return "late"

@engine.task(retries=0, timeout=0.3)
async def hold() -> str:
    ctypes.PyDLL(None).usleep(600_000)
    return "late"

@engine.task
async def beside(seconds: float) -> list[int]:
    opened = await client()
    if note("beside") == 1:
        await asyncio.sleep(seconds)
    return [current().attempt, opened]

@engine.task
def root(kind: str):
    # Longer than anybody waits, where the one that is late does not let the loop turn.
    yield beside.of(60.0 if kind in ("block", "spin") else 1.0)
    yield engine._runtime.table()[kind].of()

if __name__ == "__main__":
    began = time.monotonic()
    run = engine.run(root.of(sys.argv[1]), processes=int(sys.argv[2]))
    took = time.monotonic() - began
    errors = [[error.kind, error.status.name, error.failure.type, error.failure.text] for error in run.errors()]
    print(json.dumps([list(run.results(beside, partial=True)), errors, said, took]), flush=True)
"""
FAILED = ["FAILED", "TimeoutError", "no result after 0.3 seconds"]


def run(folder: Path, kind: str, processes: int) -> Any:
    """What the task beside it came to, the errors, what was replaced, and how long it took."""
    (folder / "late.py").write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "late.py", kind, str(processes)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env={"PYTHONPATH": f"{REPOSITORY / 'src'}", "PATH": ""},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    beside, errors, said, took = json.loads(ended.stdout)
    return beside, errors, [text for text in said if "replaced" in text], took


@pytest.mark.parametrize("kind", ["block", "spin"])
def test_a_blocked_event_loop_is_replaced_and_what_lived_on_it_is_opened_anew(kind: str, tmp_path: Path) -> None:
    beside, errors, replaced, took = run(tmp_path, kind, 0)
    assert errors == [[kind, *FAILED]]
    assert beside == [[1, 2]]
    (why,) = replaced
    assert why.startswith("a worker event loop was replaced: task ")
    assert "ran out of time" in why
    assert took < LONG / 3


def test_a_coroutine_that_swallows_its_cancellation_harms_nobody_and_does_not_hold_up_the_end(tmp_path: Path) -> None:
    beside, errors, replaced, took = run(tmp_path, "stubborn", 0)
    assert (beside, errors, replaced) == ([[1, 1]], [["stubborn", *FAILED]], [])
    assert took < LONG / 3


@pytest.mark.parametrize("kind", ["stubborn", "block", "plain"])
def test_a_worker_process_is_replaced_to_be_rid_of_a_task_that_is_out_of_time(kind: str, tmp_path: Path) -> None:
    beside, errors, replaced, took = run(tmp_path, kind, 1)
    assert errors == [[kind, *FAILED]]
    assert [attempt for attempt, _ in beside] == [1]
    why = "it ended itself to be rid of a task that ran out of time, or continued after it was cancelled"
    assert f"a worker process was replaced: {why}" in replaced
    assert took < LONG / 3


@pytest.mark.parametrize("processes", [0, 1])
def test_a_result_that_was_kept_back_by_a_held_interpreter_is_too_late(processes: int, tmp_path: Path) -> None:
    beside, errors, replaced, _ = run(tmp_path, "hold", processes)
    assert (beside, errors, replaced) == ([[1, 1]], [["hold", *FAILED]], [])
