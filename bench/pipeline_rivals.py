"""DBOS and Procrastinate as contenders: which settings each has, and what it pays for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import dbos_steps, procrastinate_chain
from bench.rivals import Rival

TRIAL = 40

_POWER = "a power cut loses no step that was recorded (fsync per commit, {})"


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
