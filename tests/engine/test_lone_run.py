"""A run of one task costs few transactions, and no thread that it does not need."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, current_thread
from threading import enumerate as all_threads
from typing import Any

import pytest

from ramify import Engine, Tasks
from ramify.engine.processes import housekeeping
from ramify.engine.processes.housekeeping import Housekeeping
from ramify.kernel.signals import Saved, Signal, Took
from ramify.model.process import NewProcess, new_process_id
from ramify.store.sqlite.file.db import Db
from ramify.store.sqlite.file.link import Link

#: Ids, the run, the session, claim, commit, end and leaving are a write each; before them it looks whether the run is
#: there, and claim and commit read what came of them.
MOST = 10
LONG = 30.0

here = Tasks()


@here.task
def one(number: int) -> int:
    return number


def asked_by() -> str:
    """The functions that led to a transaction, the innermost first."""
    frames = [frame for frame in traceback.extract_stack() if "/ramify/" in frame.filename]
    return " < ".join(f"{Path(frame.filename).stem}.{frame.name}" for frame in reversed(frames[-6:]))


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every transaction of every store from here on, as who asked for it."""
    counted: list[str] = []
    write, read = Link.write, Link.read

    @contextmanager
    def writing(link: Link) -> Iterator[Db]:
        counted.append(f"write  {asked_by()}")
        with write(link) as db:
            yield db

    @contextmanager
    def reading(link: Link) -> Iterator[Db]:
        counted.append(f"read   {asked_by()}")
        with read(link) as db:
            yield db

    monkeypatch.setattr(Link, "write", writing)
    monkeypatch.setattr(Link, "read", reading)
    return counted


@pytest.mark.parametrize("given", [{}, {"threads": 0}, {"name": "lone"}], ids=["plain", "inline", "named"])
def test_a_lone_run_makes_few_transactions(tmp_path: Path, transactions: list[str], given: dict[str, Any]) -> None:
    lists: list[list[str]] = []
    # The best of three: a thread that was kept waiting by a busy machine looks once more.
    for number in range(3):
        transactions.clear()
        engine = Engine(tmp_path / f"lone{number}.db", include=[here])
        run = engine.run(one.of(7), **given)
        lists.append(list(transactions))
        assert list(run.results()) == [7]
        engine.close()
    made = min(lists, key=len)
    assert len(made) <= MOST, f"{len(made)} transactions:\n" + "\n".join(made)


def test_who_is_not_alone_looks_for_the_dead_before_it_claims(tmp_path: Path, transactions: list[str]) -> None:
    engine = Engine(tmp_path / "shared.db", include=[here])
    engine._runtime.store.enter(NewProcess(new_process_id()))
    engine.run(one.of(7))
    engine.close()
    assert any("heartbeat.reap" in each for each in transactions)


class Kept:
    """Housekeeping with a clock in the hands of the test, and what it passed on, from which thread."""

    def __init__(self) -> None:
        self.now = 0.0
        self.heard: list[tuple[str, Signal]] = []
        self.came, self.go_on = Event(), Event()
        self.go_on.set()
        self.keeping = Housekeeping(clock=lambda: self.now)
        self.keeping.listen(self._hear)

    def _hear(self, signal: Signal) -> None:
        self.heard.append((current_thread().name, signal))
        self.came.set()
        assert self.go_on.wait(LONG)


def keepers() -> list[Thread]:
    return [each for each in all_threads() if each.name == "ramify-housekeeping"]


def test_housekeeping_begins_when_a_kernel_has_worked_for_a_moment_and_in_another_thread() -> None:
    kept = Kept()
    kept.keeping(Took(1))
    kept.now = housekeeping.FIRST / 2
    kept.keeping(Saved(1, 0, 0, 0.1))
    assert keepers() == []
    kept.now = housekeeping.FIRST
    kept.keeping(Took(0))
    assert kept.came.wait(LONG)
    kept.keeping.stop()
    assert kept.heard == [("ramify-housekeeping", Took(0))]
    assert keepers() == []


def test_who_hands_out_work_never_waits_for_housekeeping_and_a_stop_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "LAST", 0.01)
    kept = Kept()
    kept.now = housekeeping.FIRST
    kept.go_on.clear()
    kept.keeping(Took(1))
    assert kept.came.wait(LONG)
    for number in range(100):
        kept.keeping(Took(number))
    kept.keeping.stop()
    (left,) = keepers()
    kept.go_on.set()
    left.join(LONG)
    assert kept.heard == [("ramify-housekeeping", Took(1))]


def test_a_kernel_ends_its_housekeeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "FIRST", 0.0)
    began: list[bool] = []
    engine = Engine(tmp_path / "long.db", include=[here])
    engine.listen(lambda signal: began.append(bool(keepers())))
    engine.run(one.of(7))
    assert any(began)
    assert keepers() == []
    engine.close()
