"""The record of what a process runs: written by a process that is then killed, read by another."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from ramify.model.death import NOBODYS_FAULT, Death
from ramify.model.decision import Said
from ramify.model.process import NewProcess
from ramify.store import record as records
from ramify.store.record import DEADLINE, MOST, SECOND, Record, death_of, excuse, overdue
from ramify.store.sqlite import SqliteStore

PROCESS = 17
BEGIN = """
import faulthandler, os, signal, sys, time
from pathlib import Path
from ramify.store.record import DEADLINE, MOST, SECOND, Record
record = Record(4)
record.begin(Path(sys.argv[1]), 17)
words, slot = record.words, record.take()
words[slot + MOST] = 5
words[slot] = 101
"""


def die(folder: Path, how: str) -> int:
    """A process that runs task 101 and ends like this; its exit code."""
    program = BEGIN + textwrap.dedent(how)
    return subprocess.run([sys.executable, "-c", program, folder], stderr=subprocess.DEVNULL).returncode


def test_what_ran_is_told_after_a_kill_which_is_no_evidence(tmp_path: Path) -> None:
    assert die(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)") == -signal.SIGKILL
    assert death_of(tmp_path, PROCESS) == Death({101: 5})


@pytest.mark.parametrize("number", ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"])
def test_a_fatal_signal_is_evidence_without_a_parent(number: str, tmp_path: Path) -> None:
    assert die(tmp_path, f"os.kill(os.getpid(), signal.{number})") == -getattr(signal, number)
    assert death_of(tmp_path, PROCESS) == Death({101: 5}, evidence=True)


def test_a_program_that_uses_faulthandler_for_itself_keeps_it(tmp_path: Path) -> None:
    program = "import faulthandler; faulthandler.enable()\n" + BEGIN + "os.kill(os.getpid(), signal.SIGSEGV)"
    died = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
    assert "Fatal Python error: Segmentation fault" in died.stderr
    assert death_of(tmp_path, PROCESS) == Death({101: 5})


def test_a_process_that_was_asked_to_stop_is_nobodys_fault(tmp_path: Path) -> None:
    die(tmp_path, "record.stopping(); os.kill(os.getpid(), signal.SIGSEGV)")
    assert death_of(tmp_path, PROCESS, evidence=True) == NOBODYS_FAULT


def test_a_process_that_was_ended_by_who_asked_it_to_stop_is_nobodys_fault(tmp_path: Path) -> None:
    die(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    excuse(tmp_path, PROCESS)
    assert death_of(tmp_path, PROCESS) == NOBODYS_FAULT


def test_an_excuse_for_a_process_without_a_record_leaves_none(tmp_path: Path) -> None:
    excuse(tmp_path, PROCESS)
    assert list(tmp_path.iterdir()) == []


def test_without_a_record_it_is_nobodys_fault(tmp_path: Path) -> None:
    assert death_of(tmp_path, PROCESS, evidence=True) == NOBODYS_FAULT
    assert overdue(tmp_path, PROCESS, 0.0) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(64), b"\xff" * 333])
def test_a_damaged_record_is_no_record(content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"{PROCESS:016x}.record").write_bytes(content)
    assert death_of(tmp_path, PROCESS, evidence=True) == NOBODYS_FAULT


def test_a_task_that_returned_is_not_told(tmp_path: Path) -> None:
    die(tmp_path, "words[slot] = 0; record.give(slot); os.kill(os.getpid(), signal.SIGKILL)")
    assert death_of(tmp_path, PROCESS, evidence=True) == Death(evidence=True)


def test_without_a_limit_a_task_is_never_to_blame(tmp_path: Path) -> None:
    die(tmp_path, "words[slot + MOST] = 0; os.kill(os.getpid(), signal.SIGKILL)")
    assert death_of(tmp_path, PROCESS) == Death({101: None})


def test_a_forked_child_writes_no_record_and_its_crash_is_its_own(tmp_path: Path) -> None:
    die(
        tmp_path,
        """
        if os.fork() == 0:
            words = record.words
            words[record.take()] = 102
            record.stopping()
            os.kill(os.getpid(), signal.SIGSEGV)
        os.wait()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert death_of(tmp_path, PROCESS) == Death({101: 5})


def test_what_is_over_its_time_limit_is_told(tmp_path: Path) -> None:
    die(
        tmp_path,
        """
        words[slot + DEADLINE] = int((time.monotonic() - 3) * SECOND)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert overdue(tmp_path, PROCESS, 1.0) == 101
    assert overdue(tmp_path, PROCESS, 60.0) is None


def test_a_process_that_stops_reads_as_draining_until_it_has_left(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "a.db")) as store:
        store.enter(NewProcess(PROCESS, os.getpid(), "host"))
        record = Record(2)
        record.begin(store.records, PROCESS)
        assert store.reads.processes()[0].draining is None
        record.stopping()
        assert store.reads.processes()[0].draining == Said("it is stopping")
        record.end()


def test_who_leaves_takes_its_record_along(tmp_path: Path) -> None:
    record = Record(2)
    record.begin(tmp_path, PROCESS)
    assert {path.suffix for path in tmp_path.iterdir()} >= {".record"}
    record.end()
    assert list(tmp_path.iterdir()) == []


def test_slots_in_use_go_on_when_a_process_begins_anew(tmp_path: Path) -> None:
    record = Record(2)
    record.begin(tmp_path, PROCESS)
    words, slot = record.words, record.take()
    record.begin(tmp_path, PROCESS + 1)
    words[slot] = 101
    record.words[record.take()] = 102
    assert death_of(tmp_path, PROCESS + 1) == Death({102: None})
    record.give(slot)
    record.end()


def test_who_finds_no_slot_is_not_told_about_and_disturbs_nobody(tmp_path: Path) -> None:
    record = Record(1)
    record.begin(tmp_path, PROCESS)
    first, spare, another = record.take(), record.take(), record.take()
    for slot, task in ((first, 101), (spare, 102), (another, 103)):
        record.words[slot] = task
        record.words[slot + MOST], record.words[slot + DEADLINE] = 5, SECOND
    assert death_of(tmp_path, PROCESS) == Death({101: 5})
    for slot in (first, spare, another):
        record.give(slot)
    assert record.take() == first
    assert record.take() == spare
    record.end()


def test_without_room_on_the_disk_there_is_no_record_and_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", full)
    record = Record(1)
    record.begin(tmp_path, PROCESS)
    record.words[record.take()] = 101
    assert list(tmp_path.iterdir()) == []
    record.end()


def test_the_file_has_its_room_before_anything_is_written_to_it(tmp_path: Path) -> None:
    """A store into a hole of a file is a fatal signal when the disk is full."""
    record = Record(1_000)
    record.begin(tmp_path, PROCESS)
    (path,) = tmp_path.glob(f"*{records.RECORD}")
    assert path.stat().st_blocks * 512 >= path.stat().st_size
    record.end()
