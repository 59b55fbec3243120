"""Commands that look, where nothing can be written and through a symbolic link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ramify.cli.main import COMMANDS
from tests.cli.conftest import Desk
from tests.store.sqlite.real import with_own_mounts

READS = (
    "crons", "gates", "health", "jobs", "limits", "locks",
    "status", "runs", "tasks", "errors", "events walk", "why 3", "logs", "doctor --full", "backup {out}", "show etl",
    "topics", "follow ramify.failures --no-wait",
)  # fmt: skip
CHANGES = (
    "pause walk", "resume walk", "cancel walk", "retry walk --failed", "resolve 3 --skip", "drain 7", "vacuum",
    "forget walk", "answer walk gate 1", "crons pause walk", "crons remove walk", "limits set api 5",
    "limits reset api", "unlock report --reason x", "topics replay bill --since 0", "topics remove bill",
)  # fmt: skip

#: Makes a store, and is killed or leaves it in order.
MAKES = """
import os, sys
from ramify import Tasks
from ramify.shapes.start import StartRequest, begin
from ramify.testing.conformance import House
from ramify.store.sqlite import SqliteStore
jobs = Tasks()
@jobs.task
def load(): ...
etl = jobs.dag("etl")
etl.add(load.of())
house = House(lambda clock: SqliteStore(sys.argv[1]), lambda store: store.close())
run = house.run(house.tasks(3), name="walk")
worker = house.worker()
worker.done(worker.take(1))
house.store.cancel(begin(house.store, StartRequest("dag", etl.of(), name="etl")).run.id)
if sys.argv[2] == "killed":
    os._exit(0)
worker.store.leave(worker.process)
house.close()
"""
#: Types each command, and tells how it ended and what it said last.
TYPES = """
import sys
from click.testing import CliRunner
from ramify.cli.main import main
for line in sys.argv[2:]:
    done = CliRunner().invoke(main, ["-s", sys.argv[1], *line.split()])
    print(line.split()[0], done.exit_code, (done.output.strip().splitlines() or [""])[-1])
"""
SCRIPT = """
python=$1; folder=$2; how=$3; shift 3
mount -t tmpfs none "$folder"
"$python" -c "$MAKES" "$folder/walk.db" "$how"
mount -o remount,ro "$folder"
ls "$folder" > "$out.before"
"$python" -c "$TYPES" "$folder/walk.db" "$@"
ls "$folder" | cmp - "$out.before"
"""


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_every_command_that_looks_works_on_a_read_only_file_system(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounted").mkdir()
    out = tmp_path / "copy.db"
    for name, value in (("MAKES", MAKES), ("TYPES", TYPES), ("out", str(out))):
        monkeypatch.setenv(name, value)
    lines = [line.format(out=out) for line in (*READS, *CHANGES)]
    told = with_own_mounts(SCRIPT, tmp_path / "mounted", how, *lines).splitlines()
    looked, changed = told[: len(READS)], told[len(READS) :]
    # Work is ready, and nobody works. To this topic nothing was published.
    codes = dict.fromkeys((line.split()[0] for line in READS), "0") | {"health": "1", "doctor": "1", "follow": "2"}
    assert [line.split()[:2] for line in looked] == list(map(list, codes.items())), told
    assert [line.split()[:2] for line in changed] == [[line.split()[0], "3"] for line in CHANGES], told
    assert all("read-only" in line for line in changed)


def test_who_looks_may_come_through_a_link_and_who_changes_is_given_the_real_path(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(3), name="walk")
    away = desk.folder / "away"
    away.mkdir()
    (away / "link.db").symlink_to(desk.folder / "walk.db")
    assert "3 pending" in desk.out("-s", str(away / "link.db"), "status")
    told = desk.err("-s", str(away / "link.db"), "pause", "walk", code=3)
    assert "is a symbolic link" in told
    assert f"give the real path: {desk.folder}" in told
    assert os.listdir(away) == ["link.db"]


def test_every_command_on_a_store_is_looked_at_here() -> None:
    assert {line.split()[0] for line in (*READS, *CHANGES)} == set(COMMANDS) - {"demo", "run", "start", "worker"}
