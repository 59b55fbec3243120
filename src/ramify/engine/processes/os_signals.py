"""Signals of the operating system: heard by the process that asked to, and by none of its forked children.

Promises: who handles a signal in C, or ignores it, keeps it, and what was there before can be put back. A forked child
has what was there before from its first line on; a signal that is sent to it while it is being made waits until then.
Without that, `terminate()` of a process that a task started would only ask a copy of our kernel to stop.

Python gives signals to the main thread, and only that thread may ask for them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

Answer = Callable[[int, FrameType | None], Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Heard:
    """One signal, who answers it now, and who did before."""

    number: int
    answer: Answer
    before: Any

    def put_back(self) -> None:
        if signal.getsignal(self.number) is self.answer:
            signal.signal(self.number, self.before)


#: What this process hears, the oldest first. Signals belong to the process, and so does this.
_heard: list[_Heard] = []
#: The signals that a thread had blocked before it began to fork.
_masks = threading.local()


def hear(numbers: Iterable[int], answer: Answer, *, also_ignored: bool = False) -> Callable[[], None]:
    """Let `answer` be called at these signals, until what is given back is called."""
    before = {number: signal.getsignal(number) for number in numbers}
    kept = (None,) if also_ignored else (None, signal.SIG_IGN)
    mine = [_Heard(number, answer, was) for number, was in before.items() if was not in kept]
    # In this order, and the other way round at the end: another thread may fork in between.
    _heard.extend(mine)
    for each in mine:
        signal.signal(each.number, answer)

    def put_back() -> None:
        for each in mine:
            each.put_back()
            if each in _heard:
                _heard.remove(each)

    return put_back


def _before_fork() -> None:
    if _heard:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {each.number for each in _heard})


def _after_fork() -> None:
    mask = _masks.__dict__.pop("before", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_in_child() -> None:
    for each in reversed(_heard):
        each.put_back()
    _heard.clear()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_in_child)
