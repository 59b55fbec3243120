"""The first signal begins a stop, whatever the people who should hear of it do."""

from __future__ import annotations

import signal
import threading

from ramify.engine.stopping import Stopped


def test_a_stop_begins_also_when_nobody_can_be_told() -> None:
    begun = threading.Event()

    def say(text: str) -> None:
        raise BrokenPipeError("the terminal is gone")

    Stopped(begun.set, say, lambda: None)(signal.SIGTERM, None)
    assert begun.wait(10)
