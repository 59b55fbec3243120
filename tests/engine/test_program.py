"""Whole programs that use an engine: killed, interrupted, forked, with worker processes."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ramify import Engine
from ramify.model.run import RunState
from tests.house.planted import REPOSITORY

CHAIN = """
import os, sys
from ramify import Engine, Spawns

engine = Engine("chain.db")
engine._runtime.say = lambda text: print("said:", text, flush=True)

@engine.task
def step(n: int) -> Spawns[int]:
    if n == 20 and "stop" in sys.argv:
        print("at 20", flush=True)
        sys.stdin.readline()
    if n < 40:
        yield step.of(n + 1)
    return n

if __name__ == "__main__":
    run = engine.run(step.of(0), name=None if "unnamed" in sys.argv else "chain")
    print("sum:", sum(run.results()), run.counts.done, run.begun.value, flush=True)
"""

Program = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Start a program in a folder of its own; whatever is left of it at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str, *args: str) -> subprocess.Popen[str]:
        (tmp_path / "program.py").write_text(text)
        process = subprocess.Popen(
            [sys.executable, "program.py", *args],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"PYTHONPATH": f"{REPOSITORY / 'src'}", "PATH": ""},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def read_until(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    seen: list[str] = []
    for each in process.stdout:
        seen.append(each)
        if each.strip() == line:
            return
    raise AssertionError("".join(seen))


@pytest.mark.parametrize("name", ["named", "unnamed"])
def test_after_a_kill_the_same_line_goes_on_where_it_was(name: str, program: Program, tmp_path: Path) -> None:
    killed = program(CHAIN, "stop", name)
    read_until(killed, "at 20")
    killed.kill()
    killed.wait()
    text, _ = program(CHAIN, name).communicate(timeout=60)
    assert " continues" in text
    assert f"sum: {sum(range(41))} 41 continued" in text
    with_engine(tmp_path, lambda engine: assert_done(engine, runs=1))


def test_two_unnamed_runs_of_living_programs_are_two(program: Program, tmp_path: Path) -> None:
    first = program(CHAIN, "stop", "unnamed")
    read_until(first, "at 20")
    text, _ = program(CHAIN, "unnamed").communicate(timeout=60)
    assert "41 new" in text
    text, _ = first.communicate("\n", timeout=60)
    assert "41 new" in text
    with_engine(tmp_path, lambda engine: assert_done(engine, runs=2))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_what_runs_saves_it_and_ends_the_program(
    number: signal.Signals, program: Program, tmp_path: Path
) -> None:
    process = program(CHAIN, "stop")
    read_until(process, "at 20")
    process.send_signal(number)
    read_until(
        process, "said: stopping: nothing new starts, what runs is finished and saved; once more to quit at once"
    )
    text, _ = process.communicate("\n", timeout=60)
    assert "sum:" not in text
    assert process.returncode == (-signal.SIGINT if number == signal.SIGINT else 128 + signal.SIGTERM)

    def check(engine: Engine) -> None:
        run = engine._runtime.store.reads.find_run("chain")
        assert run is not None
        assert run.state is RunState.OPEN
        # The task that ran was finished and saved, and nobody is left holding anything.
        assert engine._runtime.store.reads.counts(run.id)["step"][1] == 21
        assert [each for each in engine._runtime.store.reads.segments(run=run.id).rows if each.owner is not None] == []
        assert [each for each in engine._runtime.store.reads.processes() if not each.reaped] == []

    with_engine(tmp_path, check)
    text, _ = program(CHAIN).communicate(timeout=60)
    assert f"sum: {sum(range(41))} 41 continued" in text


def test_a_second_signal_ends_the_program_at_once(program: Program) -> None:
    process = program(CHAIN, "stop")
    read_until(process, "at 20")
    process.send_signal(signal.SIGTERM)
    read_until(
        process, "said: stopping: nothing new starts, what runs is finished and saved; once more to quit at once"
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    text, _ = program(CHAIN).communicate(timeout=60)
    assert f"sum: {sum(range(41))} 41 continued" in text


def test_worker_processes_do_the_work(program: Program) -> None:
    text, _ = program(CHAIN.replace("engine.run(step.of(0),", "engine.run(step.of(0), processes=2,")).communicate(
        timeout=120
    )
    assert f"sum: {sum(range(41))} 41 new" in text


def test_workers_beside_the_program_may_be_processes(program: Program) -> None:
    beside = CHAIN.replace(
        "    run = engine.run(step.of(0),",
        "    with engine.working(processes=2):\n"
        "        engine.start(step.of(0), name='chain').wait()\n"
        "    run = engine.run(step.of(0),",
    )
    text, _ = program(beside).communicate(timeout=120)
    assert f"sum: {sum(range(41))} 41 finished" in text


NAPS = """
import threading
from ramify import Engine

engine = Engine("naps.db")

@engine.task
def nap(n: int) -> int:
    print("napping", flush=True)
    threading.Event().wait(0.05)
    return n

if __name__ == "__main__":
    engine.run([nap.of(n) for n in range(3000)], name="naps", processes=2)
"""


def test_a_store_that_is_deleted_under_worker_processes_is_named_as_such(program: Program, tmp_path: Path) -> None:
    process = program(NAPS)
    read_until(process, "napping")
    for path in tmp_path.glob("naps.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    text, _ = process.communicate(timeout=60)
    last = text.splitlines()[-1]
    assert last.startswith("ramify.errors.StoreBroken: ")
    assert "naps.db" in last
    assert "deleted while" in last
    assert not (tmp_path / "naps.db").exists()


RENAMED = """
import threading
from ramify import Engine

engine = Engine("renamed.db")
engine._runtime.say = lambda text: print("said:", text, flush=True)

@engine.task(name="after")
def step(n: int) -> int:
    return n

if __name__ == "__main__":
    before = Engine("renamed.db")
    before.task(name="before")(step.fn)
    before.start(before._runtime.table()["before"].of(1), name="chain")
    before.close()
    with engine.working(processes=2):
        threading.Event().wait()
"""


def test_worker_processes_say_once_together_that_nobody_knows_a_kind(program: Program) -> None:
    process = program(RENAMED)
    read_until(
        process,
        "said: 1 task of kind 'before' waits: no task of that name here; rename it back or give aliases=('before',)",
    )


def test_a_program_whose_workers_would_start_it_again_is_refused_before_anything_is_stored(
    program: Program, tmp_path: Path
) -> None:
    unguarded = CHAIN.replace('if __name__ == "__main__":', "if True:").replace(
        "step.of(0),", "step.of(0), processes=1,"
    )
    process = program(unguarded)
    text, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert 'Put the line under `if __name__ == "__main__":`' in text
    for path in tmp_path.glob("*.db"):
        with closing(Engine(path)) as engine:
            assert list(engine.runs()) == []


FORK = """
import os
from ramify import Engine
from ramify.errors import StoreRefused

engine = Engine("fork.db")

@engine.task
def double(n: int) -> int:
    return 2 * n

if __name__ == "__main__":
    run = engine.run(double.of(1), name="parent")
    child = os.fork()
    if child == 0:
        try:
            engine.run(double.of(2), name="child")
        except StoreRefused as refused:
            print("child:", refused, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("parent:", list(engine.run(double.of(3), name="more").results()), list(run.results()), flush=True)
"""


def test_a_forked_child_is_told_to_open_an_engine_of_its_own_and_does_no_harm(program: Program) -> None:
    text, _ = program(FORK).communicate(timeout=60)
    assert "does not survive a fork" in text
    assert "parent: [6] [2]" in text


MOVED = """
import os, staff
from staff import job

if __name__ == "__main__":
    os.chdir("elsewhere")
    one = staff.engine.run(job.of(1), name="threads")
    two = staff.engine.run(job.of(2), name="processes", processes=1)
    three = staff.engine.start(job.of(3), name="beside")
    with staff.engine.working(processes=1):
        assert three.wait(timeout=30)
    print(*one.results(), *two.results(), *three.results(), flush=True)
"""
STAFF = """
from ramify import Engine
engine = Engine("staff.db")

@engine.task
def job(n: int) -> int:
    return n
"""


def test_a_relative_store_and_the_modules_of_a_program_are_where_they_were_wherever_it_goes(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "staff.py").write_text(STAFF)
    text, _ = program(MOVED).communicate(timeout=60)
    assert text.split() == ["1", "2", "3"]
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (tmp_path / "staff.db").is_file()


def test_an_engine_can_be_made_where_there_is_no_folder_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir("gone")
    (tmp_path / "gone").rmdir()
    engine = Engine(tmp_path / "kept.db")
    assert engine._runtime.store.describe().location == str(tmp_path / "kept.db")
    engine.close()


LIGHT = """
import sys
import ramify
print([name for name in ("msgspec", "asyncio", "apsw", "click", "rich", "ramify.engine") if name in sys.modules])
ramify.Engine, ramify.current
print([name for name in ("apsw", "click", "rich", "ramify.kernel.kernel") if name in sys.modules])
print(sorted(set(ramify.__all__) - set(dir(ramify))), [name for name in ramify.__all__ if not hasattr(ramify, name)])
"""


def test_importing_ramify_costs_nothing_and_an_engine_needs_no_driver(program: Program) -> None:
    text, _ = program(LIGHT).communicate(timeout=60)
    assert text.splitlines() == ["[]", "[]", "[] []"]


def with_engine(folder: Path, look: Callable[[Engine], None]) -> None:
    engine = Engine(folder / "chain.db")
    try:
        look(engine)
    finally:
        engine.close()


def assert_done(engine: Engine, runs: int) -> None:
    found = engine._runtime.store.reads.runs().rows
    assert [run.state for run in found] == [RunState.DONE] * runs
    assert [engine._runtime.store.reads.counts(run.id)["step"][1] for run in found] == [41] * runs
