"""Curves: rate, memory and file size while a run grows, beside queues of mutable rows that do the same work.

    python -m bench.curve --tasks 10000000 --seconds 120 --out docs/pictures/growth.json

Each contender works on the same chains (`tree.py`: 100 rounds of equal width, so that every task costs the same) in a
process and a folder of its own, one after the other, without turns: a curve shows how one contender changes as its file
grows, and the figures with ratios are those of `python -m bench`. A queue of mutable rows is stopped after `--seconds`.

    Ramify                       `engine.run(...)`, no settings given
    mutable rows, 100 at a time  `mutable_rows.py`, 100 tasks a transaction
    mutable rows, one at a time  the same, one task a transaction, as most row queues work

The process says when it had done how many tasks. Meanwhile this one looks at its memory (resident set, Python and
imports included) and at its file with all that lies beside it, 20 times a second. It reads `/proc`, so it needs Linux.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.frontier_turn import environment
from bench.growth import ROUNDS
from bench.scratch import KEEPS, bytes_of, folder_in, machine

POINTS = 100
LOOK_EVERY = 0.05

#: The contenders, by the name that `curve_player` knows, with the name that people read.
CONTENDERS = {
    "engine": "Ramify",
    "hundred": "mutable rows, 100 at a time",
    "one": "mutable rows, one at a time",
}


class Look(msgspec.Struct, frozen=True, array_like=True):
    """The memory and the file of a contender at one moment."""

    at: float
    memory_mb: float
    file_mb: float


class Point(msgspec.Struct, frozen=True, array_like=True):
    """How far a contender was, after how long, at which rate since the last point, with how much memory and file."""

    tasks: int
    seconds: float
    rate: float
    memory_mb: float
    file_mb: float


class Played(msgspec.Struct, frozen=True):
    """What `curve_player` prints: when it began, and (tasks done, time) as it went, on the monotonic clock."""

    began: float
    steps: list[tuple[int, float]]


class Curve(msgspec.Struct, frozen=True):
    """One contender's way. `finished` is False for one that was stopped."""

    name: str
    finished: bool
    points: list[Point]


class Curves(msgspec.Struct, frozen=True):
    """What was measured, with which command, where, and what each side paid for."""

    command: str
    machine: str
    durability: str
    tasks: int
    curves: list[Curve]


def play(side: str, width: int, seconds: float, folder: Path) -> tuple[Played, list[Look]]:
    """Let one contender work, and look at it meanwhile."""
    with folder_in(folder) as place:
        command = [sys.executable, "-m", "bench.curve_player", side, str(width), str(seconds)]
        looks: list[Look] = []
        with (place / "played.json").open("wb") as out:
            child = subprocess.Popen(command, cwd=place, env=environment(), stdout=out)
            while child.poll() is None:
                looks.append(look(child.pid, place / "bench.db"))
                time.sleep(LOOK_EVERY)
        if child.returncode:
            raise RuntimeError(f"{CONTENDERS[side]} ended with exit code {child.returncode}")
        return msgspec.json.decode((place / "played.json").read_bytes(), type=Played), looks


def look(process: int, file: Path) -> Look:
    """Memory and file, now. A process that is just going has none."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
        resident = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
        return Look(time.monotonic(), int(resident.split()[1]) / 1024, bytes_of(file) / 1e6)
    except FileNotFoundError:  # the process, or a file that SQLite just removed
        return Look(time.monotonic(), 0.0, 0.0)


def points(played: Played, looks: Sequence[Look], count: int = POINTS) -> list[Point]:
    """`count` points at equal distances in tasks, each with the last look before it."""
    seen = [each for each in looks if each.memory_mb]
    times = [each.at for each in seen]
    total = played.steps[-1][0]
    found: list[Point] = []
    before, before_at, step = 0, played.began, 0
    for number in range(1, count + 1):
        while played.steps[step][0] < total * number / count:
            step += 1
        tasks, at = played.steps[step]
        if tasks == before:
            continue
        then = seen[max(0, bisect_left(times, at) - 1)]
        rate = (tasks - before) / (at - before_at)
        found.append(
            Point(tasks, round(at - played.began, 2), round(rate), round(then.memory_mb), round(then.file_mb, 1))
        )
        before, before_at = tasks, at
    return found


def measure(tasks: int, seconds: float, folder: Path, command: str) -> Curves:
    """Let every contender work."""
    width = max(1, tasks // ROUNDS)
    where = machine(folder)
    curves = []
    for side, name in CONTENDERS.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        played, looks = play(side, width, seconds, folder)
        done = played.steps[-1][0]
        curves.append(Curve(name, done == 1 + width * ROUNDS, points(played, looks)))
        print(f"  {done:,} tasks in {played.steps[-1][1] - played.began:.0f} s", file=sys.stderr, flush=True)
    return Curves(command, where, KEEPS["power"], 1 + width * ROUNDS, curves)


def text_of(curves: Curves) -> str:
    """The curves as JSON, a line for each point."""
    text = msgspec.json.format(msgspec.json.encode(curves), indent=1).decode()
    return re.sub(r"(?<=\d,)\n\s+(?=\d)|(?<=\[)\n\s+(?=\d)|(?<=\d)\n\s+(?=\])", "", text) + "\n"


def main(argv: Sequence[str]) -> int:
    """Measure, and write the curves."""
    parser = argparse.ArgumentParser(prog="python -m bench.curve", description="Measure how a run grows.")
    parser.add_argument("--tasks", type=int, default=10_000_000, metavar="N", help="how far the engine goes")
    parser.add_argument("--seconds", type=float, default=120.0, metavar="S", help="how long each rival may work")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a real disk")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the curves go, as JSON; printed without it")
    options = parser.parse_args(argv)
    if not os.path.exists("/proc/self/status"):
        print("bench.curve: expected /proc, and this system has none. Measure on Linux.", file=sys.stderr)
        return 2
    command = f"python -m bench.curve --tasks {options.tasks} --seconds {options.seconds:g}"
    text = text_of(measure(options.tasks, options.seconds, options.dir, command))
    if options.out is None:
        print(text, end="")
    else:
        options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
