"""Real children and real mounts for the tests of the SQLite store: no mock can lose a lock or fill a disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import apsw
import pytest

#: Where children run, so that they find this module.
_ROOT = Path(__file__).parents[3]


class Child:
    """A Python program of its own process, which we talk to in lines. It is killed at the end of its block."""

    def __init__(self, program: str, *args: object) -> None:
        command = [sys.executable, "-c", textwrap.dedent(program), *map(str, args)]
        # Unbuffered, a line would be written in pieces, and those of its own children come in between.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=environment
        )
        self.pid = self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def hear(self) -> str:
        """The next line it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the child ended with {self._process.wait()}"
        return line.rstrip("\n")

    def say(self, line: str = "go on") -> None:
        """A line for its `input()`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Wait for it."""
        return self._process.wait()

    def kill(self) -> None:
        """`kill -9`, also when it is stopped."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def output_of(program: str, *args: object) -> str:
    """What a program prints, run to its end in a process of its own."""
    with Child(program, *args) as child:
        assert child._process.stdout is not None
        said = child._process.stdout.read()
        assert child.end() == 0, said
    return said.strip()


def in_forked_child(do: Callable[[], str]) -> str:
    """What `do` answers in a child that was forked from this very process, which then leaves without clean-up."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of forks in a process with threads; what happens then is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            answer = do()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return answer


def with_own_mounts(script: str, *args: object) -> str:
    """What a shell script prints in a mount namespace of its own; skips where that is not allowed."""
    unshare = shutil.which("unshare")
    probe = "mount -t tmpfs -o size=1m none /mnt"
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", probe], capture_output=True).returncode != 0:
        pytest.skip("needs unshare -m and the right to mount")
    command = [unshare, "-m", "sh", "-ec", textwrap.dedent(script), "sh", sys.executable, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def wait_until(true: Callable[[], object], seconds: float = 20) -> None:
    """Until something holds that nobody announces."""
    end, never = time.monotonic() + seconds, threading.Event()
    while not true():
        assert time.monotonic() < end, "it never came true"
        never.wait(0.002)


def one_table(db: apsw.Connection) -> None:
    """A schema for tests, made and checked the way the store's own is."""
    if not db.pragma("user_version"):
        db.execute("CREATE TABLE t (x INTEGER PRIMARY KEY, who TEXT)")
        db.pragma("user_version", 1)
