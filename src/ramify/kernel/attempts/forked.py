"""A child that a handler forked: it is nobody's worker, and whatever it does, it ends where its handler does.

A forked child is a copy of the kernel in which only one thread lives. If it went on past the handler, it would run the
next tasks of the chunk a second time and hand in what came of them. So whoever calls a handler compares the number of
forks before and after (`forks.depth`), and lets a child that finds itself there end as Python ends a program: by
the code of its SystemExit, with a traceback for any other error, with 0 when the handler returned.

Nothing is saved, unlocked or removed in the child, and nothing that its parent registered for its own exit is called.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import NoReturn

from ramify.store import forks


def end_child(error: BaseException | None = None) -> NoReturn:
    """End this process, which was forked inside a handler that has now returned or raised."""
    code = 1
    try:
        code = _code(error)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        # Also when its standard output is gone: nothing above this frame may go on.
        os._exit(code)


def _code(error: BaseException | None) -> int:
    match error:
        case None | SystemExit(code=None):
            return 0
        case SystemExit(code=int(code)):
            return code & 0xFF
        case SystemExit():
            sys.stderr.write(f"{error.code}\n")
        case _:
            traceback.print_exception(error)
    return 1


class Home:
    """`with Home():` around a call of a handler: a child that was forked in there does not come out."""

    __slots__ = ("_depth",)

    def __enter__(self) -> None:
        self._depth = forks.depth

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if forks.depth != self._depth:
            end_child(error)
