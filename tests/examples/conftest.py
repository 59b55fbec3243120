"""Examples as a user starts them: real processes, with a temporary folder of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.store.contract import Store
from ramify.store.open import open_store

ROOT = Path(__file__).resolve().parents[2]
LONG = 60.0


class Example:
    """One example, its arguments, and the store it keeps in the temporary folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self._script = ROOT / "examples" / f"{name}.py"
        self._folder = folder
        self.file = folder / f"ramify-{name.replace('_', '-')}.db"

    def start(self, *args: object) -> subprocess.Popen[str]:
        command = [sys.executable, str(self._script), *map(str, args)]
        attempt_env = {**os.environ, "TMPDIR": str(self._folder)}
        return subprocess.Popen(command, env=attempt_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *args: object) -> str:
        """Let it run to its end; what it printed."""
        child = self.start(*args)
        out, err = child.communicate(timeout=LONG)
        assert child.returncode == 0, err
        return out

    def kill_in_the_middle(self, *args: object, when: Callable[[Store], bool]) -> None:
        """Start it and kill it with no warning as soon as its store looks like that."""
        child = self.start(*args)
        try:
            wait_until(self.file.exists)
            store = open_store(self.file)
            try:
                wait_until(lambda: child.poll() is not None or when(store))
            finally:
                child.send_signal(signal.SIGKILL)
                store.close()
        finally:
            child.kill()
            _, err = child.communicate(timeout=LONG)
        assert child.returncode == -signal.SIGKILL, f"it ended before it could be killed: {err}"


class Server:
    """A web app of the examples under uvicorn, in a process of its own and on a free port of loopback."""

    def __init__(self, app: str, folder: Path, **env: str) -> None:
        descriptor, log = tempfile.mkstemp(".log", dir=folder)
        self._log = Path(log)
        command = [sys.executable, "-m", "uvicorn", "--app-dir", "examples", "--port", "0", f"{app}:app"]
        attempt_env = {**os.environ, "TMPDIR": str(folder), **env}
        with open(descriptor, "w") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, env=attempt_env, stdout=out, stderr=out)

    @property
    def log(self) -> str:
        """All that it has printed."""
        return self._log.read_text()

    @property
    def address(self) -> str:
        """Its address, once it answers."""
        wait_until(lambda: "running on http" in self.log or self.process.poll() is not None)
        found = re.search(r"running on (http://\S+)", self.log)
        assert found is not None, self.log
        return found[1]

    def end(self, by: signal.Signals) -> None:
        """Send it a signal, and check that it ends by that one, with nothing broken."""
        self.process.send_signal(by)
        # uvicorn raises the signal again once it has shut down.
        assert self.process.wait(LONG) == -by, self.log
        assert "Traceback" not in self.log, self.log

    def close(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Example]:
    """An example by its name."""
    return lambda name: Example(name, tmp_path)


def done(store: Store) -> list[int]:
    """How many tasks have ended well, run by run."""
    runs = store.reads.runs().rows
    return [len(store.reads.results(run.id, limit=10_000).rows) for run in runs]


def is_open(store: Store) -> bool:
    """Whether a run has not ended."""
    return any(not run.state.is_end for run in store.reads.runs().rows)


def wait_until(true: Callable[[], object]) -> None:
    """Until something holds that nobody announces."""
    end, never = time.monotonic() + LONG, threading.Event()
    while not true():
        assert time.monotonic() < end, "it never came true"
        never.wait(0.002)
