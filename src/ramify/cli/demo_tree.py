"""The program that `ramify demo` runs and kills: `python -m ramify.cli.demo_tree FOLDER DEPTH PROCESSES`.

A tree in which every task makes ten more. A file beside the store bears witness: each task adds one to a byte of its
own when its handler begins. The file is mapped into memory, so what was noted stays when the process is killed, and it
knows nothing of the store.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ramify import Engine, Spawns, current

FAN_OUT = 10
#: Room for more ids than there are tasks: a process that is killed wastes the rest of its block of ids.
WITNESS_BYTES = 16 << 20

engine = Engine("demo.db")


@engine.resource
def witness() -> Iterator[mmap.mmap]:
    """One byte for each task, shared by all processes."""
    with Path(current().params).open("r+b") as file, mmap.mmap(file.fileno(), WITNESS_BYTES) as noted:
        yield noted


@engine.task
def grow(path: int, depth: int) -> Spawns[None]:
    """Make ten more, until the tree is deep enough."""
    noted, task = witness(), current().task
    noted[task] = min(255, noted[task] + 1)
    if depth:
        for child in range(path * FAN_OUT + 1, path * FAN_OUT + FAN_OUT + 1):
            yield grow.of(child, depth - 1)


def main(argv: Sequence[str]) -> None:
    """Grow the tree in this folder, or go on with it."""
    folder, depth, processes = Path(argv[0]), int(argv[1]), int(argv[2])
    engine._runtime.url = folder / "demo.db"
    engine.run(grow.of(0, depth), name="demo", processes=processes, params=str(folder / "witness"))


if __name__ == "__main__":
    main(sys.argv[1:])
