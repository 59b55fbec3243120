"""Somebody moves, removes, replaces or overwrites the files of a store that is open, with real processes on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreBroken, StoreRefused, StoreUnavailable
from ramify.model.process import NewProcess, new_process_id
from ramify.store.clock import SystemClock
from ramify.store.presence.liveness import Liveness
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import Child, one_table, output_of

#: Opens a store without a lock file, as a program does that only enqueues, and does what it is told.
PROGRAM = """
import sys
from ramify.errors import StoreError
from ramify.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
store.reserve(1)
print("open", flush=True)
while True:
    try:
        print(eval(input()), flush=True)
    except StoreError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""

#: Another program, which knows nothing of us: it puts a mark into the database, and is told that it is committed.
STRANGER = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.execute("UPDATE ids SET next = 4711")
print(db.execute("SELECT next FROM ids").get)
db.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "walk.db"


@pytest.fixture
def other(path: Path) -> Iterator[Child]:
    """Another process that has the store open."""
    with Child(PROGRAM, path) as child:
        assert child.hear() == "open"
        yield child


def answer(child: Child, line: str = "store.reserve(1)") -> str:
    """What a process answers."""
    child.say(line)
    return child.hear()


def checkpoint(path: Path) -> None:
    """Bring the log into the file, from this process, in which no store is open."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("SELECT 1 FROM sqlite_schema").fetchall()
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def beside(path: Path, end: str) -> Path:
    return Path(f"{path}{end}")


# the shared memory


def test_a_process_whose_shm_was_removed_acknowledges_nothing_more(path: Path, other: Child) -> None:
    beside(path, "-shm").unlink()
    for _ in range(2):
        assert answer(other).startswith(f"StoreBroken: {path}-shm was moved, replaced or deleted while it was open")


def test_a_process_whose_shm_was_replaced_acknowledges_nothing_more(path: Path, other: Child) -> None:
    beside(path, "-shm").unlink()
    assert output_of(STRANGER, path) == "4711"
    assert "-shm was moved, replaced or deleted" in answer(other)


def test_a_new_process_is_refused_while_another_has_the_shm_that_was_removed(path: Path, other: Child) -> None:
    beside(path, "-shm").unlink()
    for reading in (False, True):
        with pytest.raises(StoreRefused, match=rf"-shm was .* deleted while the store was open in process {other.pid}"):
            SqliteStore(path, reading=reading)
    assert not beside(path, "-shm").exists()
    other.kill()
    with closing(SqliteStore(path)) as store:
        assert store.reserve(1) == 2


def test_who_made_a_new_shm_and_left_does_not_let_the_next_one_in(path: Path, other: Child) -> None:
    beside(path, "-shm").unlink()
    assert output_of(STRANGER, path) == "4711"
    with pytest.raises(StoreRefused, match="-shm was"):
        SqliteStore(path)


def test_what_others_committed_beside_a_shm_that_was_removed_outlives_the_process_that_had_it(
    path: Path, other: Child
) -> None:
    beside(path, "-shm").unlink()
    assert output_of(STRANGER, path) == "4711"
    assert answer(other, "store.close()") == "None"
    with closing(SqliteStore(path)) as store:
        assert store.reserve(1) == 4711


def test_a_commit_is_not_acknowledged_when_the_shm_was_removed_before_its_end(path: Path) -> None:
    def remove() -> bool:
        beside(path, "-shm").unlink()
        return False

    link = Link(path, on_first_open=one_table)
    with closing(link), pytest.raises(StoreBroken, match="-shm"), link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
        assert isinstance(db, apsw.Connection)
        db.set_commit_hook(remove)


def test_a_second_store_of_a_process_has_the_shm_of_the_first(path: Path) -> None:
    with closing(SqliteStore(path)):
        beside(path, "-shm").unlink()
        assert output_of(STRANGER, path) == "4711"
        with pytest.raises(StoreBroken, match="-shm"):
            SqliteStore(path)


def test_a_store_that_nobody_closed_is_forgotten_with_its_shm(path: Path) -> None:
    for number in (1, 2):
        assert SqliteStore(path).reserve(1) == number
        assert not beside(path, "-shm").exists()


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_process_without_anything_to_write_learns_from_its_beat_that_a_file_is_gone(path: Path, end: str) -> None:
    process = new_process_id()
    with closing(SqliteStore(path)) as store:
        store.enter(NewProcess(process))
        beside(path, end).unlink()
        with pytest.raises(StoreBroken, match=end):
            store.beat(process)


# the content


def a_backup(path: Path, old: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.backup(old)


def a_plain_copy(path: Path, old: Path) -> None:
    shutil.copyfile(path, old)


@pytest.fixture(params=[a_backup, a_plain_copy])
def old(request: pytest.FixtureRequest, path: Path, tmp_path: Path) -> Path:
    """An old copy of the store."""
    take: Callable[[Path, Path], None] = request.param
    SqliteStore(path).close()
    take(path, tmp_path / "old.db")
    return tmp_path / "old.db"


def test_a_store_that_was_overwritten_is_refused_and_the_copy_stays_as_it_is(old: Path, path: Path) -> None:
    with Child(PROGRAM, path) as other:
        assert other.hear() == "open"
        checkpoint(path)
        assert answer(other) == "2"
        shutil.copyfile(old, path)
        for _ in range(2):
            assert answer(other).startswith(f"StoreBroken: {path} was overwritten while it was open")
        assert answer(other, "store.close()") == "None"
    assert path.read_bytes() == old.read_bytes()
    with pytest.raises(StoreRefused, match=r"was overwritten .* remove .*-wal, .*-shm, .*-overwritten and .*-live"):
        SqliteStore(path)
    for end in ("-wal", "-shm", "-overwritten"):
        beside(path, end).unlink()
    with closing(SqliteStore(path)) as store:
        assert store.reserve(1) == 1


def test_a_process_that_only_closes_leaves_the_copy_as_it_is(old: Path, path: Path) -> None:
    with Child(PROGRAM, path) as other:
        assert other.hear() == "open"
        checkpoint(path)
        assert answer(other) == "2"
        shutil.copyfile(old, path)
        assert answer(other, "store.close()") == "None"
    assert path.read_bytes() == old.read_bytes()


def test_a_store_with_a_log_that_a_kill_left_is_watched_from_the_start(old: Path, path: Path) -> None:
    for number in (1, 2):
        with Child(PROGRAM, path) as other:
            assert other.hear() == "open"
            if number == 2:
                shutil.copyfile(old, path)
                assert "was overwritten while it was open" in answer(other)


def test_a_process_that_came_after_the_copy_hears_of_it_from_one_that_was_there(old: Path, path: Path) -> None:
    with Child(PROGRAM, path) as other:
        assert other.hear() == "open"
        checkpoint(path)
        assert answer(other) == "2"
        shutil.copyfile(old, path)
        with Child(PROGRAM, path) as later:
            assert later.hear() == "open"
            assert "was overwritten" in answer(other)
            assert "was overwritten" in answer(later)


def test_an_idle_process_learns_from_its_beat_that_the_file_was_overwritten(old: Path, path: Path) -> None:
    enter = "from ramify.model.process import NewProcess\nstore.enter(NewProcess(7))\nprint"
    with Child(PROGRAM.replace("print", enter, 1), path) as other:
        assert other.hear() == "open"
        checkpoint(path)
        assert not answer(other, "store.beat(7)").startswith("Store")
        shutil.copyfile(old, path)
        assert "was overwritten" in answer(other, "store.beat(7)")


def a_touch(path: Path) -> None:
    path.touch()


def a_chmod(path: Path) -> None:
    path.chmod(0o640)


def a_stranger(path: Path) -> None:
    assert output_of(STRANGER, path) == "4711"
    checkpoint(path)


@pytest.mark.parametrize("event", [a_touch, a_chmod, checkpoint, a_stranger])
def test_what_leaves_the_content_as_it_should_be_is_not_taken_for_a_copy(
    path: Path, other: Child, event: Callable[[Path], None]
) -> None:
    for _ in range(3):
        event(path)
        assert answer(other).isdecimal()


def test_who_removes_an_overwritten_store_but_not_its_folder_begins_anew(old: Path, path: Path) -> None:
    with Child(PROGRAM, path) as other:
        assert other.hear() == "open"
        checkpoint(path)
        assert answer(other) == "2"
        shutil.copyfile(old, path)
        assert "was overwritten" in answer(other)
    for end in ("", "-wal", "-shm"):
        beside(path, end).unlink()
    SqliteStore(path).close()


# the folder


def test_a_folder_that_was_moved_away_is_waited_for(path: Path, other: Child) -> None:
    away = path.parent.with_name("away")
    for number in (2, 3):
        path.parent.rename(away)
        for _ in range(2):
            assert answer(other).startswith(f"StoreUnavailable: {path}: its folder was moved away")
        away.rename(path.parent)
        assert answer(other) == str(number)


def test_nobody_looks_dead_while_the_folder_is_away(path: Path) -> None:
    others = Liveness(beside(path, "-live"), SystemClock())
    with closing(SqliteStore(path)) as store:
        store.enter(NewProcess(1, pid=os.getpid()))
        path.parent.rename(path.parent.with_name("away"))
        with pytest.raises(StoreUnavailable):
            others.judge(2, 1, 60.0)
        with pytest.raises(StoreUnavailable):
            store.beat(1)
        path.parent.with_name("away").rename(path.parent)
        assert others.judge(2, 1, 60.0) is None
        store.beat(1)


def test_who_must_not_create_a_store_waits_for_its_folder(path: Path) -> None:
    SqliteStore(path).close()
    path.parent.rename(path.parent.with_name("away"))
    with pytest.raises(StoreUnavailable, match="was moved away"):
        SqliteStore(path, create=False)
    path.parent.mkdir()
    with pytest.raises(StoreBroken, match="was moved or deleted"):
        SqliteStore(path, create=False)


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def replaced(folder: Path) -> None:
    folder.rename(folder.with_name("before"))
    shutil.copytree(folder.with_name("before"), folder)


def without_its_file(folder: Path) -> None:
    folder.rename(folder.with_name("before"))
    (folder.with_name("before") / "walk.db").rename(folder.with_name("walk.db"))


@pytest.mark.parametrize("event", [removed, replaced, without_its_file])
def test_a_folder_that_is_not_the_same_any_more_is_not_waited_for(
    path: Path, other: Child, event: Callable[[Path], None]
) -> None:
    event(path.parent)
    assert answer(other).startswith(f"StoreBroken: {path} or its -wal was moved, replaced or deleted")
