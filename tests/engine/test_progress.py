"""`engine.run(..., progress=True)`: live on a terminal, in the log elsewhere, and never in the way of tasks' prints."""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ramify import Engine
from ramify.errors import StoreBroken
from tests.engine import sample_jobs as known
from tests.engine.conftest import Make
from tests.engine.sample_jobs import gated, jobs, tree
from tests.house.planted import REPOSITORY

PROGRAM = """
from ramify import Engine, Spawns

engine = Engine("memory:")

@engine.task
def step(n: int) -> Spawns[int]:
    print("printed", n, flush=True)
    if n < 3:
        yield step.of(n + 1)
    return n

if __name__ == "__main__":
    engine.run(step.of(0), name="walk", progress=True)
"""


@pytest.fixture
def engine(make: Make) -> Engine:
    known.broken.clear()
    known.gate.clear()
    return make(jobs)


def on_a_terminal(folder: Path) -> tuple[str, str]:
    """What the program prints into a pipe, and what it shows on a terminal that is its standard error."""
    (folder / "program.py").write_text(PROGRAM)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={"PYTHONPATH": str(REPOSITORY / "src"), "PATH": "", "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown: list[bytes] = []

    def read() -> None:
        try:
            while some := os.read(ours, 4096):
                shown.append(some)
        except OSError:
            # Linux says this when nobody has the other end any more.
            pass

    reader = threading.Thread(target=read)
    reader.start()
    printed, _ = process.communicate(timeout=60)
    reader.join(20)
    os.close(ours)
    return printed, b"".join(shown).decode()


def test_on_a_terminal_it_is_shown_in_place_and_what_tasks_print_goes_where_it_should(tmp_path: Path) -> None:
    printed, shown = on_a_terminal(tmp_path)
    assert printed.splitlines() == [f"printed {n}" for n in range(4)]
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "walk · done · round 3" in plain
    assert "4 done · 0 pending" in plain
    assert "printed" not in plain


def test_where_there_is_no_terminal_nothing_is_written_by_itself(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(REPOSITORY / "src"), "PATH": ""},
    )
    assert (done.stdout.splitlines(), done.stderr) == ([f"printed {n}" for n in range(4)], "")


@pytest.mark.parametrize("threads", [None, 0])
def test_elsewhere_it_is_said_and_the_last_look_is_the_end(engine: Engine, threads: int | None) -> None:
    said: list[str] = []
    engine._runtime.say = said.append
    engine.run(tree.of("a", 2), name="w\x1b[2Jalk", threads=threads, progress=True)
    assert said[-1].startswith("w\\x1b[2Jalk · done · round 2 · ")
    assert "13 done · 0 pending" in said[-1]
    many = len(said)
    engine.run(tree.of("a", 2), name="w\x1b[2Jalk", progress=True)
    assert (len(said), "had ended as done" in said[-1]) == (many + 1, True)


def test_it_is_off_unless_asked_for(engine: Engine) -> None:
    said: list[str] = []
    engine._runtime.say = said.append
    engine.run(tree.of("a", 2))
    assert not any("done" in line for line in said)


def test_lines_come_while_it_works(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramify.inspect.progress.CALM", 0.01)
    looked = threading.Event()

    def say(text: str) -> None:
        if "1 pending" in text:
            looked.set()

    engine._runtime.say = say

    def open_the_gate() -> None:
        looked.wait(20)
        known.gate.set()

    opener = threading.Thread(target=open_the_gate)
    opener.start()
    engine.run(gated.of("x"), progress=True)
    opener.join(20)
    assert looked.is_set()


def test_what_breaks_the_work_is_raised_and_the_display_is_gone(engine: Engine) -> None:
    def break_it(runs: object) -> None:
        raise StoreBroken("the disk is gone")

    engine._runtime.work_on = break_it
    with pytest.raises(StoreBroken, match="the disk is gone"):
        engine.run(tree.of("a", 1), progress=True)
    assert not any(thread.name == "ramify-progress" for thread in threading.enumerate())
