"""redis-py's Lock: `python -m bench.redis_locks JOB`, run with the Python of `.bench-venv`.

It prints locks acquired and released a second, in one thread, on a Redis that syncs its log with every command: so a
lock that was granted outlives a power cut, as ours does. It expires after a time, as users of it must have it do: there
is no other way to get it back from a process that died.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from bench.redis_server import serving

KEEPS = "a power cut loses nothing that was granted (appendfsync always); a lock of a dead process expires, no fences"
LIFE = 30


class Job(msgspec.Struct, frozen=True):
    """One turn: how many times."""

    count: int


def main(argv: Sequence[str]) -> None:
    """Acquire and release, and print how often a second."""
    job = msgspec.json.decode(argv[0], type=Job)
    with serving(Path.cwd(), syncs=True) as socket:
        # By name, because the environment in which this file is type-checked does not have it.
        client = import_module("redis").Redis(unix_socket_path=socket)
        with client.lock("report", timeout=LIFE):
            pass
        began = time.monotonic()
        for _ in range(job.count):
            with client.lock("report", timeout=LIFE):
                pass
        seconds = time.monotonic() - began
    print(job.count / seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
