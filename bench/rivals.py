"""Rivals: other people's programs live in `.bench-venv`, apart from what Ramify is developed and tested with.

`python()` makes that environment when it is first needed, and again when a pin has changed. What it installs is listed
in `rivals.txt`. A rival is run as a process of its own with this Python, and prints a line of JSON.

Where nothing can be installed (no network, no index) a rival is `Missing`; figures then say so and do without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.contest import say

ROOT = Path(__file__).parent.parent
PLACE = ROOT / ".bench-venv"
WANTED = ROOT / "bench" / "rivals.txt"
PINS = ROOT / "constraints.txt"

#: Set in the environment of whoever does without rivals.
LEFT_OUT = "RAMIFY_BENCH_WITHOUT_RIVALS"


class Missing(Exception):
    """The rivals could not be installed; the text says why."""


def python() -> Path:
    """The Python of the rivals, with everything in `rivals.txt` installed."""
    if LEFT_OUT in os.environ:
        raise Missing(f"left out, as {LEFT_OUT} says")
    found, stamp = PLACE / "bin" / "python", PLACE / ".ready"
    asked = WANTED.read_text(encoding="utf-8") + PINS.read_text(encoding="utf-8")
    if found.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == asked:
        return found
    say("making .bench-venv")
    _do([sys.executable, "-m", "venv", "--clear", str(PLACE)])
    _do(
        [
            str(found),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-c",
            str(PINS),
            "-r",
            str(WANTED),
        ]
    )
    stamp.write_text(asked, encoding="utf-8")  # last: an install that was interrupted is done again
    return found


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Missing(f"`{' '.join(command[1:4])}` failed: {words[-1]}")
