"""`ramify locks` and `ramify unlock`: who holds a lock, and how a person takes it away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ramify import Engine, LockLost, Tasks, current
from ramify.cli.main import main
from ramify.store.here import host, person
from tests.cli.conftest import Desk

work = Tasks()


@work.task
def report() -> tuple[int, str]:
    """Look at the locks while one is held."""
    with Engine("walk.db").lock("report", ttl=60):
        return current().task, CliRunner().invoke(main, ["locks"]).stdout


@pytest.fixture
def engine(folder: Path, desk: Desk) -> Iterator[Engine]:
    """A program on the store of the desk."""
    made = Engine(folder / "walk.db")
    yield made
    made.close()


def test_no_lock_is_held(desk: Desk, engine: Engine) -> None:
    assert desk.out("locks") == "no lock is held\n"
    with engine.lock("report"):
        pass
    assert desk.out("locks") == "no lock is held\n"
    assert desk.json("locks") == []


def test_locks_names_the_process_the_task_and_the_time(desk: Desk, folder: Path) -> None:
    worker = Engine(folder / "walk.db", include=[work])
    (found,) = worker.run(report.of()).results()
    task, told = found
    worker.close()
    head, row = told.splitlines()
    assert head.split() == ["lock", "fence", "wait", "held", "by"]
    assert f"process {os.getpid()} on {host()}, task {task} (report), since " in row
    assert ", until " in row


def test_locks_as_json(desk: Desk, engine: Engine) -> None:
    with engine.lock("a", holders=2) as first, engine.lock("a", holders=2) as second:
        (found,) = desk.json("locks")
        assert (found["lock"], found["fence"], found["waiters"]) == ("a", second.fence, [])
        assert [each["fence"] for each in found["holders"]] == [first.fence, second.fence]
        assert {each["pid"] for each in found["holders"]} == {os.getpid()}
        assert all(each["alive"] and each["since"].endswith("Z") for each in found["holders"])
        assert len(desk.out("locks").splitlines()) == 3


def test_a_lock_of_a_dead_process_is_said_to_be_free_for_the_next(desk: Desk, engine: Engine) -> None:
    line = "import os; from ramify import Engine; Engine('walk.db').lock('report').__enter__(); os._exit(0)"
    subprocess.run([sys.executable, "-c", line], check=True)
    assert "which is dead: the next to ask gets the lock" in desk.out("locks")
    with engine.lock("report", wait=10):
        pass


def test_unlock_takes_a_lock_and_the_holder_is_told_who_and_why(desk: Desk, engine: Engine) -> None:
    with pytest.raises(LockLost, match="unlocked it: it hangs"), engine.lock("report") as held:
        told = desk.out("unlock", "report", "--reason", "it hangs")
        assert told.startswith(f"report: taken from process {os.getpid()} on ")
        assert told.endswith(f"(fence {held.fence})\n")
        with pytest.raises(LockLost, match=f"{person()} unlocked it: it hangs"):
            held.check()
    with engine.lock("report") as held:
        answer = desk.json("unlock", "report", "--reason", "again", "--by", "ann")
        assert answer == [{"lock": "report", "fences": [held.fence], "pids": [os.getpid()]}]
        with pytest.raises(LockLost, match="ann unlocked it: again"):
            held.release()


def test_unlock_of_what_nobody_holds_names_what_is_held(desk: Desk, engine: Engine) -> None:
    assert "expected a lock that is held. Held are: none" in desk.err("unlock", "report", "--reason", "x", code=2)
    with engine.lock("report"):
        assert "Held are: 'report'" in desk.err("unlock", "rapport", "--reason", "x", code=2)
    assert "--reason" in desk.err("unlock", "report", code=2)
