"""Rivals: other people's programs live in `.bench-venv`, apart from what Ramify is developed and tested with.

`python()` makes that environment when it is first needed, and again when a pin has changed. What it installs is listed
in `rivals.txt`. A rival is run as a process of its own with this Python, and prints a line of JSON.

Where nothing can be installed (no network, no index) a rival is `Missing`; figures then say so and do without it.

A `Rival` is one of them with one of its settings. Its rate is that of less work than ours, because each task is a few
transactions of its own there; a rate over more would not be higher. Before a contest each tries its settings on little
work, and keeps the one that did best on this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.contest import say
from bench.frontier_turn import environment
from bench.scratch import folder_in

ROOT = Path(__file__).parent.parent
PLACE = ROOT / ".bench-venv"
WANTED = ROOT / "bench" / "rivals.txt"
PINS = ROOT / "constraints.txt"

PATIENCE = 1200.0

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


@dataclass(frozen=True)
class Rival:
    """A rival with a setting: the module that plays it, its job (with a `count`), that in words, and what it keeps."""

    module: str
    job: msgspec.Struct
    chosen: str
    keeps: str

    def run(self, count: int, folder: Path) -> float:
        """What it does in a second, in a folder of its own."""
        return float(self.answer(count, folder))

    def answer(self, count: int, folder: Path) -> str:
        """The last line that it prints, run in a folder of its own."""
        job = msgspec.json.encode(msgspec.structs.replace(self.job, count=count)).decode()
        with folder_in(folder) as place:
            command = [str(python()), "-m", self.module, job]
            # Its stderr is kept back, because some of them complain of what they close themselves.
            done = subprocess.run(
                command, cwd=place, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        if done.returncode:
            raise RuntimeError(f"{self.module} ended with exit code {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout.splitlines()[-1]


def at_its_best(settings: Sequence[Rival], trial: int, folder: Path) -> Rival:
    """The setting that is fastest on little work."""
    python()
    rates: dict[Rival, float] = {}
    for rival in settings:
        say(f"{rival.module}: trying {rival.chosen}")
        rates[rival] = rival.run(trial, folder)
    return max(rates, key=lambda rival: rates[rival])


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Missing(f"`{' '.join(command[1:4])}` failed: {words[-1]}")
