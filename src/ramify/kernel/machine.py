"""The machine: what a kernel takes from the computer it runs on. Threads, ways to wait, time, chance, the way out.

Everything in a kernel that waits, starts a thread, looks at a clock or throws dice does it by way of this value. So the
simulation can put a machine of its own in its place, with time that it makes up and threads that take turns, and drive
the very code that runs everywhere else.

Does not wait by itself, and knows nothing of stores.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

from ramify.kernel.core.pressure import is_scarce
from ramify.model.process import new_process_id


def _thread(target: Callable[[], object], name: str) -> threading.Thread:
    return threading.Thread(target=target, name=name, daemon=True)


@dataclass(frozen=True, slots=True)
class Machine:
    """`clock` is the time by which a kernel waits, `cpu` what its process has used, `busy` what the thread has.

    `chance` is between 0 and 1, `number` that of a new process. A `lock` may be taken again by the thread that has
    it; a `condition` is made on one. A `thread` is not started yet, and does not keep the program from ending.
    """

    clock: Callable[[], float] = time.monotonic
    cpu: Callable[[], float] = time.process_time
    busy: Callable[[], float] = time.thread_time
    chance: Callable[[], float] = random.random
    number: Callable[[], int] = new_process_id
    is_scarce: Callable[[], bool] = is_scarce
    lock: Callable[[], AbstractContextManager[Any]] = threading.RLock
    condition: Callable[[Any], threading.Condition] = threading.Condition
    event: Callable[[], threading.Event] = threading.Event
    thread: Callable[[Callable[[], object], str], threading.Thread] = _thread
    event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    exit: Callable[[int], NoReturn] = os._exit


#: This computer.
HERE = Machine()
