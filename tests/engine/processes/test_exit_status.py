"""What a parent knows of the end of its child: real children, with records as workers write them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify.engine.processes.exit_status import OWN_DOING, ExitStatus
from ramify.kernel.core import pressure
from ramify.model.death import NOBODYS_FAULT, Death

PROCESS = 17
CHILD = """
import os, signal, sys, time
from pathlib import Path
from ramify.store.record import DEADLINE, MOST, SECOND, Record
record = Record(4)
record.begin(Path(sys.argv[1]), 17)
for task, limit in (101, None), (102, -3.0), (103, 60.0):
    slot = record.take()
    record.words[slot + MOST] = 5
    record.words[slot + DEADLINE] = 0 if limit is None else int((time.monotonic() + limit) * SECOND)
    record.words[slot] = task
"""
RAN = {101: 5, 102: 5, 103: 5}
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"

Count = Callable[[int], None]


def die(folder: Path, how: str) -> int:
    """A child that runs three tasks, the second of them over its time limit, and ends like this; its exit code."""
    program = [sys.executable, "-c", CHILD + how, str(folder)]
    return subprocess.run(program, stderr=subprocess.DEVNULL, check=False).returncode


@pytest.fixture
def killed_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """Say how often the kernel of the machine has killed for lack of memory."""
    file = tmp_path / "memory.events"

    def set_to(many: int) -> None:
        file.write_text(f"low 0\nhigh 12\noom 3\noom_kill {many}\n")

    set_to(2)
    monkeypatch.setattr(pressure, "_kill_counts", lambda: (tmp_path / "missing", file))
    return set_to


@pytest.mark.parametrize("code", [0, 1, 75])
def test_a_child_that_ended_itself_died_of_its_own_doing(code: int, tmp_path: Path) -> None:
    exit_status = ExitStatus(tmp_path)
    assert die(tmp_path, f"os._exit({code})") == code
    assert exit_status.death(PROCESS, code) == Death(RAN, evidence=True)


@pytest.mark.parametrize("number", sorted(OWN_DOING))
def test_a_signal_that_a_process_brings_on_itself_is_its_own_doing(number: int, tmp_path: Path) -> None:
    # What it leaves behind itself is taken away: its parent knows without.
    how = f"(Path(sys.argv[1]) / '{PROCESS:016x}.fault').unlink(); signal.signal({number}, 0)"
    code = die(tmp_path, f"{how}; import faulthandler; faulthandler.disable(); os.kill(os.getpid(), {number})")
    assert code == -number
    assert ExitStatus(tmp_path).death(PROCESS, code) == Death(RAN, evidence=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_kill_from_outside_is_no_evidence(number: int, killed_for_memory: Count, tmp_path: Path) -> None:
    exit_status = ExitStatus(tmp_path)
    code = die(tmp_path, f"os.kill(os.getpid(), {int(number)})")
    assert exit_status.death(PROCESS, code) == Death(RAN)


def test_a_child_that_was_killed_when_memory_ran_out_died_of_its_own_doing(
    killed_for_memory: Count, tmp_path: Path
) -> None:
    exit_status = ExitStatus(tmp_path)
    code = die(tmp_path, KILLED)
    assert not exit_status.is_out_of_memory(code)
    killed_for_memory(3)
    assert exit_status.is_out_of_memory(code)
    assert not exit_status.is_out_of_memory(-signal.SIGTERM)
    assert exit_status.death(PROCESS, code) == Death(RAN, evidence=True)


def test_memory_that_ran_out_before_its_last_sign_of_life_did_not_kill_it(
    killed_for_memory: Count, tmp_path: Path
) -> None:
    exit_status = ExitStatus(tmp_path)
    killed_for_memory(3)
    exit_status.beat()
    assert exit_status.death(PROCESS, die(tmp_path, KILLED)) == Death(RAN)


def test_where_nobody_counts_such_kills_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_kill_counts", lambda: ())
    assert not ExitStatus(tmp_path).is_out_of_memory(-signal.SIGKILL)


def test_a_child_that_we_killed_did_not_run_out_of_memory(killed_for_memory: Count, tmp_path: Path) -> None:
    exit_status = ExitStatus(tmp_path)
    exit_status.was_killed()
    killed_for_memory(3)
    assert exit_status.death(PROCESS, die(tmp_path, KILLED)) == Death(RAN)


def test_a_child_that_is_killed_over_a_late_task_died_of_that_and_of_nothing_else(
    killed_for_memory: Count, tmp_path: Path
) -> None:
    exit_status = ExitStatus(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", f"{CHILD}print(flush=True); signal.pause()", tmp_path], stdout=-1)
    assert child.stdout is not None
    with child.stdout as said:
        said.readline()
    assert exit_status.find_late(PROCESS) == 102
    os.kill(child.pid, signal.SIGKILL)
    killed_for_memory(3)
    assert exit_status.death(PROCESS, child.wait()) == Death({101: 5, 103: 5}, late=frozenset({102}))


def test_without_records_nobody_is_to_blame() -> None:
    exit_status = ExitStatus(None)
    assert exit_status.find_late(PROCESS) is None
    assert exit_status.death(PROCESS, 1) == NOBODYS_FAULT
