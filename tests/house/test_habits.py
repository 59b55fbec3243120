"""Habits of the house that another tool enforces, seen to be enforced, and promises about `import ramify`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.planted import REPOSITORY

CONFIGURATION = REPOSITORY / "pyproject.toml"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("RUF022", '__all__ = ["b", "a"]\n'),
        ("BLE001", "try:\n    pass\nexcept Exception:\n    pass\n"),
        ("T201", "print(1)\n"),
        ("E501", f"x = {'1' * 120}\n"),
        ("RUF100", "x = 1  # noqa: E501\n"),
        ("PGH003", "x = 1  # type: ignore\n"),
    ],
)
def test_the_linter_refuses(rule: str, text: str, tmp_path: Path) -> None:
    page = tmp_path / "src/ramify/page.py"
    page.parent.mkdir(parents=True)
    page.write_text(text)
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(CONFIGURATION), str(page)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert rule in done.stdout


def test_importing_ramify_loads_no_driver_and_no_terminal() -> None:
    heavy = {"apsw", "asyncio", "click", "multiprocessing", "rich", "sqlite3"}
    program = f"import sys; sys.path.insert(0, 'src'); import ramify; print(*({heavy} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == []


def test_the_gate_may_be_run() -> None:
    assert (REPOSITORY / ".ci/run").stat().st_mode & 0o111
