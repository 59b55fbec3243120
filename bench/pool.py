"""The obvious alternative in one process: `ThreadPoolExecutor(4).map`, level by level, with nothing kept.

Each task decodes its arguments, calls the generator and encodes each child, as the deque does. The next level begins
when the whole level is done, which is what anybody writes first, and keeps one future for each task of a level.

It survives nothing.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from bench.tree import Work, decode, encode

THREADS = 4


def run(work: Work) -> float:
    """Tasks a second through a pool of threads."""
    node = work.node

    def one(body: bytes) -> list[bytes]:
        return [encode(child) for child in node(*decode(body))]

    done = 0
    with ThreadPoolExecutor(THREADS) as pool:
        began = time.monotonic()
        level = [encode(work.root)]
        while level:
            done += len(level)
            level = [child for children in pool.map(one, level) for child in children]
        seconds = time.monotonic() - began
    if done != work.count:
        raise AssertionError(f"the pool ran {done} tasks of {work.count}")
    return done / seconds
