"""What keeps processes from writing."""

import os
from pathlib import Path

import pytest

from ramify.inspect.doctor import examine
from ramify.inspect.health import health_of
from ramify.inspect.held_up import LONG_WRITE, held_up
from ramify.model.process import Away, Process
from ramify.store.sqlite import SqliteStore


def process(**told: object) -> Process:
    return Process(1, 77, "here", 0, **{"beat_age": 0.0, "reaped": False, "last": 0, **told})  # type: ignore[arg-type]


def test_an_ordinary_write_is_in_nobodys_way() -> None:
    assert list(held_up([process(), process(writing=1.0)])) == []


def test_a_long_write_is_told_with_its_pid_and_for_how_long() -> None:
    (found,) = held_up([process(writing=45.0)])
    assert (found.pid, found.seconds) == (77, 45)
    assert found.text == "pid 77 has held the lock for writing for 45 s, and everybody waits for it"
    assert "kill -CONT" in found.advice
    assert LONG_WRITE < 45


def test_a_store_that_is_away_is_told_with_for_how_long_and_why() -> None:
    (found,) = held_up([process(away=Away(90.0, "the disk is full"))])
    assert found.text == "pid 77 has not been able to write for 90 s: the disk is full"


def test_the_dead_are_in_nobodys_way() -> None:
    assert list(held_up([process(beat_age=None, writing=9.0), process(reaped=True, away=Away(9.0, "full"))])) == []


def test_the_doctor_finds_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "walk.db")
    assert examine(store).healthy
    real = os.statvfs(tmp_path)
    full = os.statvfs_result((*real[:3], 0, 0, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    found = examine(store)
    assert not found.healthy
    assert any("the disk is full: 0.0 MB are free" in finding.text for finding in found.findings)
    assert [problem.about for problem in health_of(store).problems] == ["disk"]
    store.close()
