"""What the programs under test have in common: how they are told what to do, say what they did, and kill themselves."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from ramify.kernel import faults

Options = Mapping[str, str]


def serve(program: str) -> None:
    """Say that it is loaded, wait for a word, and do what it says; see `Client.begin`.

    It is done by the module under its own name, so that worker processes and this one mean the same engine.
    """
    print("ready", flush=True)
    if word := sys.stdin.readline():
        importlib.import_module(program).main(*json.loads(word))


def options_of(given: Sequence[str]) -> dict[str, str]:
    """Options by their names."""
    return dict(option.split("=", 1) for option in given)


def saying(file: str | Path) -> Callable[[str], None]:
    """A way to add lines to a file that outlives this process, each of them whole or not at all."""
    lines = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def say(text: str) -> None:
        os.write(lines, f"{text}\n".encode())

    return say


def arm(options: Options) -> Callable[[str], None]:
    """Let this process kill itself at `point`, the time `at` says: in the kernel, or where the answer is called."""
    point, at = options.get("point"), int(options.get("at", "1"))
    times = count(1)

    def reach(name: str) -> None:
        if name == point and next(times) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    if point is not None and point in faults.POINTS:
        faults.arm(point, partial(reach, point))
    return reach
