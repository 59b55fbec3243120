"""Children that a handler forks: each ends where its handler does, hears signals as any program, and works on nothing.

The tasks are in `forking.py`, a program that runs once for each way to work; the tests here read what it found.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.forking import LIMIT, WITNESS
from tests.house.planted import REPOSITORY

Run = Callable[..., str]


@dataclass(frozen=True)
class Forked:
    """What became of the forked children of one run of the program."""

    ends: Mapping[str, str]
    added: int
    done: int
    entered: Counter[str]
    pids: frozenset[str]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run a program to its end; whatever is left of it, forked or not, is killed."""
    started: list[subprocess.Popen[str]] = []

    def go(*words: str) -> str:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        text, _ = process.communicate(timeout=2 * LIMIT)
        assert process.returncode == 0, text
        return text

    yield go
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module", params=["threads", "inline", "processes"])
def forked(request: pytest.FixtureRequest, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Forked:
    folder = tmp_path_factory.mktemp("forked")
    said = json.loads(run("-m", "tests.engine.forking", request.param, str(folder)))
    lines = [line.split() for line in (folder / WITNESS).read_text().splitlines()]
    entered = Counter(label for label, _ in lines if label != "tick")
    return Forked(**said, entered=entered, pids=frozenset(pid for _, pid in lines))


def of(forked: Forked, way: str) -> set[str]:
    return {end for label, end in forked.ends.items() if label.endswith(f"-{way}")}


@pytest.mark.parametrize(
    ("way", "end"),
    [("exit", "7"), ("text", "1 gone with a word"), ("raise", "1 KeyError: 'planted'"), ("return", "0")],
)
def test_a_forked_child_ends_where_its_handler_does_as_python_ends_a_program(
    way: str, end: str, forked: Forked
) -> None:
    assert of(forked, way) == {end}


def test_a_forked_child_runs_no_other_task_and_brings_no_outcome(forked: Forked) -> None:
    assert len(forked.pids) == 1, "a handler was entered in a forked child"
    assert set(forked.entered.values()) == {1}
    assert forked.done == forked.added


def test_a_forked_child_that_comes_back_to_the_event_loop_of_its_parent_ends_there(forked: Forked) -> None:
    ends = [end for label, end in forked.ends.items() if label.startswith("waiting")]
    assert all(end.startswith("1 RuntimeError: a child that a task forked on the event loop") for end in ends), ends


def test_a_forked_child_has_the_signal_handlers_that_the_program_had(forked: Forked) -> None:
    assert forked.ends["signals"] == "0"


def test_a_process_that_a_task_starts_can_be_terminated(forked: Forked) -> None:
    assert forked.ends["terminated"] == str(-signal.SIGTERM)


def test_a_warning_of_a_forked_child_is_seen_and_not_kept_for_a_store_that_never_comes(forked: Forked) -> None:
    assert forked.ends["logged"] == "0 said by a child"


EARLY = """
import os, signal
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from ramify.engine.processes.os_signals import hear

put_back = hear((signal.SIGTERM,), lambda number, frame: print("heard", flush=True))
child = os.fork()
if not child:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
put_back()
print(signal.getsignal(signal.SIGTERM).name, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_a_signal_that_comes_while_a_child_is_being_forked_is_not_answered_by_its_parents_handler(run: Run) -> None:
    assert run("-c", EARLY).splitlines() == [str(-signal.SIGTERM), "heard", "SIG_DFL set()"]


IN_A_BLOCK = """
import os, sys
from ramify import Engine

engine = Engine(sys.argv[1])

@engine.task
def double(n: int) -> int:
    return 2 * n

with engine.working():
    first = engine.start(double.of(1), name="first")
    first.wait()
    child = os.fork()
    if not child:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    second = engine.start(double.of(2), name="second")
    second.wait()
print(*first.results(), *second.results())
"""


def test_a_forked_child_of_a_program_leaves_the_block_of_its_workers_alone(run: Run, tmp_path: Path) -> None:
    assert run("-c", IN_A_BLOCK, str(tmp_path / "block.db")).splitlines() == ["3", "2 4"]
