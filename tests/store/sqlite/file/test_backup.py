"""A copy is the store as it was at one moment, whoever works meanwhile; it opens as a store; it is whole or absent."""

import os
import resource
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreRefused, StoreUnavailable
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.death import NO_DEATHS
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore, schema
from ramify.store.sqlite.file import backup
from ramify.testing.oracle import check

TASKS = 3_000
EVERYTHING = Want(frozenset({"walk"}), 50)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "walk.db", durability="process")
    yield opened
    opened.close()


class Busy:
    """A process that ends tasks and adds as many, one commit after another, until it is told to stop."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.run = store.reserve(1)
        store.start(NewRun(self.run, order=Order.ANY), [NewTasks(store.reserve(TASKS), "walk", [b"[]" * 100] * TASKS)])
        self.process = new_process_id()
        store.enter(NewProcess(self.process))
        self.commits = 0
        self._n = 0
        self._enough = threading.Event()
        self._moved = threading.Condition()

    def __enter__(self) -> "Busy":
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def go_on(self) -> None:
        """Return once it has committed again."""
        with self._moved:
            before = self.commits
            assert self._moved.wait_for(lambda: self.commits > before, 60)

    def _stamp(self) -> Stamp:
        self._n += 1
        return Stamp(self.process, self._n)

    def _work(self) -> None:
        claims = self.store.claim(self._stamp(), EVERYTHING).claims
        while not self._enough.is_set():
            parts = [
                Part(c.token, c.tasks, children=[NewTasks(self.store.reserve(len(c.tasks)), "walk", list(c.bodies))])
                for c in claims
            ]
            claims = self.store.commit(self._stamp(), parts, EVERYTHING).claimed.claims
            with self._moved:
                self.commits += 1
                self._moved.notify_all()


def test_a_copy_taken_while_others_work_is_the_store_at_one_moment(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps of the copy somebody commits: without one snapshot for all steps it would be torn."""
    busy = Busy(store)
    monkeypatch.setattr(backup, "_PAGES", 20)
    real = apsw.Connection.backup
    steps = 0

    class Slow:
        """A backup during which others are seen to get on."""

        def __init__(self, backup: apsw.Backup) -> None:
            self._backup = backup

        def __enter__(self) -> "Slow":
            return self

        def __exit__(self, *_: object) -> None:
            self._backup.finish()

        @property
        def done(self) -> bool:
            return self._backup.done

        def step(self, pages: int) -> None:
            nonlocal steps
            steps += 1
            assert steps < 2_000, "it begins again and again"
            self._backup.step(pages)
            busy.go_on()

    class Connection(apsw.Connection):
        def backup(self, *args: object) -> Slow:  # type: ignore[override]
            return Slow(real(self, *args))  # type: ignore[arg-type]

    monkeypatch.setattr(apsw, "Connection", Connection)
    with busy:
        store.backup(tmp_path / "copy.db")
    monkeypatch.undo()
    assert steps > 5
    copy = SqliteStore(tmp_path / "copy.db")
    assert check(copy) == []
    unfinished = sum(len(row.tasks) for row in copy.reads.segments(run=busy.run, limit=10_000).rows)
    assert unfinished == TASKS
    last = copy.reads.tail(0, limit=10_000).after
    assert last < store.reads.tail(0, limit=10_000).after
    copy.close()


def test_a_copy_can_be_worked_on_and_knows_nobody_who_works_on_the_original(store: SqliteStore, tmp_path: Path) -> None:
    run = store.reserve(1)
    store.start(NewRun(run), [NewTasks(store.reserve(10), "walk", [b"[]"] * 10)])
    theirs, mine = new_process_id(), new_process_id()
    store.enter(NewProcess(theirs))
    assert store.claim(Stamp(theirs, 1), EVERYTHING).claims
    store.backup(tmp_path / "copy.db")
    copy = SqliteStore(tmp_path / "copy.db")
    copy.enter(NewProcess(mine))
    assert copy.reap(mine, 60).processes == (theirs,)
    (claim,) = copy.claim(Stamp(mine, 1), EVERYTHING).claims
    assert claim.deaths == NO_DEATHS
    copy.commit(Stamp(mine, 2), [Part(claim.token, claim.tasks)])
    assert copy.advance([(run, 0)])[0].state.is_end
    assert check(copy) == []
    assert not store.beat(theirs).reaped
    assert not store.reads.run(run).state.is_end
    copy.close()


def test_a_copy_is_the_same_store_unless_it_gets_an_id_of_its_own(store: SqliteStore, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    store.backup(tmp_path / "restored.db")
    store.backup(tmp_path / "staging.db", new_id=True)
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "restored.db", "staging.db"])
    restored, staging = SqliteStore(tmp_path / "restored.db"), SqliteStore(tmp_path / "staging.db")
    assert restored.id == store.id != staging.id
    staging.close()
    again = SqliteStore(tmp_path / "staging.db")
    assert again.id == staging.id
    for each in (again, restored):
        assert check(each) == []
        each.close()


def test_a_copy_that_cannot_get_its_id_leaves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    def fails(db: apsw.Connection) -> None:
        schema.give_new_id(db)
        raise apsw.FullError("the disk is full")

    before = sorted(os.listdir(tmp_path))
    with pytest.raises(StoreUnavailable, match="could not be written"), store._link.snapshot() as db:
        backup.copy(db, tmp_path / "copy.db", fails)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_copy_is_its_owners_alone(store: SqliteStore, tmp_path: Path) -> None:
    store.backup(tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600


def test_who_copies_does_not_hold_up_reads(store: SqliteStore, tmp_path: Path) -> None:
    with store._link.snapshot():
        store.reserve(1)
        assert store.reads.runs().rows == []


@pytest.mark.parametrize("target", ["walk.db", "walk.db-wal", "nowhere/copy.db"])
def test_a_copy_that_cannot_be_made_leaves_nothing(store: SqliteStore, tmp_path: Path, target: str) -> None:
    store.reserve(1)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises((StoreRefused, StoreUnavailable), match=r"exists|could not be written"):
        store.backup(tmp_path / target)
    assert sorted(os.listdir(tmp_path)) == before
    assert store.reserve(1) == 2


def test_a_name_that_is_taken_meanwhile_is_left_to_its_owner(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy.db"
    real = backup._sync

    def taken_meanwhile(path: str) -> None:
        target.write_bytes(b"mine")
        real(path)

    monkeypatch.setattr(backup, "_sync", taken_meanwhile)
    with pytest.raises(StoreRefused, match="exists"):
        store.backup(target)
    assert target.read_bytes() == b"mine"
    assert not list(tmp_path.glob("*.part"))


def test_a_copy_can_be_made_where_there_are_no_links(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    store.reserve(5)
    monkeypatch.setattr(os, "link", no_links)
    store.backup(tmp_path / "copy.db")
    with pytest.raises(StoreRefused, match="exists"):
        store.backup(tmp_path / "copy.db")
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.reserve(1) == 6
    copy.close()
    assert not list(tmp_path.glob("*.part"))


def test_a_copy_that_does_not_fit_leaves_nothing_and_the_store_goes_on(store: SqliteStore, tmp_path: Path) -> None:
    Busy(store)
    size = (tmp_path / "walk.db").stat().st_size + (tmp_path / "walk.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = sorted(os.listdir(tmp_path))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 8, hard))
    try:
        with pytest.raises(StoreUnavailable, match="could not be written"):
            store.backup(tmp_path / "copy.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(os.listdir(tmp_path)) == before
    assert store.reserve(1) > 0
    assert check(store) == []
