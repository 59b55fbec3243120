"""`ramify run`: a program of the user's, its arguments from text, and how it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ramify.cli.arguments import call_of
from ramify.cli.visit import Wrong
from ramify.engine.tasks.tasks import Tasks
from ramify.model.task import is_own
from ramify.store.open import open_store

RAMIFY = [sys.executable, "-m", "ramify"]

PROGRAM = """
import threading
from ramify import Engine, Spawns

engine = Engine("walk.db")


@engine.task(retries=0)
def grow(depth: int, width: int = 2) -> Spawns[int]:
    for _ in range(width if depth else 0):
        yield grow.of(depth - 1, width)
    return depth


@engine.task(retries=0)
def fail(text: str) -> None:
    raise ValueError(text)


@engine.task
def chain(depth: int) -> Spawns[None]:
    print("link", depth, flush=True)
    threading.Event().wait(0.02)
    yield chain.of(depth + 1)
"""


@pytest.fixture
def program(folder: Path) -> Path:
    """A folder with a program in it, and no store yet."""
    (folder / "walk.py").write_text(PROGRAM)
    return folder


def ramify(*args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    found = subprocess.run([*RAMIFY, *args], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == code, found.stderr
    return found


@pytest.mark.parametrize("place", ["walk.py:engine", "walk:engine"])
def test_a_task_runs_with_all_it_grows_into(program: Path, place: str) -> None:
    found = ramify("run", place, "grow", "3", "--name", "tree")
    assert "tree · done · round 3" in found.stdout
    assert "15 done · 0 pending" in found.stdout
    assert "run 'tree'" in found.stderr


def test_options_reach_the_run(program: Path) -> None:
    found = ramify("run", "walk.py:engine", "grow", "3", "1", "--order", "depth-first", "--threads", "0", "--json")
    last = json.loads(found.stdout.splitlines()[-1])
    assert (last["state"], last["counts"]["done"], last["round"]) == ("done", 4, None)
    again = ramify("run", "walk.py:engine", "grow", "--args", '{"depth": 1, "width": 3}', "--name", "a")
    assert "4 done" in again.stdout
    assert "#2" not in again.stdout
    assert "a#2" in ramify("run", "walk.py:engine", "grow", "1", "3", "--name", "a", "--again").stdout


def test_another_store_can_be_given(program: Path) -> None:
    ramify("run", "walk.py:engine", "grow", "1", "-s", "other.db")
    ramify("-s", "third.db", "run", "walk.py:engine", "grow", "1")
    assert {path.name for path in program.glob("*.db")} == {"other.db", "third.db"}


def test_worker_processes_do_the_same(program: Path) -> None:
    found = ramify("run", "walk.py:engine", "grow", "4", "--name", "tree", "--processes", "2")
    assert "31 done · 0 pending" in found.stdout


def test_failed_tasks_end_with_one_and_are_named(program: Path) -> None:
    found = ramify("run", "walk.py:engine", "fail", "b\x1b[31mad", "--name", "bad run", code=1)
    assert "1 x fail  ValueError: b\\x1b[31mad" in found.stdout
    assert "ramify errors 'bad run' -s " in found.stdout
    ramify("run", "walk.py:engine", "fail", "b\x1b[31mad", "--name", "bad run", code=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_130_and_the_same_line_goes_on(program: Path, number: signal.Signals) -> None:
    command = [*RAMIFY, "run", "walk.py:engine", "chain", "0", "--name", "chain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stderr is not None
        assert first.stdout.readline() == "link 0\n"
        first.send_signal(number)
        # Not `communicate`, which does not see what was read ahead with the first line.
        out, err = first.stdout.read(), first.stderr.read()
    assert first.returncode == 130, err
    assert "interrupted; the same command continues the run" in err
    reached = sum(line.startswith("link") for line in out.splitlines())
    second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert second.stdout is not None
    try:
        assert second.stdout.readline() in {f"link {reached}\n", f"link {reached + 1}\n"}
    finally:
        second.kill()
        second.communicate()


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_stop_goes_through_its_checklist(program: Path, processes: str) -> None:
    command = [*RAMIFY, "run", "walk.py:engine", "chain", "0", "--processes", processes]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "link 0\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    phases = [line.split(":")[0].split(" ")[0] for line in err.splitlines()[-5:]]
    assert phases == ["stopping", "draining", "saving", "done", "interrupted;"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["walk.py:engine", "grwo", "1"], 2, "no task 'grwo' in walk.py:engine. There is grow, and 2 more"),
        (["walk.py:engine", "xyzzy"], 2, "There are chain, fail, grow"),
        (["walk.py:engin", "grow", "1"], 3, "no engine or dag or pipeline 'engin' in walk.py. It has engine."),
        (["walk.py:engine"], 2, "walk.py:engine: expected a task of this engine, got none"),
        (["wlak.py:engine", "grow", "1"], 3, "no file 'wlak.py'"),
        (["wlak:engine", "grow", "1"], 3, "no module 'wlak'"),
        (["walk.py", "grow", "1"], 3, "expected MODULE:ENGINE or FILE.py:ENGINE. Write walk.py:engine."),
        (["walk.py:engine", "grow", "x"], 2, "grow(): depth: expected int, got 'x'"),
        (["walk.py:engine", "grow"], 2, "missing a required argument: 'depth'"),
        (["walk.py:engine", "grow", "1", "2", "3"], 2, "too many positional arguments"),
        (["walk.py:engine", "grow", "1", "--args", "[1]"], 2, "not both"),
        (["walk.py:engine", "grow", "--args", "{"], 2, "--args: expected JSON"),
        (["walk.py:engine", "grow", "--args", "3"], 2, "--args: expected a JSON list"),
        (["walk.py:engine", "grow", "--args", '{"depth": 1, "deep": 1}'], 2, "deep"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_begins(program: Path, args: list[str], code: int, says: str) -> None:
    found = ramify("run", *args, code=code)
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert list(program.glob("*.db")) == []


def test_a_program_that_would_run_by_itself_when_it_is_imported_is_told_of_the_guard(program: Path) -> None:
    (program / "eager.py").write_text(f"{PROGRAM}\nengine.run(grow.of(1))\n")
    found = ramify("run", "eager.py:engine", "grow", "1", code=3)
    assert found.stderr == (
        "ramify: engine.run() was called while `ramify` imports eager.py:engine. "
        'Put the line under `if __name__ == "__main__":`.\n'
    )
    assert list(program.glob("*.db")) == []


def test_an_error_of_the_users_own_module_is_shown_in_full(program: Path) -> None:
    (program / "broken.py").write_text("import walk\n1 / 0  # \x1b[31m\n")
    found = ramify("run", "broken.py:engine", "grow", code=3)
    assert "ZeroDivisionError" in found.stderr
    assert "broken.py could not be imported" in found.stderr
    assert "\x1b" not in found.stderr


def test_a_module_that_ends_the_program_when_it_is_imported_is_trouble_and_said(program: Path) -> None:
    (program / "ending.py").write_text("import sys\n\nsys.exit(7)\n")
    found = ramify("worker", "ending.py:engine", code=3)
    assert "SystemExit: 7" in found.stderr
    assert "ending.py could not be imported" in found.stderr


tasks = Tasks()


@tasks.task
def typed(
    count: int, share: float = 0.5, on: bool = False, path: Path = Path(), names: list[str] | None = None, *rest: str
) -> None: ...


@tasks.task
def untyped(value, other: str | int = "") -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("texts", "arguments"),
    [
        (["3"], (3,)),
        (["3", "1e2", "true", "/x", '["a", "3"]'], (3, 100.0, True, Path("/x"), ["a", "3"])),
        (["3", "1", "0", "~/x", "null"], (3, 1.0, False, Path("~/x"), None)),
        (["3", "1", "0", ".", "null", "x", "3"], (3, 1.0, False, Path(), None, "x", "3")),
    ],
)
def test_text_is_read_by_annotation(texts: list[str], arguments: tuple[object, ...]) -> None:
    args, _ = call_of(typed, texts, None).arguments()
    assert args[: len(arguments)] == arguments


def test_text_stays_text_where_nothing_else_is_said() -> None:
    assert call_of(untyped, ["3"], None).arguments()[0][0] == "3"
    assert call_of(untyped, ["[1]", "x"], None).arguments()[0] == ("[1]", "x")


def test_json_is_read_as_kindly_as_text() -> None:
    assert call_of(typed, [], '{"count": "3", "path": "/x"}').arguments()[0][:1] == (3,)
    assert call_of(typed, [], "[3, 1]").arguments()[0][:2] == (3, 1.0)


@pytest.mark.parametrize("text", ["x", "3.5", "[3]", ""])
def test_text_that_does_not_fit_names_the_parameter(text: str) -> None:
    with pytest.raises(Wrong, match="count: expected int, got"):
        call_of(typed, [text], None)


def test_reads_work_while_the_run_goes_on_elsewhere(program: Path) -> None:
    command = [*RAMIFY, "run", "walk.py:engine", "chain", "0", "--name", "chain"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "link 0\n"
        assert "chain · open" in ramify("status", "chain").stdout
        (process,) = [
            found
            for found in map(json.loads, ramify("doctor", "--json").stdout.splitlines())
            if found.get("about") == "process"
        ]
        assert "alive" in process["text"]
        ramify("cancel", "chain", "--reason", "enough")
        out, _ = running.communicate(timeout=60)
        assert running.returncode == 1
        assert "because: enough" in out
    finally:
        running.kill()
        running.communicate()


def started(program: Path) -> int:
    """A run that was registered, and on which nobody works."""
    line = "from walk import engine, grow; print(engine.start(grow.of(3), name='tree').id)"
    found = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    return int(found.stdout)


@pytest.mark.parametrize("options", [[], ["--processes", "1"]])
def test_a_worker_does_what_others_started_until_it_is_stopped(program: Path, options: list[str]) -> None:
    started(program)
    command = [*RAMIFY, "worker", "walk.py:engine", *options]
    working = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        ramify("status", "tree", "--watch")
        working.send_signal(signal.SIGINT)
        _, err = working.communicate(timeout=60)
        assert (working.returncode, err.splitlines()[-1]) == (130, "stopped")
        store = open_store("walk.db")
        assert all(process.reaped for process in store.reads.processes())
        store.close()
    finally:
        working.kill()
        working.communicate()


def test_a_worker_serves_only_its_queues(program: Path) -> None:
    started(program)
    command = [*RAMIFY, "worker", "walk.py:engine", "-q", "mail"]
    working = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert working.stderr is not None
        assert working.stderr.readline().startswith("working on ")
        store, seen = open_store("walk.db"), 0
        while not (alive := [process for process in store.reads.processes() if not process.reaped]):
            seen = store.wait(0.1, seen)
        assert alive[0].queues == ("mail",)
        store.close()
        (task,) = [json.loads(line)["task"] for line in ramify("tasks", "tree", "--json").stdout.splitlines()]
        assert "serves the queue 'default'" in ramify("why", str(task)).stdout
    finally:
        working.terminate()
        working.communicate()
    assert working.returncode == 0


def test_a_worker_says_what_it_knows(program: Path) -> None:
    command = [*RAMIFY, "run", "walk.py:engine", "chain", "0", "--name", "chain"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "link 0\n"
        store = open_store("walk.db")
        (process,) = [process for process in store.reads.processes() if not process.reaped]
        assert [kind for kind in process.kinds or () if not is_own(kind)] == ["chain", "fail", "grow"]
        store.close()
    finally:
        running.kill()
        running.communicate()
