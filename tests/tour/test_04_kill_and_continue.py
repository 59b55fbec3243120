"""4. Kill it, and continue.

Every commit survives a crash. Start the same program again, and it continues with the rest. Here a program is killed
with `kill -9` in the middle of its work, and simply started again.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, pathlib, signal, sys
from ramify import Engine, Spawns

engine = Engine("numbers.db")

@engine.task
def count(n: int) -> Spawns[int]:
    if n == 70 and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)      # kill -9
    if n < 100:
        yield count.of(n + 1)
    return n

if __name__ == "__main__":
    run = engine.run(count.of(1), name="numbers")
    print(run.begun.value, run.counts.done, sum(run.results()))
"""


def start() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60)


def test_the_same_line_continues() -> None:
    """Nothing is lost and nothing is recorded twice. The third start finds everything finished."""
    Path("program.py").write_text(PROGRAM)

    first = start()
    assert first.returncode == -signal.SIGKILL
    assert first.stdout == ""

    second = start()
    # 1 + 2 + … + 100
    assert second.stdout == "continued 100 5050\n"

    third = start()
    assert third.stdout == "finished 100 5050\n"


def test_dead_worker_processes_are_replaced() -> None:
    """With `processes=2`, only a worker dies. The program starts another one, and the run continues."""
    Path("program.py").write_text(PROGRAM.replace('name="numbers"', 'name="numbers", processes=2'))
    assert start().stdout == "new 100 5050\n"
