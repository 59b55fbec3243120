"""Starting clients, killing and freezing them, and waiting for facts.

A client is loaded before it is needed and begins at a word, so that a kill "after 20 ms" hits work and not imports.
Nothing here sleeps: a wait is for the end of a process, for a line it prints, or for a fact that is asked again and
again until a limit, after which the test fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Longer than anything here takes on a busy machine; reaching it is a failure.
LIMIT = 60.0
STORE = "store.db"
WITNESS = "witness.jsonl"
_TICK = 0.005
#: Lines that a program may write before it is killed: it found another one dead, or its run has failed as it should.
_MAY_SAY = re.compile(r"found (a|\d+) dead process|run .+: \d+ of \d+ tasks failed")


def wait_until(fact: Callable[[], object], what: str, limit: float = LIMIT) -> None:
    """Ask until `fact` answers with something true; fail when it does not within `limit` seconds."""
    end = time.monotonic() + limit
    pause = threading.Event()
    while not fact():
        assert time.monotonic() < end, f"waited {limit:g} s in vain for {what}"
        pause.wait(_TICK)


class Client:
    """One client process; see `client.py` for what it can do, and `engine/program.py` for another program."""

    def __init__(self, errors: Path, before: Sequence[str] = (), program: str = "tests.crash.client") -> None:
        self._errors = errors
        with errors.open("w") as file:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", program],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        self.pid = self._process.pid
        self._is_loaded = False

    def hear(self) -> str:
        """The next line it prints; the test fails when it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, f"the client ended with {self._process.wait(LIMIT)}: {self._errors.read_text()}"
        return line

    def tell(self, line: str = "") -> None:
        """Give it a line, which is the word to go on."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def load(self) -> None:
        """Wait until it is loaded."""
        if not self._is_loaded:
            assert self.hear() == "ready"
            self._is_loaded = True

    def begin(self, work: str, folder: Path, seed: int = 0, *options: str, witness: Path | None = None) -> None:
        """Let it begin, once it is loaded, on the store of a folder; the witness is there as well, or elsewhere."""
        self.load()
        self.tell(json.dumps([work, str(folder / STORE), str(witness or folder / WITNESS), seed, *options]))

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself in that time. It must then have ended well."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        assert code == 0, f"the client ended with {code}: {self._errors.read_text()}"
        self._close()
        return True

    def code_within(self, seconds: float) -> int:
        """The code it ends with; the test fails when it does not end in that time."""
        code = self._process.wait(seconds)
        self._close()
        return code

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """`kill -9`. It must have said nothing on its error output before but what it may."""
        self._process.kill()
        self._process.wait()
        self._close()
        complaints = [line for line in self._errors.read_text().splitlines() if not _MAY_SAY.match(line)]
        assert not complaints, complaints

    def stop(self) -> None:
        """Freeze it, and wait until it is frozen."""
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_stopped()

    def stop_between_writes(self) -> None:
        """Freeze it at a moment at which it does not hold the write lock: with it, everybody waits until it thaws."""
        pause = threading.Event()
        self.stop()
        while _holds_the_write_lock(self.pid):
            self.thaw()
            pause.wait(0.005)
            self.stop()

    def wait_stopped(self) -> None:
        """Wait until it is frozen, by us or by itself."""
        wait_until(self._is_stopped, "the client to stop")

    def _is_stopped(self) -> bool:
        assert self._process.poll() is None, f"the client ended: {self._errors.read_text()}"
        return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is not None

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def dispose(self) -> None:
        """End it whatever it does; for the clean-up after a test."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()


class Clients:
    """The clients of one test, two of them always loading ahead. All are gone when the test is."""

    def __init__(self, folder: Path, program: str = "tests.crash.client") -> None:
        self._folder = folder
        self._program = program
        self._all: list[Client] = []
        self._ahead: list[Client] = []

    def next(self) -> Client:
        """A client that is loaded or about to be."""
        while len(self._ahead) < 3:
            self._ahead.append(self.add())
        return self._ahead.pop(0)

    def add(self, before: Sequence[str] = ()) -> Client:
        """A client of its own, perhaps run by another program."""
        self._all.append(Client(self._folder / f"errors-{len(self._all)}.txt", before, self._program))
        return self._all[-1]

    def dispose(self) -> None:
        """End all."""
        for client in self._all:
            client.dispose()


def _holds_the_write_lock(pid: int) -> bool:
    """Whether a process holds SQLite's write lock of some file: byte 120 of its shared memory."""
    locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    return any(lock[1] == "POSIX" and lock[3] == "WRITE" and lock[4] == str(pid) and lock[6] == "120" for lock in locks)
