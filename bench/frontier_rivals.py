"""Huey as a contender: which of its settings there are, which workers suit each, and how a turn is played.

Its rate is that of a smaller tree than the engine's, because one commit a task and one a child take their time; a rate
on the full tree would not be higher. Before the contest each setting tries the workers in `WORKERS` on a tiny tree and
keeps those that did best on this machine.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench import rivals
from bench.contest import say
from bench.huey_jobs import WorkerType
from bench.huey_tree import Job
from bench.scratch import folder_in
from bench.tree import Tree

WORKERS: tuple[tuple[int, WorkerType], ...] = ((1, "thread"), (4, "thread"), (2, "process"))
TRIAL = Tree(3)
PATIENCE = 1200.0

#: Huey's one setting for durability, and what is kept under it.
SETTINGS: dict[str, tuple[bool | None, str]] = {
    "huey, default": (
        None,
        "a power cut loses no waiting task (fsync per commit); a running task is lost with its process",
    ),
    "huey, fsync=False": (
        False,
        "a kill loses no waiting task, a power cut may ruin the file; a running task is lost with its process",
    ),
}


@dataclass(frozen=True)
class Huey:
    """A setting with the workers that suit it."""

    fsync: bool | None
    workers: int
    worker_type: WorkerType

    @property
    def crew(self) -> str:
        """The workers in words."""
        plural = {"thread": "threads", "process": "processes"}
        return f"{self.workers} {self.worker_type if self.workers == 1 else plural[self.worker_type]}"

    def run(self, tree: Tree, folder: Path) -> float:
        """Tasks a second."""
        with folder_in(folder) as place:
            job = Job(tree, str(place / "huey.db"), self.fsync, self.workers, self.worker_type)
            done = subprocess.run(
                [str(rivals.python()), "-m", "bench.huey_tree", msgspec.json.encode(job).decode()],
                cwd=rivals.ROOT,
                stdout=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
            )
        if done.returncode:
            raise RuntimeError(f"huey ended with exit code {done.returncode}")
        return float(done.stdout)


def at_its_best(fsync: bool | None, folder: Path) -> Huey:
    """This setting with the workers that are fastest on a tiny tree, each at the better of two tries."""
    crews = [Huey(fsync, workers, worker_type) for workers, worker_type in WORKERS]
    best = dict.fromkeys(crews, 0.0)
    for huey in 2 * crews:
        say(f"huey, fsync={fsync}: trying {huey.crew}")
        best[huey] = max(best[huey], huey.run(TRIAL, folder))
    return max(crews, key=lambda huey: best[huey])
