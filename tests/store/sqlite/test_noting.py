"""A store whose log was taken away is refused, and nothing else is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreBroken, StoreRefused
from ramify.model.claim import Want
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore
from tests.store.sqlite.real import Child

#: Enters, claims and commits, and waits to be killed; what it did is in the log beside the file.
WORKER = """
import os, sys
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
process, run = new_process_id(), store.reserve(1)
store.enter(NewProcess(process, pid=os.getpid()))
store.start(NewRun(run, name="walk"), [NewTasks(store.reserve(3), "walk", [b"[]"] * 3)])
(claim,) = store.claim(Stamp(process, 1), Want(frozenset({"walk"}), 3)).claims
print("claimed", flush=True)
input()
store.commit(Stamp(process, 2), [Part(claim.token, claim.tasks, Status.DONE)])
print("committed", flush=True)
while True:
    exec(input())
    print("did it", flush=True)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store whose only process was killed after a commit."""
    path = tmp_path / "walk.db"
    with Child(WORKER, path) as worker:
        assert worker.hear() == "claimed"
        worker.say()
        assert worker.hear() == "committed"
    assert path.with_name("walk.db-wal").stat().st_size
    return path


def counts(path: Path) -> int:
    """How many tasks are done."""
    store = SqliteStore(path)
    try:
        (run,) = store.reads.runs().rows
        return store.reads.counts(run.id)["walk"].get(Status.DONE, 0)
    finally:
        store.close()


def remove(path: Path, *ends: str) -> None:
    for end in ends:
        Path(f"{path}{end}").unlink()


def test_a_store_whose_log_was_removed_is_refused_with_what_to_do(killed: Path) -> None:
    remove(killed, "-wal", "-shm")
    before = killed.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreRefused, match=r"lacks commits that process .* number 2; .*-wal was removed.*-live"):
            SqliteStore(killed)
    assert killed.read_bytes() == before
    shutil.rmtree(f"{killed}-live")
    store = SqliteStore(killed)
    assert store.reads.runs().rows == []
    store.close()


def test_a_log_that_was_removed_after_a_part_of_it_was_in_the_file_is_missed_too(tmp_path: Path) -> None:
    path = tmp_path / "walk.db"
    with Child(WORKER, path) as worker:
        assert worker.hear() == "claimed"
        db = apsw.Connection(str(path))
        db.execute("SELECT * FROM run").fetchall()
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        db.close()
        worker.say()
        assert worker.hear() == "committed"
    remove(path, "-wal", "-shm")
    with pytest.raises(StoreRefused, match="has made, the last of them number 2; the file knows 1"):
        SqliteStore(path)


def test_a_new_process_is_refused_while_another_still_has_the_log_that_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "walk.db"
    with Child(WORKER, path) as worker:
        assert worker.hear() == "claimed"
        remove(path, "-wal", "-shm")
        with pytest.raises(StoreRefused, match=rf"open in process {worker.pid}\. .* the last commits are missing"):
            SqliteStore(path)


def nothing(path: Path) -> None:
    """Killed, and started again."""


def a_look(path: Path) -> None:
    """Somebody looks with another program, which brings the log into the file and removes it."""
    db = apsw.Connection(str(path))
    db.execute("SELECT * FROM run").fetchall()
    db.close()
    assert not Path(f"{path}-wal").exists()


def an_orderly_visit(path: Path) -> None:
    """A command of ours looks."""
    SqliteStore(path).close()
    assert not Path(f"{path}-wal").exists()


@pytest.mark.parametrize("event", [nothing, a_look, an_orderly_visit])
def test_what_happens_every_day_is_not_refused(killed: Path, event: Callable[[Path], None]) -> None:
    event(killed)
    assert counts(killed) == 3


def test_a_copy_and_a_backup_open_without_a_log(killed: Path, tmp_path: Path) -> None:
    store = SqliteStore(killed)
    store.backup(tmp_path / "backup.db")
    store.close()
    shutil.copy(killed, tmp_path / "copy.db")
    for name in ("backup.db", "copy.db"):
        assert counts(tmp_path / name) == 3


def test_a_machine_that_was_restarted_is_not_asked_for_what_its_memory_held(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(killed, "-wal", "-shm")
    monkeypatch.setattr("ramify.store.presence.liveness.this_boot", lambda: "another boot")
    SqliteStore(killed).close()


def test_who_removes_a_store_but_not_its_folder_begins_anew(killed: Path) -> None:
    remove(killed, "", "-wal", "-shm")
    SqliteStore(killed).close()
    assert list(Path(f"{killed}-live").glob("*.lock")) == []


def test_a_file_that_is_gone_while_its_log_is_there_is_not_begun_anew(killed: Path) -> None:
    remove(killed, "")
    with pytest.raises(StoreRefused, match=r"is gone, and its write-ahead log is still there.*restore a backup"):
        SqliteStore(killed)
    assert not killed.exists()
    assert Path(f"{killed}-wal").stat().st_size


@pytest.mark.parametrize("log", ["with its log", "without"])
def test_a_file_that_is_gone_is_not_begun_anew_while_a_process_has_it_open(tmp_path: Path, log: str) -> None:
    path = tmp_path / "walk.db"
    with Child(WORKER, path) as worker:
        assert worker.hear() == "claimed"
        remove(path, "", *(["-wal", "-shm"] if log == "without" else []))
        pid = worker.pid
        with pytest.raises(
            StoreRefused, match=rf"deleted while it was open in process {pid}\. Stop process {pid} first"
        ):
            SqliteStore(path)
        assert not path.exists()
        path.touch(0o600)
        with pytest.raises(StoreRefused, match=rf"is empty.*Stop process {pid} first\. Put the file back"):
            SqliteStore(path)
        path.unlink()
    if log == "with its log":
        remove(path, "-wal", "-shm")
    SqliteStore(path).close()


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_process_without_anything_to_write_learns_from_its_beat_that_the_file_is_gone(
    tmp_path: Path, replaced: bool
) -> None:
    path, process = tmp_path / "walk.db", new_process_id()
    store = SqliteStore(path)
    store.enter(NewProcess(process))
    remove(path, "", "-wal", "-shm")
    shutil.rmtree(f"{path}-live")
    if replaced:
        SqliteStore(path).close()
    with pytest.raises(StoreBroken, match="moved, replaced or deleted"):
        store.beat(process)
    assert not list(Path(f"{path}-live").glob("*.lock"))
    store.close()


@pytest.mark.parametrize("log", ["with its log", "without"])
def test_a_file_that_was_emptied_is_refused(killed: Path, log: str) -> None:
    os.truncate(killed, 0)
    if log == "without":
        remove(killed, "-wal", "-shm")
    with pytest.raises(StoreRefused, match="is empty, although it was a store"):
        SqliteStore(killed)
    assert killed.stat().st_size == 0


def test_a_new_file_has_its_tables_in_itself_at_once(tmp_path: Path) -> None:
    program = """
    import sys
    from ramify.store.sqlite import SqliteStore
    store = SqliteStore(sys.argv[1])
    print("open", flush=True)
    input()
    """
    with Child(program, tmp_path / "new.db") as other:
        assert other.hear() == "open"
        shutil.copy(tmp_path / "new.db", tmp_path / "copy.db")
    db = apsw.Connection(str(tmp_path / "copy.db"))
    assert db.execute("SELECT count(*) FROM run").fetchall() == [(0,)]
    db.close()


def test_a_verb_that_could_not_be_committed_is_not_noted(tmp_path: Path) -> None:
    """It is carried out, the commit fails, and the process is killed: nothing is missing then."""
    path = tmp_path / "walk.db"
    failing = """
def fail(*args):
    from ramify.errors import StoreUnavailable
    store._noting.outcome("the disk is full")
    raise StoreUnavailable("the disk is full")
store._link._commit = fail
"""
    with Child(WORKER.replace('print("claimed", flush=True)\ninput()', failing), path) as worker:
        assert worker.end() != 0
    assert counts(path) == 0


def noted(store: SqliteStore) -> dict[int, int]:
    """The number of the last verb of each process, as its lock file has it; 0 is not told."""
    return {process: told.number for process, told in store._liveness.committed().items()}


def work(store: SqliteStore, process: int, number: int) -> None:
    """A claim of one task."""
    run = store.reserve(1)
    store.start(NewRun(run), [NewTasks(store.reserve(1), "walk", [b"[]"])])
    assert store.claim(Stamp(process, number), Want(frozenset({"walk"}), 1)).claims


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store through which processes 1 and 2 have entered."""
    store = SqliteStore(tmp_path / "walk.db")
    store.enter(NewProcess(1, pid=os.getpid()))
    store.enter(NewProcess(2, pid=os.getpid()))
    yield store
    store.close()


def claim_while(shared: SqliteStore, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Claim a task as process 1, in its third verb, and do something else before that is committed."""
    commit = shared._link._commit

    def commit_after(db: apsw.Connection) -> None:
        monkeypatch.undo()
        meanwhile()
        commit(db)

    run = shared.reserve(1)
    shared.start(NewRun(run), [NewTasks(shared.reserve(1), "walk", [b"[]"])])
    monkeypatch.setattr(shared._link, "_commit", commit_after)
    assert shared.claim(Stamp(1, 3), Want(frozenset({"walk"}), 1)).claims


def test_each_of_two_processes_in_a_program_notes_its_own_verbs(shared: SqliteStore) -> None:
    work(shared, 1, 3)
    assert noted(shared) == {1: 3}
    work(shared, 2, 8)
    assert noted(shared) == {1: 3, 2: 8}


def test_who_is_left_alone_in_a_program_notes_its_verbs(shared: SqliteStore) -> None:
    shared.leave(2)
    work(shared, 1, 3)
    assert noted(shared) == {1: 3}


def test_a_verb_is_not_that_of_a_process_that_enters_before_it_is_committed(
    shared: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def somebody_comes() -> None:
        shared._liveness.enter(3, os.getpid())
        shared._noting.entered(3)

    claim_while(shared, monkeypatch, somebody_comes)
    assert noted(shared) == {1: 3}


def test_a_look_that_finds_nothing_notes_no_verb_that_is_being_committed(
    shared: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def somebody_looks() -> None:
        shared._idle = True
        with ThreadPoolExecutor(1) as other:
            assert not other.submit(shared.claim, Stamp(2, 1), Want(frozenset({"other"}), 1)).result().claims
        shared._liveness.beat(1)
        assert noted(shared) == {}

    claim_while(shared, monkeypatch, somebody_looks)
    assert noted(shared) == {1: 3}
