"""A program to be killed: `python -m bench.recovery_program WORK`, in the folder where its store is to be.

It is the one line that a user would write, `engine.run(..., name=...)`. Started again after a kill, it goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from bench import frontier_tasks, recovery_tasks
from bench.recovery_work import NAME, Beside, Compute, Grow, Lanes, Nap, Waves, Works
from bench.tree import Tree
from ramify.engine.runs.run import Run


def play(work: Works) -> Run[Any]:
    """Run it to its end."""
    plain, ours = frontier_tasks.engine, recovery_tasks.engine
    match work:
        case Grow():
            return plain.run([frontier_tasks.node.of(*Tree(work.depth).root) for _ in range(work.trees)], name=NAME)
        case Compute():
            return plain.run(frontier_tasks.crowd.of(work.tasks), name=NAME)
        case Nap():
            return plain.run(frontier_tasks.naps.of(work.tasks, work.ms), name=NAME, threads=work.threads)
        case Waves():
            return ours.run(recovery_tasks.waves.of(work.width, work.length, work.ms), name=NAME)
        case Lanes():
            return ours.run(recovery_tasks.lanes(work.lanes, work.each), name=NAME)
        case Beside():
            calls = [recovery_tasks.victim.of(n, work.end if n == work.killer else "") for n in range(work.tasks)]
            return ours.run(calls, name=NAME, threads=work.threads, processes=work.processes)
        case _:
            assert_never(work)


def main(argv: Sequence[str]) -> None:
    """Play it; whoever started this looks into the store."""
    play(msgspec.json.decode(argv[0], type=Works))


if __name__ == "__main__":
    main(sys.argv[1:])
