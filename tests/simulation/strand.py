"""Strands: threads that take turns. One of them runs at a time, and which one is next is decided by the world.

A strand is a real thread, so that the kernel's own code runs in it as it is; but it only runs when the world resumes
it, and it hands the turn back whenever it waits for something: for time to pass, for a lock, for a condition or an
event. These are here too, as the kernel sees them by way of its machine. Everything is in virtual time.

A process that is no more takes its strands with it: whatever they do next that could wait raises `Gone`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.process import Process

#: The longest a strand takes to go on after somebody woke it, and for which it may lose its turn for no reason at all.
SOON, HICCUP = 1e-4, 1e-3


class Gone(BaseException):
    """The process of this strand is no more."""


class Planted(Exception):
    """A thread dies of this, because the weather says so."""


class Strand(threading.Thread):
    """A thread of a process. `park` gives its turn away; `stir` ends that early."""

    def __init__(self, process: Process, story: Callable[[], object], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.process = process
        self.is_over = False
        #: Seconds for which it kept a core busy.
        self.busy = 0.0
        self._story = story
        self._go = threading.Lock()
        self._go.acquire()
        self._ticket = 0
        self._is_running = False
        self._is_stirred = False
        self._joining: list[Strand] = []

    def start(self) -> None:
        """It begins when the world comes to it."""
        self.process.strands[self] = None
        self._sleep(self.process.world.chance.random() * SOON)

    def is_alive(self) -> bool:
        """Whether it was started and is not over."""
        return self in self.process.strands

    def join(self, timeout: float | None = None) -> None:
        """Wait until it is over."""
        if self.is_alive():
            self._joining.append(me := here())
            me.park(None if timeout is None else self.process.in_world(timeout))

    def resume(self, ticket: int) -> None:
        """The world gives it its turn; returns when it waits again."""
        process = self.process
        world = process.world
        if ticket != self._ticket or self.is_over:
            return
        if process.is_alive and world.now < process.frozen_until:
            # On waking, everybody in the process hurries, in any order.
            self._sleep(process.frozen_until - world.now + world.chance.random() * 0.01)
            return
        if self._is_running:
            self._go.release()
        else:
            self._is_running = True
            super().start()
        world.back.acquire()
        if process.is_touched and process.is_alive:
            process.is_touched = False
            world.watch.books(process)

    def run(self) -> None:
        """Its story, from the first turn to the last."""
        process = self.process
        try:
            process.check_alive()
            self._story()
        except (Gone, Planted):
            pass
        except BaseException as error:  # noqa: BLE001 - the world raises it
            process.world.blame(error)
        finally:
            self.is_over = True
            process.strands.pop(self, None)
            for each in self._joining:
                each.stir()
            process.world.back.release()

    def finish(self) -> None:
        """Its process is no more: let it come to its end."""
        self.resume(self._ticket)

    def park(self, seconds: float | None) -> bool:
        """Wait until so long has passed, or until it is stirred; whether it was."""
        self.process.check_alive()
        self._pass_on(seconds)
        return self._is_stirred

    def hiccup(self) -> None:
        """Perhaps somebody else comes first."""
        process = self.process
        process.check_alive()
        if process.world.chance.random() < process.world.weather.hiccups:
            self._pass_on(process.world.chance.random() * HICCUP)

    def stir(self) -> None:
        """Wake it up soon."""
        self._is_stirred = True
        self._sleep(self.process.world.chance.random() * SOON)

    def _pass_on(self, seconds: float | None) -> None:
        self._is_stirred = False
        if seconds is None:
            self._ticket += 1
        else:
            self._sleep(seconds)
        self.process.world.back.release()
        self._go.acquire()
        self.process.check_alive()

    def _sleep(self, seconds: float) -> None:
        self._ticket += 1
        self.process.world.after(seconds, self, self._ticket)


def here() -> Strand:
    """The strand that has its turn."""
    strand = threading.current_thread()
    assert isinstance(strand, Strand)
    return strand


class Lock:
    """A lock of one process, which the strand that has it may take again."""

    def __init__(self) -> None:
        self._owner: Strand | None = None
        self._depth = 0
        self._waiting: deque[Strand] = deque()

    def __enter__(self) -> None:
        me = here()
        me.hiccup()
        self.take(me, 1)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._free()

    def take(self, me: Strand, depth: int) -> None:
        """Wait until it is free, and have it so many times more."""
        while self._owner is not None and self._owner is not me:
            self._waiting.append(me)
            me.park(None)
        self._owner = me
        self._depth += depth

    def let_go(self) -> int:
        """Give it up, however often it was taken; how often that was."""
        depth, self._depth = self._depth, 0
        self._free()
        return depth

    def _free(self) -> None:
        self._owner = None
        if self._waiting:
            self._waiting.popleft().stir()


class Condition:
    """A condition on such a lock."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._waiting: deque[Strand] = deque()

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until somebody notifies; False when that took longer."""
        me = here()
        depth = self._lock.let_go()
        self._waiting.append(me)
        is_stirred = me.park(None if timeout is None else me.process.in_world(timeout))
        if me in self._waiting:
            self._waiting.remove(me)
        self._lock.take(me, depth)
        return is_stirred

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until something holds, at most so long; whether it does."""
        clock = here().process.clock
        end = None if timeout is None else clock() + timeout
        while not (result := predicate()):
            left = None if end is None else end - clock()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, many: int = 1) -> None:
        """Wake so many of those who wait."""
        for _ in range(min(many, len(self._waiting))):
            self._waiting.popleft().stir()

    def notify_all(self) -> None:
        """Wake all of them."""
        self.notify(len(self._waiting))


class Event:
    """An event of one process."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Strand] = []

    def is_set(self) -> bool:
        """Whether it happened."""
        return self._is_set

    def set(self) -> None:
        """It happens."""
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.stir()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it happens, at most so long; whether it did."""
        me = here()
        me.process.check_alive()
        if not self._is_set and (timeout is None or timeout > 0):
            self._waiting.append(me)
            me.park(None if timeout is None else me.process.in_world(timeout))
            if me in self._waiting:
                self._waiting.remove(me)
        return self._is_set


class EventLoop(asyncio.BaseEventLoop):
    """asyncio's own loop, whose selector waits in virtual time and hears calls only."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self._selector = self
        self._sleeper: Strand | None = None
        self._is_called = False

    def time(self) -> float:
        """The process's own time."""
        return self._process.clock()

    def select(self, timeout: float | None) -> list[object]:
        """Wait for a call, or for the time of the next timer."""
        if not self._is_called and (timeout is None or timeout > 0):
            self._sleeper = me = here()
            me.park(None if timeout is None else self._process.in_world(timeout))
            self._sleeper = None
        self._is_called = False
        return []

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What asyncio would log. Coroutines of a process that is no more are not ended, they are just not there."""
        if self._process.is_alive:
            self._process.world.blame(context.get("exception") or RuntimeError(context["message"]))

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._is_called = True
        if self._sleeper is not None:
            self._sleeper.stir()
            self._sleeper = None

    def __del__(self, _warn: object = None) -> None:
        """A loop that ended with its process was not closed, and nobody minds."""
