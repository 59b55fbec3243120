"""`ramify demo`, small: a real program, killed for real, and the audit as the last line."""

import re
import subprocess
import sys
from pathlib import Path

RAMIFY = [sys.executable, "-m", "ramify"]


def demo(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RAMIFY, "demo", *args], capture_output=True, text=True, check=False, timeout=120)


def test_the_demo_is_killed_twice_and_ends_with_a_clean_audit(folder: Path) -> None:
    shown = demo("--depth", "5", "--keep", "kept")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.count("kill -9 to all of it") == 2
    last = shown.stdout.splitlines()[-1]
    assert re.fullmatch(r"111,111 tasks, 0 lost, 0 recorded twice, [\d,]+ run twice", last)
    again = demo("--keep", "kept")
    assert (again.returncode, "Give a new folder" in again.stderr) == (2, True)
    assert (folder / "kept" / "demo.db").is_file()
