"""One number replays a run, and a report says what happened in it. Each test here runs a real pytest in a folder."""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.house.planted import REPOSITORY

DRAWS = '''"""Draws."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st


def test_a_draw(seed: random.Random, record_property: Callable[[str, object], None]) -> None:
    print("drawn", seed.random())
    record_property("kills", 3)


def test_another_draw(seed: random.Random, record_property: Callable[[str, object], None]) -> None:
    print("drawn", seed.random())
    record_property("kills", 4)


@given(st.integers())
def test_what_hypothesis_draws(number: int) -> None:
    print("drawn", number)


@pytest.mark.full
def test_a_long_one() -> None:
    pass


@pytest.mark.skip("no such server")
def test_without_a_server() -> None:
    pass
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests/crash").mkdir(parents=True)
    (tmp_path / "tests/crash/test_draws.py").write_text(DRAWS)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    shutil.copy(REPOSITORY / "tests/conftest.py", tmp_path / "tests")
    return tmp_path


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    shutil.rmtree(root / ".hypothesis", ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-s", *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120)


def draws(printed: str) -> list[str]:
    return re.findall(r"drawn (\S+)", printed)


def report(root: Path) -> dict[str, Any]:
    page: dict[str, Any] = json.loads((root / "reports/crash.json").read_text())
    return page


def test_a_seed_replays_the_whole_run_and_another_seed_is_another_run(root: Path) -> None:
    first = run(root)
    [seed] = re.findall(r"^seed: (\d+) \(replay with --seed \1\)$", first.stdout, re.MULTILINE)
    assert draws(run(root, "--seed", seed).stdout) == draws(first.stdout)
    assert draws(run(root, "--seed", str(int(seed) + 1)).stdout) != draws(first.stdout)


def test_two_tests_of_one_run_draw_differently_and_alike_whatever_runs_beside_them(root: Path) -> None:
    both = draws(run(root, "--seed", "7", "-k", "draw and not hypothesis").stdout)
    alone = draws(run(root, "--seed", "7", "-k", "another_draw").stdout)
    assert len(set(both)) == 2
    assert alone == both[1:]


def test_a_report_holds_counts_seeds_and_seconds_and_names_what_was_skipped(root: Path) -> None:
    assert run(root, "--seed", "7", "--reports=reports").returncode == 0
    page = report(root)
    assert page["seed"] == 7
    assert page["exit"] == 0
    assert page["outcomes"] == {"passed": 4, "skipped": 1}
    assert page["counts"] == {"kills": 7}
    assert page["seconds"] >= max(test["seconds"] for test in page["tests"])
    by_name = {test["name"].rpartition("::")[2]: test for test in page["tests"]}
    assert isinstance(by_name["test_a_draw"]["seed"], int)
    assert by_name["test_without_a_server"]["reason"] == "no such server"


def test_a_failure_and_a_failing_fixture_are_in_the_report(root: Path) -> None:
    (root / "tests/crash/test_draws.py").write_text(
        '"""Fails."""\n\nimport pytest\n\n\n@pytest.fixture\ndef broken() -> None:\n    raise OSError\n\n\n'
        "def test_it() -> None:\n    raise AssertionError\n\n\ndef test_its_fixture(broken: None) -> None: ...\n"
    )
    assert run(root, "--reports=reports").returncode == 1
    assert report(root)["outcomes"] == {"failed": 2}
    assert report(root)["exit"] == 1


def test_what_was_left_out_or_skipped_is_said(root: Path) -> None:
    printed = run(root, "-m", "not full").stdout
    assert "not selected: 1 of the full tier (make test-full)" in printed
    assert "no such server" in printed
    assert "not selected: 3 by -m or -k" in run(root, "-k", "a_draw").stdout


def test_workers_share_the_seed_of_the_run_and_report_what_one_process_would(root: Path) -> None:
    two = run(root, "-n", "2", "--reports=reports", "-rP", "--capture=fd").stdout
    together = report(root)
    [seed] = re.findall(r"^seed: (\d+) \(replay with --seed \1\)$", two, re.MULTILINE)
    one = run(root, "--seed", seed, "--reports=reports").stdout
    alone = report(root)
    assert sorted(draws(two)) == sorted(draws(one))
    assert together["counts"] == {"kills": 7}
    for page in (together, alone):
        page["seconds"] = 0
        page["tests"] = sorted(({**test, "seconds": 0} for test in page["tests"]), key=lambda test: str(test["name"]))
    assert together == alone


def test_what_workers_leave_out_is_said_once(root: Path) -> None:
    printed = run(root, "-n", "2", "-k", "a_draw").stdout
    assert "not selected: 1 of the full tier (make test-full)" in printed
    assert "not selected: 3 by -m or -k" in printed


def test_a_test_that_kills_its_worker_is_in_the_report(root: Path) -> None:
    (root / "tests/crash/test_draws.py").write_text(
        '"""Ends its process."""\n\nimport os\n\n\ndef test_a_death() -> None:\n    os._exit(1)\n'
    )
    assert run(root, "-n", "2", "--reports=reports").returncode == 1
    assert report(root)["outcomes"] == {"failed": 1}


def test_what_no_connection_takes_is_shown_escaped(root: Path) -> None:
    (root / "tests/crash/test_draws.py").write_text(
        '"""Prints what is no text."""\n\n\n'
        'def test_it() -> None:\n    print("drawn \\udc80")\n    assert "\\udc80" == ""\n'
    )
    printed = run(root, "-n", "2", "--capture=sys").stdout
    assert "1 failed" in printed
    assert "drawn \\udc80" in printed


TURNS = '''"""Two of these run side by side."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__)
OTHER = HERE.with_name({"test_one.py": "test_two.py", "test_two.py": "test_one.py"}[HERE.name])


def until(fact: Callable[[], bool], limit: float) -> bool:
    end = time.monotonic() + limit
    while not fact() and time.monotonic() < end:
        os.sched_yield()
    return fact()


@contextmanager
def inside() -> Iterator[None]:
    HERE.with_suffix(".inside").touch()
    yield
    HERE.with_suffix(".inside").unlink()


def test_they_meet() -> None:
    with inside():
        HERE.with_suffix(".met").touch()
        assert until(OTHER.with_suffix(".met").exists, 30)


@pytest.mark.parametrize("number", range(20))
def test_beside_others(number: int) -> None:
    with inside():
        until(lambda: False, 0.005)


@pytest.mark.alone
@pytest.mark.parametrize("number", range(10))
def test_alone(number: int) -> None:
    with inside():
        assert not until(OTHER.with_suffix(".inside").exists, 0.02)
'''


def test_a_test_marked_alone_has_the_machine_to_itself(root: Path) -> None:
    for name in ("test_one.py", "test_two.py"):
        (root / "tests/crash" / name).write_text(TURNS)
    done = run(root, "-n", "2", "--dist", "loadfile", "-k", "test_one or test_two")
    assert "62 passed" in done.stdout
    assert done.returncode == 0


def test_a_test_marked_alone_has_the_machine_to_itself_among_runs_that_share_a_folder(root: Path) -> None:
    for name in ("test_one.py", "test_two.py"):
        (root / "tests/crash" / name).write_text(TURNS)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(run, root, "--beside=.", f"tests/crash/test_{name}.py") for name in ("one", "two")]
    for done in both:
        assert "31 passed" in done.result().stdout


def test_no_report_is_written_unless_asked_for(root: Path) -> None:
    run(root)
    assert not (root / "reports").exists()
