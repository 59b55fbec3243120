"""Libraries inside handlers: what works in a program works in its tasks, in threads and in worker processes.

The tasks are in `libraries.py`, a program that runs once with each; the tests here read what it found.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest

from tests.house.planted import REPOSITORY

GIVEN = "given to the program"
SQUARES = str([0, 1, 4, 9])
#: What each use comes to, wherever the task runs.
EXPECTED = {
    "multiprocessing.Process-fork": "3",
    "multiprocessing.Process-spawn": "3",
    "multiprocessing.Pool-fork": SQUARES,
    "multiprocessing.Pool-spawn": SQUARES,
    "ProcessPoolExecutor-fork": SQUARES,
    "ProcessPoolExecutor-spawn": SQUARES,
    "ProcessPoolExecutor-forkserver": SQUARES,
    "ThreadPoolExecutor": SQUARES,
    "subprocess-piped": "given",
    "subprocess-interrupted": str(-signal.SIGINT),
    "asyncio.run": "heard",
    "asyncio-subprocess": "heard",
    "library-with-threads": "42",
}
#: Far above what all of them need.
LIMIT = 60.0


@pytest.fixture(scope="module", params=[0, 1], ids=["threads", "processes"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """What each use of a library came to; whatever a library leaves behind is killed."""
    file = tmp_path_factory.mktemp("libraries") / "libraries.db"
    program = subprocess.Popen(
        [sys.executable, "tests/engine/libraries.py", str(request.param), str(file)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = program.communicate(GIVEN, timeout=LIMIT)
        yield {**json.loads(text), "where": ["threads", "processes"][request.param]}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@pytest.mark.parametrize("use", EXPECTED)
def test_a_task_uses_a_library_as_any_program_does(use: str, found: Mapping[str, str]) -> None:
    assert found[use] == EXPECTED[use]


def test_what_a_task_starts_reads_what_the_program_was_given_or_nothing_in_a_worker_process(
    found: Mapping[str, str],
) -> None:
    assert found["subprocess-reading"] == {"threads": GIVEN, "processes": ""}[found["where"]]
