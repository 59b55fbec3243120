"""The yardstick: the same work with nothing kept.

Take a task from the left of a `collections.deque`, decode its JSON, call the generator, encode each child, append it.
This is about the least that Python can do for a task whose arguments cross as bytes; every rate is reported as a share
of it, measured in the same run, so that a figure from one machine means something on another.

It survives nothing, and it is not a queue anyone could share.
"""

from __future__ import annotations

import time
from collections import deque

from bench.tree import Work, decode, encode


def run(work: Work) -> float:
    """Tasks a second through a deque."""
    node = work.node
    queue = deque([encode(work.root)])
    take, add = queue.popleft, queue.append
    done = 0
    began = time.monotonic()
    while queue:
        for child in node(*decode(take())):
            add(encode(child))
        done += 1
    seconds = time.monotonic() - began
    if done != work.count:
        raise AssertionError(f"the deque ran {done} tasks of {work.count}")
    return done / seconds
