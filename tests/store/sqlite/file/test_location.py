"""The place of a database file: what is refused, what is created, and what is left alone."""

import os
import socket
import stat
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreRefused
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.file.link import Link
from ramify.store.sqlite.file.location import (
    check_live_folder,
    check_location,
    check_sqlite_version,
    file_system_type,
    make_live_folder,
)
from tests.store.sqlite.real import in_forked_child, output_of, with_own_mounts

TMPFS = 0x01021994
PROC = 0x9FA0


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_a_missing_file_is_created_for_its_owner_only_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    former = os.umask(mask)
    try:
        place = check_location(tmp_path / "new.db")
    finally:
        os.umask(former)
    assert mode_of(place) == 0o600
    assert place.read_bytes() == b""


def test_an_existing_file_keeps_its_mode_and_content(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(b"SQLite format 3\0 and more")
    path.chmod(0o640)
    check_location(path)
    assert mode_of(path) == 0o640
    assert path.read_bytes() == b"SQLite format 3\0 and more"


def test_the_path_comes_back_absolute_and_without_links_in_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert check_location("link/a.db") == Path(os.path.realpath(tmp_path)) / "real" / "a.db"


def test_the_kernel_says_what_a_file_system_is() -> None:
    assert file_system_type(Path("/proc")) == PROC


@pytest.mark.skipif(not Path("/dev/shm").is_mount(), reason="no tmpfs at /dev/shm")
def test_a_file_in_memory_is_accepted() -> None:
    path = Path(f"/dev/shm/ramify-test-{os.getpid()}.db")
    try:
        assert file_system_type(path.parent) == TMPFS
        assert check_location(path) == path
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0x6969, "NFS"),
        (0x517B, "SMB"),
        (0xFF534D42, "CIFS"),
        (0xFE534D42, "SMB2"),
        (0x01021997, "9p"),
        (0x65735546, "FUSE"),
        (0x00C36400, "Ceph"),
        (0x786F4256, "VirtualBox"),
    ],
)
def test_a_foreign_file_system_is_refused_by_name_with_advice(tmp_path: Path, number: int, name: str) -> None:
    with pytest.raises(StoreRefused, match=rf"is on {name}.*local disk.*postgresql://"):
        check_location(tmp_path / "a.db", fs_type=lambda _: number)
    assert not (tmp_path / "a.db").exists()


def test_the_file_itself_is_asked_and_not_only_its_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"a\.db is on NFS"):
        check_location(tmp_path / "a.db", fs_type=lambda path: 0x6969 if path.name == "a.db" else TMPFS)


def test_a_file_that_is_mounted_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.db").touch(0o600)
    program = """
import sys
from ramify.errors import StoreRefused
from ramify.store.sqlite.file.location import check_location
try:
    check_location(sys.argv[1])
except StoreRefused as refused:
    print(refused)
"""
    script = """
    python=$1; shift; touch "$2"
    mount --bind "$1" "$2"
    "$python" -c "$3" "$2"
    """
    said = with_own_mounts(script, tmp_path / "outside.db", tmp_path / "in side.db", program)
    assert "mounted as a single file" in said
    assert "mount its folder" in said


def test_a_symbolic_link_is_refused_with_the_real_path(tmp_path: Path) -> None:
    check_location(tmp_path / "real.db")
    (tmp_path / "a.db").symlink_to("real.db")
    with pytest.raises(StoreRefused, match=r"symbolic link.*real\.db"):
        check_location(tmp_path / "a.db")


def test_a_link_to_nowhere_is_refused_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "a.db").symlink_to("nowhere.db")
    with pytest.raises(StoreRefused, match="symbolic link"):
        check_location(tmp_path / "a.db")
    assert not (tmp_path / "nowhere.db").exists()


def test_a_file_with_two_names_is_refused(tmp_path: Path) -> None:
    place = check_location(tmp_path / "a.db")
    os.link(place, tmp_path / "b.db")
    with pytest.raises(StoreRefused, match="2 names"):
        check_location(place)


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777])
def test_a_file_that_everybody_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    place = check_location(tmp_path / "a.db")
    place.chmod(mode)
    with pytest.raises(StoreRefused, match="chmod o-w"):
        check_location(place)


def test_a_file_that_everybody_may_read_is_the_owners_choice(tmp_path: Path) -> None:
    place = check_location(tmp_path / "a.db")
    place.chmod(0o644)
    assert check_location(place) == place


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"is a folder.*ramify\.db"):
        check_location(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.db", 0o600)
    with pytest.raises(StoreRefused, match="not a regular file"):
        check_location(tmp_path / "a.db")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.db")
        Path("a.db").chmod(0o600)
        with pytest.raises(StoreRefused, match="not a regular file"):
            check_location("a.db")


def test_a_missing_folder_is_refused_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"Create .*no/such first"):
        check_location(tmp_path / "no" / "such" / "a.db")
    assert not (tmp_path / "no").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreRefused, match="folder"):
        check_location(tmp_path / "file" / "a.db")


@pytest.mark.parametrize("content", [b"hello, this is no database", b"SQLite", b"\0" * 4096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(StoreRefused, match="not a SQLite database"):
        check_location(path)
    assert path.read_bytes() == content


def test_the_remains_of_a_power_cut_in_the_first_write_are_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"\0" * 4096)
    (tmp_path / "a.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
    assert check_location(path) == path


@pytest.mark.parametrize("path", ["", ".", "a/..", "a\0b"])
def test_what_names_no_file_is_refused(path: str) -> None:
    with pytest.raises(StoreRefused, match="does not name a file"):
        check_location(path)


def test_a_path_longer_than_sqlite_takes_is_refused_and_the_longest_works(tmp_path: Path) -> None:
    folder = Path(os.path.realpath(tmp_path))
    while len(str(folder)) < 350:
        folder /= "x" * 40
    folder.mkdir(parents=True)
    longest = folder / ("y" * (503 - len(str(folder)) - 1))
    Link(longest).close()
    with pytest.raises(StoreRefused, match="504 bytes"):
        check_location(Path(f"{longest}y"))


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="UTF-8"):
        check_location(tmp_path / os.fsdecode(b"\xff.db"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_folder_or_file_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    shared = Path("/dev/shm") / f"ramify-test-{os.getpid()}"
    shared.mkdir(mode=0o755)
    try:
        (shared / "open").mkdir()
        (shared / "open").chmod(0o777)
        (shared / "open" / "a.db").touch(0o644)

        def as_nobody(path: Path) -> str:
            def do() -> str:
                os.setuid(65534)
                return str(check_location(path))

            return in_forked_child(do)

        assert "may not write this folder" in as_nobody(shared / "a.db")
        assert "may not write this file" in as_nobody(shared / "open" / "a.db")
    finally:
        (shared / "open" / "a.db").unlink()
        (shared / "open").rmdir()
        shared.rmdir()


def test_looking_at_a_live_file_again_does_not_drop_its_locks(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    link = Link(path, on_first_open=lambda db: None)
    with link.write() as db:
        db.execute("CREATE TABLE t (x)")
    assert check_location(path) == link.path
    # Another process that takes itself for the last one to close would remove the log.
    output_of(
        "import apsw, sys; db = apsw.Connection(sys.argv[1]); db.execute('SELECT * FROM t').fetchall(); db.close()",
        path,
    )
    assert Path(f"{path}-wal").exists()
    link.close()


def test_lock_files_get_a_folder_for_their_owner_only(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        make_live_folder(tmp_path / "a.db")
    finally:
        os.umask(former)
    assert mode_of(tmp_path / "a.db-live") == 0o700
    make_live_folder(tmp_path / "a.db")


def test_a_lock_folder_that_is_not_ours_alone_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a.db-live"
    make_live_folder(tmp_path / "a.db")
    folder.chmod(0o777)
    (tmp_path / "b.db-live").symlink_to(folder)
    for check in (make_live_folder, check_live_folder):
        with pytest.raises(StoreRefused, match="chmod o-w"):
            check(tmp_path / "a.db")
        with pytest.raises(StoreRefused, match="must be a folder"):
            check(tmp_path / "b.db")


def test_a_lock_folder_that_is_refused_is_refused_before_the_file_is_touched(tmp_path: Path) -> None:
    (tmp_path / "a.db-live").mkdir()
    (tmp_path / "a.db-live").chmod(0o777)
    with pytest.raises(StoreRefused, match="chmod o-w"):
        SqliteStore(tmp_path / "a.db")
    assert (tmp_path / "a.db").stat().st_size == 0


def test_beside_a_database_of_another_program_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "firefox.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE t (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="another program"):
        SqliteStore(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.50.7", "3.51.2"])
def test_an_old_sqlite_is_refused(version: str) -> None:
    with pytest.raises(StoreRefused, match=rf"SQLite {version}.*3\.51\.3 or newer.*apsw"):
        check_sqlite_version(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.54.1", "4.0.0", apsw.sqlite_lib_version()])
def test_a_current_sqlite_is_accepted(version: str) -> None:
    check_sqlite_version(version)


def test_every_link_checks_the_version_it_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(StoreRefused, match="WAL-reset"):
        Link(tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()
