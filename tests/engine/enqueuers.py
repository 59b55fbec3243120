"""Programs in which threads enqueue while something happens to the process: `python -m tests.engine.enqueuers WHAT`."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ramify import Engine, RamifyError, StoreRefused

engine = Engine("jobs.db", durability="process")


@engine.task
def nothing(number: int) -> None:
    """Do nothing."""


@contextmanager
def beside() -> Iterator[list[int]]:
    """Threads that enqueue without pause; the ids of what they were told is there."""
    ids: list[int] = []
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            try:
                ids.append(engine.enqueue(nothing.of(1)).id)
            except RamifyError as error:
                if "interrupted" not in str(error):
                    raise

    threads = [threading.Thread(target=go_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield ids
    finally:
        over.set()
        for thread in threads:
            thread.join()


def press(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def interrupted() -> None:
    """Ctrl-C in the main thread, again and again, while it enqueues as well."""
    signal.signal(signal.SIGALRM, press)
    pressed = 0
    with beside() as ids:
        while pressed < 40:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.004))
                while True:
                    engine.enqueue(nothing.of(2))
            except KeyboardInterrupt:
                pressed += 1
        before = len(ids)
        while len(ids) == before:
            engine.enqueue(nothing.of(3))
    there = {job.id for job in engine.jobs()}
    assert there.issuperset(ids), "somebody was told of a job that is not there"


def forked() -> None:
    """A child is forked while others write, and enqueues."""
    with beside() as ids:
        for _ in range(3):
            many = len(ids)
            while len(ids) == many:
                os.sched_yield()
            child = os.fork()
            if not child:
                signal.alarm(60)
                try:
                    engine.enqueue(nothing.of(4))
                except StoreRefused:
                    os._exit(3)
                os._exit(4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)
    {"interrupted": interrupted, "forked": forked}[sys.argv[1]]()
