"""`ramify worker --metrics`: one port for a worker and all processes of it."""

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.kernel.shop import wait_until

PROGRAM = """
from ramify import Engine, Spawns

engine = Engine("walk.db")


@engine.task
def grow(depth: int) -> Spawns[int]:
    for _ in range(2 if depth else 0):
        yield grow.of(depth - 1)
    return depth


if __name__ == "__main__":
    engine.start(grow.of(5), name="tree")
"""


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
def test_one_port_tells_what_a_worker_and_its_processes_did(folder: Path, options: list[str]) -> None:
    (folder / "walk.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "walk.py"], check=True)
    command = [sys.executable, "-m", "ramify", "worker", "walk.py:engine", "--metrics", "0", *options]
    working = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert working.stderr is not None
        told, address = working.stderr.readline().rstrip().rsplit(" ", 1)
        assert told == "metrics on"
        assert address.startswith("http://127.0.0.1:")
        assert working.stderr.readline().startswith("working on ")

        def scrape() -> str:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return str(answer.read().decode())

        wait_until(lambda: 'ramify_tasks_total{outcome="done",queue="default",task="grow"} 63.0\n' in scrape(), 60)
        workers = f'ramify_workers{{state="working"}} {len(options) or 1}.0\n'
        wait_until(lambda: workers in scrape(), 60)
        working.send_signal(signal.SIGINT)
        _, err = working.communicate(timeout=60)
        assert (working.returncode, err.splitlines()[-1]) == (130, "stopped")
    finally:
        working.kill()
        working.communicate()
