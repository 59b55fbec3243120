"""The vigil over real processes, of which one computes and one sleeps, by a clock that the test moves."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ramify.engine.processes.exit_status import ExitStatus
from ramify.engine.processes.hang_detector import RUNS, HangDetector, processor_seconds
from ramify.engine.processes.member import Member
from ramify.model.process import NewProcess
from ramify.store.memory import MemoryStore
from ramify.testing import FakeClock

#: What no test should ever need.
LONG = 60.0
HUNG_AFTER = 5.0
STEP = 2.0


class Post:
    """A vigil over one child, which says nothing at all."""

    def __init__(self, program: str) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.store.enter(NewProcess(7))
        self.child = subprocess.Popen([sys.executable, "-c", program])
        self.line, self._theirs = socket.socketpair()
        self.member = Member(self.child, self.line, self.now(), self.now(), ExitStatus(None), process=7)
        self.hang_detector = HangDetector(self.store, 0.1, HUNG_AFTER, self.now)

    def now(self) -> float:
        return self.clock.monotonic() / 1_000_000

    def used(self) -> float:
        used = processor_seconds(self.child.pid)
        assert used is not None
        return used

    def step(self) -> None:
        self.clock.advance(STEP)
        self.hang_detector.look([self.member])

    def beat(self) -> int:
        """When it was last heard of."""
        (seen,) = self.store.reads.processes()
        assert seen.beat_age is not None
        return self.clock.monotonic() - round(seen.beat_age * 1_000_000)

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        self.line.close()
        self._theirs.close()


@pytest.fixture
def post() -> Iterator[Callable[[str], Post]]:
    made: list[Post] = []

    def begin(program: str) -> Post:
        made.append(Post(program))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def test_a_silent_child_that_computes_is_not_killed_and_is_beaten_for(post: Callable[[str], Post]) -> None:
    busy = post("while True: pass")
    busy.step()
    for _ in range(4):
        before, beat, end = busy.used(), busy.beat(), time.monotonic() + LONG
        while busy.used() - before < 2 * RUNS * STEP:
            assert time.monotonic() < end, "it does not compute"
            threading.Event().wait(0.01)
        busy.step()
        assert busy.beat() > beat
    assert busy.now() - busy.member.heard > HUNG_AFTER
    assert busy.member.killed_for is None
    assert busy.child.poll() is None


def test_a_silent_child_that_does_nothing_is_killed_and_not_beaten_for(post: Callable[[str], Post]) -> None:
    # Enough to be counted, which is done in hundredths of a second: its start alone may take less.
    asleep = post("import signal, time\nwhile time.process_time() < 0.1: pass\nsignal.pause()")
    # Its start is over when it takes no more processor time.
    used, end = -1.0, time.monotonic() + LONG
    while used != asleep.used() or not used:
        assert time.monotonic() < end, "it does not come to rest"
        used = asleep.used()
        threading.Event().wait(0.2)
    beat = asleep.beat()
    for _ in range(3):
        asleep.step()
    assert asleep.beat() == beat
    assert asleep.member.killed_for == "not heard of for 5 s"
    assert asleep.child.wait(LONG) == -9
