"""The commands a newcomer types: they explain themselves, fail plainly, and install only when they must.

Making a whole environment needs packages and a minute, so it is not done here; the interpreter search and the stamp
are tested with small programs in the place of Python.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.house.planted import REPOSITORY

INSTALLS = """#!/bin/sh
# Stands where Python stands: makes a folder for `-m venv`, writes down every install, and fits unless told not to.
case "$*" in
    *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    *"-m pip"*) echo "$@" >> installs ;;
    *) exit ${UNFIT:-0} ;;
esac
"""


def make(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # A make that runs these tests hands its own flags down; they are not ours.
    outer = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    return subprocess.run(
        ["make", *arguments], cwd=root, env={**outer, **environment}, capture_output=True, text=True, timeout=60
    )


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "a clone"
    root.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, root / name)
    return root


def test_make_alone_says_what_there_is_to_make(root: Path) -> None:
    printed = make(root).stdout
    targets = [line.split()[1] for line in printed.splitlines()]
    tests = ["quick", "test", "test-full", "check", "mutants", "bench"]
    assert targets == ["help", ".venv", "demo", *tests, "docs", "pictures", "dist", "clean"]


def test_without_a_fit_python_make_says_so_and_what_to_do(root: Path, tmp_path: Path) -> None:
    old = program(tmp_path / "python3.9", INSTALLS)
    done = make(root, ".venv", f"PYTHON={old}", UNFIT="1")
    assert done.returncode != 0
    assert "Ramify needs Python 3.11 or newer with the venv module" in done.stderr
    assert "make .venv PYTHON=/path/to/python3" in done.stderr
    assert not (root / ".venv").exists()


def test_the_first_fit_python_on_the_path_is_taken(root: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin/python3", "#!/bin/sh\nexit 1\n")
    program(tmp_path / "bin/python3.13", "#!/bin/sh\nexit 1\n")
    program(tmp_path / "bin/python3.12", INSTALLS)
    done = make(root, ".venv", PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert (root / ".venv/bin/python").read_text() == INSTALLS


def test_it_installs_once_and_again_only_when_the_pins_or_the_project_change(root: Path, tmp_path: Path) -> None:
    python = f"PYTHON={program(tmp_path / 'python', INSTALLS)}"
    installs = root / "installs"
    assert make(root, ".venv", python).returncode == 0
    first = installs.read_text().splitlines()
    assert len(first) == 2
    assert all("-c constraints.txt" in line for line in first)
    make(root, ".venv", python)
    assert len(installs.read_text().splitlines()) == 2
    for count, page in ((4, "constraints.txt"), (6, "pyproject.toml")):
        newer = (root / ".venv/.ready").stat().st_mtime + 5
        os.utime(root / page, (newer, newer))
        make(root, ".venv", python)
        assert len(installs.read_text().splitlines()) == count
        os.utime(root / page, (1, 1))


def test_an_install_that_failed_is_done_again(root: Path, tmp_path: Path) -> None:
    python = program(tmp_path / "python", INSTALLS.replace("echo", "exit 1; echo"))
    assert make(root, ".venv", f"PYTHON={python}").returncode != 0
    program(root / ".venv/bin/python", INSTALLS)
    assert make(root, ".venv", f"PYTHON={python}").returncode == 0
    assert (root / "installs").exists()


@pytest.mark.parametrize(
    ("target", "commands"),
    [
        ("test", ['-m pytest -n 2 --dist worksteal -m "not full"']),
        ("test-full", ["-m pytest -n 2 --dist worksteal --reports=reports"]),
        ("check", ["ruff format --check", "ruff check", "mypy", "lint-imports", "tools.check"]),
        ("mutants", ["-m tools.mutants"]),
        ("bench", ["-m bench"]),
    ],
)
def test_a_target_makes_the_environment_first_and_then_runs(root: Path, target: str, commands: list[str]) -> None:
    printed = make(root, "--dry-run", target).stdout
    places = [printed.index(command) for command in ["--no-build-isolation", *commands]]
    assert places == sorted(places)


def test_tests_may_keep_what_python_compiled_where_others_may_not(root: Path) -> None:
    program(root / ".venv/bin/python", "#!/bin/sh\nenv > environment\n")
    (root / ".venv/.ready").touch()
    assert make(root, "test", PYTHONDONTWRITEBYTECODE="1").returncode == 0
    assert "PYTHONDONTWRITEBYTECODE" not in (root / "environment").read_text()


def test_clean_removes_what_was_made_and_keeps_the_environment(root: Path) -> None:
    for name in ("src", "tests", "bench", "tools", "reports", ".venv", ".mypy_cache", "src/ramify/__pycache__"):
        (root / name).mkdir(parents=True)
    assert make(root, "clean").returncode == 0
    assert {path.name for path in root.iterdir()} >= {"src", ".venv"}
    assert not any((root / name).exists() for name in ("reports", ".mypy_cache", "src/ramify/__pycache__"))


@pytest.mark.parametrize(
    ("failing", "ran"), [("none", ["check", "test"]), ("check", ["check"]), ("test", ["check", "test"])]
)
def test_the_gate_checks_then_tests_and_stops_at_the_first_failure(
    failing: str, ran: list[str], root: Path, tmp_path: Path
) -> None:
    (root / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci/run", root / ".ci/run")
    program(tmp_path / "bin/make", f'#!/bin/sh\necho "$@" >> ran\ntest "$1" != {failing}\n')
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [root / ".ci/run"], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode == 0) == (failing == "none")
    assert (root / "ran").read_text().split() == ran
