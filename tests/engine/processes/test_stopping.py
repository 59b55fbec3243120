"""The first signal begins a stop, whatever the people who should hear of it do."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from ramify.engine.processes.stopping import Stopped


def test_a_stop_begins_also_when_nobody_can_be_told() -> None:
    begun = threading.Event()

    def say(text: str) -> None:
        raise BrokenPipeError("the terminal is gone")

    stopped = Stopped(begun.set, say, lambda: None)
    with stopped.listening():
        stopped(signal.SIGTERM, None)
        assert begun.wait(10)


def test_a_signal_is_answered_also_while_the_interrupted_thread_starts_another() -> None:
    begun, heard, go = threading.Event(), threading.Event(), threading.Event()
    stopped = Stopped(begun.set, lambda text: None, lambda: None)

    def interrupted() -> None:
        go.wait(10)
        stopped(signal.SIGTERM, None)
        heard.set()

    handler = threading.Thread(target=interrupted, daemon=True)
    with stopped.listening():
        handler.start()
        # What a thread has while it starts another; a handler that interrupts it there must not want it too.
        with threading._active_limbo_lock:  # type: ignore[attr-defined]
            go.set()
            assert heard.wait(5), "the handler waits for the thread that it interrupted"
        assert begun.wait(10)


PROGRAM = """
import signal, threading
from ramify import Engine, Spawns

engine = Engine("memory:")
heard = threading.Event()
engine._runtime.say = lambda text: heard.set() if text.startswith("stopping") else None

@engine.task
def second() -> None:
    pass

@engine.task
def first() -> Spawns[None]:
    # As the system may do: not the thread that Python gives signals to, which is asleep, gets this one.
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    print("heard" if heard.wait(10) else "never heard", flush=True)
    yield second.of()

try:
    engine.run(first.of(), threads=2)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_a_signal_that_another_thread_gets_is_heard() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert told.stdout.split("\n") == ["heard", "stopped", ""], told.stderr
