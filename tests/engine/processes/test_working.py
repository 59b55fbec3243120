"""Workers inside a program: how long it waits for them, what it says meanwhile, and how the wait is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ramify import ConfigError, Engine, JobState, Tasks
from ramify.engine.processes import working
from ramify.store.open import open_store
from tests.engine.conftest import Make

LONG = 60.0
#: A server, as far as signals go: the first one lets it leave the block, and it hears all of them.
PROGRAM = """
import asyncio, os, signal, sys, threading
from ramify import Engine

engine = Engine("shop.db")
told, heard = threading.Event(), []

@engine.task
def endless(n: int) -> None:
    with open("began", "a") as file:
        file.write(f"{n}\\n")
    threading.Event().wait()

def hear(number, frame):
    heard.append(signal.Signals(number).name)
    told.set()

def told_to_end():
    print("working", flush=True)
    while not told.wait(0.05):
        pass

async def serve(working):
    async with working:
        await asyncio.to_thread(told_to_end)

if __name__ == "__main__":
    how, processes, grace = sys.argv[1:]
    if how != "plain":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, hear)
    working = engine.working(threads=7, processes=int(processes), grace=float(grace))
    if how == "async":
        asyncio.run(serve(working))
    else:
        with working:
            told_to_end()
    print(*heard, flush=True)
"""


class Program:
    """The program above at work on `tasks` tasks that do not end."""

    def __init__(self, folder: Path, how: str, processes: int, grace: float, tasks: int = 1) -> None:
        (folder / "shop.py").write_text(PROGRAM)
        text = f"from shop import *; engine.enqueue_many([endless.of(n) for n in range({tasks})])"
        subprocess.run([sys.executable, "-c", text], cwd=folder, check=True, timeout=LONG)
        command = [sys.executable, "shop.py", how, str(processes), str(grace)]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "working\n"
        store, seen = open_store(folder / "shop.db"), 0
        try:
            while not (folder / "began").exists() or len((folder / "began").read_text().splitlines()) < tasks:
                seen = store.wait(0.1, seen)
        finally:
            store.close()

    def says(self) -> str:
        """The next line on standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip()

    def ends(self) -> tuple[int, str]:
        """How it ended, and what it printed last."""
        out, _ = self.process.communicate(timeout=LONG)
        return self.process.returncode, out.strip()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Programs; none is left at the end."""
    made: list[Program] = []

    def begin(how: str, processes: int = 0, grace: float = 1_000, tasks: int = 1) -> Program:
        made.append(Program(tmp_path, how, processes, grace, tasks))
        return made[-1]

    yield begin
    for each in made:
        each.process.kill()
        each.process.communicate()


def states(folder: Path) -> list[JobState]:
    engine = Engine(folder / "shop.db")
    try:
        return [job.state for job in engine.jobs()]
    finally:
        engine.close()


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("how", ["block", "async"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_wait_for_tasks_and_the_program_hears_it_too(
    number: signal.Signals, how: str, processes: int, begin: Callable[..., Program], tmp_path: Path
) -> None:
    program = begin(how, processes)
    program.process.send_signal(number)
    assert program.says().startswith("Waiting at most 1000 s for 1 task to finish: endless ")
    program.process.send_signal(number)
    assert program.says().startswith("The wait is over. Tasks that are not saved run again with the next start.")
    assert program.ends() == (0, f"{number.name} {number.name}")
    assert states(tmp_path) == [JobState.QUEUED]


def test_the_wait_says_which_tasks_it_is_for_how_long_it_is_and_how_to_end_it(begin: Callable[..., Program]) -> None:
    program = begin("block", grace=1_000, tasks=7)
    program.process.terminate()
    assert program.says() == (
        "Waiting at most 1000 s for 7 tasks to finish: endless 2, endless 3, endless 4, endless 5, endless 6 and 2 "
        "more. Unfinished tasks run again with the next start. SIGTERM or Ctrl-C ends the wait at once."
    )


def test_a_program_without_handlers_ends_by_the_second_signal_when_the_wait_is_over(
    begin: Callable[..., Program], tmp_path: Path
) -> None:
    program = begin("plain")
    program.process.send_signal(signal.SIGINT)
    assert program.says().startswith("Waiting at most 1000 s")
    program.process.send_signal(signal.SIGTERM)
    assert program.says().startswith("The wait is over.")
    assert program.ends() == (-signal.SIGINT, "")
    assert states(tmp_path) == [JobState.QUEUED]


waiting = Tasks()
_began, _go = threading.Event(), threading.Event()


@waiting.task
def wait_here() -> None:
    _began.set()
    _go.wait(LONG)


@pytest.fixture
def busy(make: Make) -> Iterator[Engine]:
    """An engine with a job that runs until it is let go, at the latest at the end."""
    _began.clear()
    _go.clear()
    yield make(waiting)
    _go.set()


@pytest.mark.parametrize("grace", [0, 0.0, timedelta(0)])
def test_a_program_says_how_long_it_waits_for_tasks(busy: Engine, grace: float | timedelta) -> None:
    job = busy.enqueue(wait_here.of())
    with busy.working(threads=1, grace=grace):
        assert _began.wait(LONG)
        began = time.monotonic()
    assert time.monotonic() - began < LONG / 2
    assert job.state is JobState.QUEUED


def test_a_stop_that_is_soon_over_says_nothing(busy: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "QUIET", LONG)
    said: list[str] = []
    busy._runtime.say = said.append
    job = busy.enqueue(wait_here.of())
    with busy.working(threads=1):
        assert _began.wait(LONG)
        _go.set()
    assert job.state is JobState.DONE
    assert said == []


def test_a_stop_outside_of_the_main_thread_promises_nothing_about_signals(
    busy: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "QUIET", 0.0)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        _go.set()

    busy._runtime.say = say
    busy.enqueue(wait_here.of())

    def work() -> None:
        with busy.working(threads=1):
            _began.wait(LONG)

    beside = threading.Thread(target=work)
    beside.start()
    beside.join()
    (told,) = said
    assert told.startswith("Waiting at most 25 s for 1 task to finish: wait_here ")
    assert "SIGTERM" not in told


@pytest.mark.parametrize("given", [-1, "25", float("nan"), float("inf"), None, timedelta(seconds=-1)])
def test_a_grace_period_is_a_time(make: Make, given: float) -> None:
    with pytest.raises(ConfigError, match=r"^working\(grace=.*\): expected a time .* Give seconds or a timedelta\.$"):
        make(waiting).working(grace=given)
