"""DBOS and Procrastinate as contenders: which settings each has, which suits it here, and what it pays for.

Their rates are those of fewer runs than ours, because each step is a few transactions of its own; a rate over more runs
would not be higher. Before the contest each tries its settings on a few runs, and keeps the one that did best on this
machine.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench import dbos_steps, procrastinate_chain, rivals
from bench.contest import say
from bench.frontier_turn import environment
from bench.scratch import folder_in

TRIAL = 40
PATIENCE = 1200.0

_POWER = "a power cut loses no step that was recorded (fsync per commit, {})"


@dataclass(frozen=True)
class Rival:
    """One of them with one of its settings: the module that plays it, its job, that in words, and what it keeps."""

    module: str
    job: dbos_steps.Job | procrastinate_chain.Job
    chosen: str
    keeps: str

    def run(self, runs: int, folder: Path) -> float:
        """Steps a second."""
        job = msgspec.json.encode(msgspec.structs.replace(self.job, runs=runs)).decode()
        with folder_in(folder) as place:
            command = [str(rivals.python()), "-m", self.module, job]
            # Its stderr is kept back, because some of them complain of what they close themselves.
            done = subprocess.run(
                command, cwd=place, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        if done.returncode:
            raise RuntimeError(f"{self.module} ended with exit code {done.returncode}: {done.stderr[-2000:]}")
        return float(done.stdout.splitlines()[-1])


def _dbos(database: dbos_steps.Database, at_once: int) -> Rival:
    on = {"sqlite": "SQLite", "sqlite-wal": "SQLite with a write-ahead log", "postgres": "PostgreSQL on a socket"}
    job = dbos_steps.Job(TRIAL, database, at_once)
    return Rival("bench.dbos_steps", job, f"{on[database]}, {at_once} workflows at a time", _POWER.format(on[database]))


def _procrastinate(at_once: int) -> Rival:
    job = procrastinate_chain.Job(TRIAL, at_once)
    keeps = _POWER.format("PostgreSQL on a socket") + "; what jobs give is not kept"
    return Rival("bench.procrastinate_chain", job, f"{at_once} jobs at a time", keeps)


#: Each with the settings that it may choose from.
RIVALS: Mapping[str, Sequence[Rival]] = {
    "dbos": (_dbos("sqlite", 4), _dbos("sqlite-wal", 4), _dbos("postgres", 4), _dbos("postgres", 16)),
    "procrastinate": (_procrastinate(4), _procrastinate(16), _procrastinate(48)),
}


def at_its_best(name: str, folder: Path) -> Rival:
    """A rival with the setting that is fastest on a few runs."""
    rivals.python()
    rates: dict[Rival, float] = {}
    for rival in RIVALS[name]:
        say(f"{name}: trying {rival.chosen}")
        rates[rival] = rival.run(TRIAL, folder)
    return max(rates, key=lambda rival: rates[rival])
