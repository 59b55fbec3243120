"""Changes of files: which module of this program is another one on disk by now. For development.

It looks at the times of the files of all modules that are imported here, once a second, which takes a few milliseconds.
A file that is gone for a moment, as editors do it, is no change.

Does not import anything anew: who hears of a change starts processes that do.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds between two looks.
EVERY = 1.0


class FileChanges:
    """The files of the modules of this program, as they were at the last look."""

    def __init__(self) -> None:
        self._seen = _times()

    def look(self) -> str | None:
        """A file that changed since the last look; None when there is none."""
        now = _times()
        changed = [file for file, time in now.items() if self._seen.get(file, time) != time]
        self._seen |= now
        return min(changed, default=None)


@contextmanager
def watching(on_change: Callable[[str], None]) -> Iterator[None]:
    """Call `on_change` with a file whenever one changes, for as long as the block runs."""
    changes, over = FileChanges(), threading.Event()

    def go_on() -> None:
        while not over.wait(EVERY):
            changed = changes.look()
            if changed is not None:
                on_change(changed)

    threading.Thread(target=go_on, name="ramify-changes", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _times() -> dict[str, int]:
    found = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            try:
                found[file] = os.stat(file).st_mtime_ns
            except OSError:
                continue
    return found
