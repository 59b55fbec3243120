"""Trouble with the file: a full disk, I/O errors, damage, and files that are taken away. What is acknowledged stays."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreBroken, StoreRefused, StoreUnavailable
from ramify.store.sqlite.file import errors
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import one_table, with_own_mounts


class Disk(apsw.VFS):
    """SQLite's own file layer, which notes every sync and fails on demand."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "unix")
        self.name = name
        self.broken: set[str] = set()
        self.steps: list[str] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _DiskFile(self, name, flags)


class _DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self.disk = disk
        self.kind = "log" if flags[0] & apsw.SQLITE_OPEN_WAL else "database"

    def step(self, what: str) -> None:
        what = f"{what} {self.kind}"
        self.disk.steps.append(what)
        if what in self.disk.broken:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC if "sync" in what else apsw.SQLITE_IOERR_READ)

    def xSync(self, flags: int) -> None:
        self.step("sync")
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self.step("read")
        return super().xRead(amount, offset)


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    layer = Disk(f"disk of {request.node.name}")
    yield layer
    layer.unregister()


@pytest.fixture
def link(tmp_path: Path, disk: Disk) -> Iterator[Link]:
    with closing(Link(tmp_path / "a.db", on_first_open=one_table, vfs=disk.name)) as opened:
        yield opened


def put(link: Link, row: int) -> None:
    with link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (?)", (row,))


def rows_in(link: Link) -> list[int]:
    with link.read() as db:
        return [x for (x,) in db.execute("SELECT x FROM t ORDER BY x").fetchall()]


def test_a_failed_sync_in_commit_is_an_unknown_outcome_and_the_same_verb_can_be_sent_again(
    link: Link, disk: Disk
) -> None:
    put(link, 1)
    disk.broken = {"sync log"}
    with pytest.raises(StoreUnavailable, match="is not known, so send the same verb again"):
        put(link, 2)
    disk.broken.clear()
    with link.write() as db:
        db.execute("INSERT OR IGNORE INTO t (x) VALUES (2)")
    assert rows_in(link) == [1, 2]


def test_after_an_io_error_the_log_is_brought_into_the_database_before_anything_is_answered(
    link: Link, disk: Disk
) -> None:
    put(link, 1)
    # The database cannot be synced either, so the log survives the closing, with the doubtful commit in it.
    disk.broken = {"sync log", "sync database"}
    with pytest.raises(StoreUnavailable):
        put(link, 2)
    disk.broken.clear()
    disk.steps.clear()
    with link.write() as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(1,), (2,)]
        # Found in the log, it may still be only in the kernel's cache, in pages that it believes written.
        assert "sync database" in disk.steps


def test_while_the_disk_stays_broken_every_verb_is_refused_and_none_is_believed(link: Link, disk: Disk) -> None:
    put(link, 1)
    disk.broken = {"sync log", "sync database"}
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            put(link, 2)
    disk.broken.clear()
    with link.write() as db:
        db.execute("INSERT OR IGNORE INTO t (x) VALUES (3)")
    assert rows_in(link) in ([1, 3], [1, 2, 3])


def test_a_failed_read_is_unavailable_and_the_next_one_works(link: Link, disk: Disk) -> None:
    put(link, 1)
    disk.broken = {"read database", "read log"}
    with pytest.raises(StoreUnavailable, match="the disk reported an error"):
        rows_in(link)
    disk.broken.clear()
    assert rows_in(link) == [1]


def test_an_error_in_a_read_does_not_take_the_writers_connection_away_in_mid_transaction(
    link: Link, disk: Disk
) -> None:
    with link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
        disk.broken = {"read database", "read log"}
        with pytest.raises(StoreUnavailable):
            rows_in(link)
        disk.broken.clear()
        db.execute("INSERT INTO t (x) VALUES (2)")
    assert rows_in(link) == [1, 2]


FULL_DISK = """
import os, sys
from ramify.errors import StoreUnavailable
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import one_table
folder = sys.argv[1]
link = Link(f"{folder}/a.db", on_first_open=one_table)
with open(f"{folder}/filler", "wb") as filler:
    filler.write(bytes(2_000_000))
told, acknowledged = [], []
for row in range(400):
    try:
        with link.write() as db:
            db.execute("INSERT INTO t VALUES (?, ?)", (row, "x" * 20_000))
        acknowledged.append(row)
    except StoreUnavailable as error:
        told.append(str(error))
        with link.read() as db:
            assert [x for (x,) in db.execute("SELECT x FROM t ORDER BY x").fetchall()] == acknowledged
        if len(told) == 3:
            break
assert len(told) == 3, told
assert all("the disk is full" in text and "what was saved is safe" in text for text in told), told
os.unlink(f"{folder}/filler")
with link.write() as db:
    db.execute("INSERT INTO t VALUES (1000, 'after')")
link.close()
link = Link(f"{folder}/a.db", on_first_open=one_table)
with link.read() as db:
    assert [x for (x,) in db.execute("SELECT x FROM t ORDER BY x").fetchall()] == [*acknowledged, 1000]
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
print(len(acknowledged), "acknowledged")
"""


@pytest.mark.parametrize("kib", [4096, 4100, 5000])
def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(tmp_path: Path, kib: int) -> None:
    script = """
    mount -t tmpfs -o size="$3"k none "$2"
    exec "$1" -c "$4" "$2"
    """
    said = with_own_mounts(script, tmp_path, kib, FULL_DISK)
    assert said.endswith("acknowledged")
    assert int(said.split()[0]) > 5


def test_a_transaction_that_sqlite_rolled_back_by_itself_is_not_taken_for_committed(link: Link) -> None:
    with pytest.raises(StoreUnavailable, match="nothing was changed"), link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (1)")
        db.execute("ROLLBACK")
    assert rows_in(link) == []


@pytest.mark.parametrize("statement", ["SELECT nonsense", "INSERT INTO t (x) VALUES (1)", "COMMIT AND CHAIN"])
def test_no_exception_of_the_driver_crosses_the_seam(link: Link, statement: str) -> None:
    put(link, 1)
    with pytest.raises(StoreBroken, match="please report it") as caught, link.write() as db:
        db.execute("INSERT INTO t (x) VALUES (2)")
        db.execute(statement)
    assert isinstance(caught.value.__cause__, apsw.Error)
    assert rows_in(link) == [1]


def test_an_error_that_the_block_deals_with_itself_is_its_own_business(link: Link) -> None:
    put(link, 1)
    with link.write() as db:
        with pytest.raises(apsw.ConstraintError):
            db.execute("INSERT INTO t (x) VALUES (1)")
        db.execute("INSERT INTO t (x) VALUES (2)")
    assert rows_in(link) == [1, 2]


def test_a_damaged_file_is_broken_and_the_text_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(Link(path, on_first_open=one_table)) as link:
        put(link, 1)
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)
    with pytest.raises(StoreBroken, match=r"damaged.*-wal.*ramify doctor"):
        Link(path, on_first_open=one_table)


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_file_that_is_taken_away_stops_writers_before_they_lose_a_commit(
    tmp_path: Path, ending: str, replaced: bool
) -> None:
    link = Link(tmp_path / "a.db", on_first_open=one_table)
    put(link, 1)
    taken = Path(f"{link.path}{ending}")
    taken.rename(tmp_path / "away")
    if replaced:
        taken.touch(0o600)
    for _ in range(2):
        with pytest.raises(StoreBroken, match="moved, replaced or deleted"):
            put(link, 2)
    (tmp_path / "away").rename(taken)
    put(link, 3)
    assert rows_in(link) == [1, 3]
    link.close()


def test_a_file_that_is_gone_when_it_is_needed_again_is_broken(link: Link, disk: Disk, tmp_path: Path) -> None:
    disk.broken = {"sync log"}
    with pytest.raises(StoreUnavailable):
        put(link, 1)
    disk.broken.clear()
    os.rename(link.path, tmp_path / "away")
    with pytest.raises(StoreBroken, match="moved, replaced or deleted"):
        put(link, 1)
    os.rename(tmp_path / "away", link.path)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (apsw.SQLITE_BUSY, StoreUnavailable, "try again"),
        (apsw.SQLITE_LOCKED, StoreUnavailable, "try again"),
        (apsw.SQLITE_PROTOCOL, StoreUnavailable, "try again"),
        (apsw.SQLITE_FULL, StoreUnavailable, "disk is full"),
        (apsw.SQLITE_IOERR_WRITE, StoreUnavailable, "send the same verb again"),
        (apsw.SQLITE_CORRUPT, StoreBroken, "ramify doctor"),
        (apsw.SQLITE_NOTADB, StoreBroken, "ramify doctor"),
        (apsw.SQLITE_READONLY_DIRECTORY, StoreUnavailable, "permissions"),
        (apsw.SQLITE_CANTOPEN, StoreUnavailable, "cannot be opened"),
        (apsw.SQLITE_PERM, StoreUnavailable, "permissions"),
        (apsw.SQLITE_NOMEM, StoreUnavailable, "out of memory"),
        (apsw.SQLITE_INTERRUPT, StoreUnavailable, "interrupted"),
        (apsw.SQLITE_ERROR, StoreBroken, "report"),
        (apsw.SQLITE_MISUSE, StoreBroken, "report"),
    ],
)
def test_every_error_of_sqlite_has_a_meaning(code: int, kind: type[Exception], text: str) -> None:
    error = apsw.exception_for(code)
    assert isinstance(error, apsw.Error)
    meant = errors.explain(error, Path("a.db"))
    assert type(meant) is kind
    assert text in str(meant)
    assert "database is locked" not in str(meant)


def test_an_io_error_for_want_of_room_is_a_full_disk() -> None:
    error = apsw.exception_for(apsw.SQLITE_IOERR_SHMSIZE)
    assert isinstance(error, apsw.Error)
    assert "disk is full" in str(errors.explain(error, Path("a.db"), system_errno=28))


def test_a_store_that_cannot_keep_a_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreRefused, match="write-ahead log"):
        Link(tmp_path / "a.db", on_first_open=one_table, vfs="unix-dotfile")
