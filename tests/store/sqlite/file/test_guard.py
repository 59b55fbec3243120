"""The guard of live files: no second descriptor of a database that a store of this process has open."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ramify.errors import StoreRefused
from ramify.store.sqlite.file.guard import LiveFile, guard
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import in_forked_child, one_table, output_of


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """A database that a store of this process has open."""
    with closing(Link(tmp_path / "live.db", on_first_open=one_table)) as link:
        yield link.path


@pytest.mark.parametrize(
    "named",
    [
        str,
        os.fsencode,
        Path,
        os.path.relpath,
        lambda path: f"{path.parent}/../{path.parent.name}/{path.name}",
    ],
    ids=["text", "bytes", "a path", "relative", "dotted"],
)
def test_connecting_to_a_live_file_is_refused(live: Path, named: Callable[[Path], str]) -> None:
    with pytest.raises(LiveFile, match=r"run\.sql.*ramify backup"):
        sqlite3.connect(named(live))


@pytest.mark.parametrize(
    "uri",
    [
        "file:{path}",
        "file://{path}",
        "file://localhost{path}",
        "file:{path}?mode=ro",
        "file:{path}?immutable=1#part",
        "file:{folder}/live%2Edb",
        "file:live.db",
    ],
)
def test_connecting_by_uri_is_refused(live: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(live.parent)
    with pytest.raises(LiveFile):
        sqlite3.connect(uri.format(path=live, folder=live.parent), uri=True)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_connecting_under_another_name_is_refused(live: Path, link: Callable[[Path, Path], None]) -> None:
    other = live.with_name("other")
    link(live, other)
    with pytest.raises(LiveFile):
        sqlite3.connect(other)
    other.unlink()


def test_other_databases_are_nobodys_business(live: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for database in (":memory:", "", tmp_path / "other.db", tmp_path / "elsewhere" / "live.db"):
        sqlite3.connect(database).close()
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect("file:/no/such/file.db?mode=ro", uri=True)
    with pytest.raises(TypeError):
        sqlite3.connect(3.5)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "touch",
    [
        lambda path: path.read_bytes(),
        lambda path: os.open(os.fsencode(path), os.O_RDONLY),
        lambda path: os.open(path, os.O_RDONLY),
        lambda path: shutil.copy(path, f"{path}.copy"),
    ],
    ids=["read", "os.open bytes", "os.open", "copy"],
)
@pytest.mark.parametrize("ending", ["", "-shm"])
def test_opening_a_live_file_is_refused(live: Path, ending: str, touch: Callable[[Path], object]) -> None:
    with pytest.raises(LiveFile, match=r"run\.sql.*ramify backup"):
        touch(Path(f"{live}{ending}"))


def test_opening_it_through_a_link_of_the_same_name_is_refused(live: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "live.db").symlink_to(live)
    with pytest.raises(LiveFile):
        (tmp_path / "elsewhere" / "live.db").read_bytes()


def test_other_files_open_as_ever(live: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("elsewhere/live.db", "xlive.db", "elsewhere/live.db-shm", "live.db-note"):
        (tmp_path / name).write_text("mine")
        assert (tmp_path / name).read_text() == "mine"
    assert Path(f"{live}-wal").read_bytes()
    with pytest.raises(FileNotFoundError):
        (tmp_path / "nowhere" / "live.db").read_bytes()


def test_a_descriptor_that_cannot_be_read_through_is_harmless(live: Path) -> None:
    os.close(os.open(live, os.O_PATH))


def test_a_walker_that_skips_what_it_may_not_read_goes_on(live: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    read = []
    for name in os.listdir(tmp_path):
        try:
            read.append((tmp_path / name).read_bytes())
        except OSError:
            continue
    assert b"a" in read


def test_the_refusal_is_one_of_the_stores(live: Path) -> None:
    with pytest.raises(StoreRefused, match="sqlite3"):
        sqlite3.connect(live)


def test_a_closed_store_gives_its_file_free(tmp_path: Path) -> None:
    Link(tmp_path / "live.db", on_first_open=one_table).close()
    assert (tmp_path / "live.db").read_bytes()
    sqlite3.connect(tmp_path / "live.db").close()


def test_a_store_that_was_dropped_without_a_close_gives_its_file_free(tmp_path: Path) -> None:
    Link(tmp_path / "live.db", on_first_open=one_table)
    assert (tmp_path / "live.db").read_bytes()


def test_a_store_that_failed_to_open_gives_its_file_free(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise StoreRefused("not ours")

    with pytest.raises(StoreRefused, match="not ours"):
        Link(tmp_path / "live.db", on_first_open=refuse)
    assert (tmp_path / "live.db").read_bytes()


def test_a_file_is_live_until_its_last_store_is_closed(live: Path) -> None:
    second = Link(live, on_first_open=one_table)
    second.close()
    with pytest.raises(LiveFile):
        sqlite3.connect(live)


def test_another_process_may_connect_and_the_log_stays(live: Path) -> None:
    program = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); print(*db.execute('SELECT 42').fetchone()); db.close()"
    )
    assert output_of(program, live) == "42"
    assert Path(f"{live}-wal").exists()


def test_a_forked_child_may_not_open_the_file_again(live: Path) -> None:
    answer = in_forked_child(lambda: str(Link(live).path))
    assert answer.startswith("StoreRefused")
    assert "forked" in answer
    assert "spawn" in answer


def test_a_forked_child_of_a_forked_child_may_not_either(live: Path) -> None:
    assert in_forked_child(lambda: in_forked_child(lambda: str(Link(live).path))).startswith("StoreRefused")


def test_a_forked_child_may_look_at_the_file_in_other_ways(live: Path) -> None:
    def look() -> str:
        with closing(sqlite3.connect(live)) as db:
            return f"{len(live.read_bytes())} {db.execute('SELECT 42').fetchone()}"

    assert in_forked_child(look).endswith("(42,)")


def test_a_file_that_was_closed_before_the_fork_may_be_opened_in_the_child(tmp_path: Path) -> None:
    Link(tmp_path / "a.db", on_first_open=one_table).close()

    def write() -> str:
        with closing(Link(tmp_path / "a.db", on_first_open=one_table)) as link, link.write() as db:
            db.execute("INSERT INTO t VALUES (1, 'child')")
        return "written"

    assert in_forked_child(write) == "written"
    with closing(Link(tmp_path / "a.db", on_first_open=one_table)) as link, link.read() as db:
        assert db.execute("SELECT who FROM t").fetchall() == [("child",)]


def test_a_fork_while_another_thread_opens_a_store_does_not_deadlock_the_child(live: Path, tmp_path: Path) -> None:
    looking, leave = threading.Event(), threading.Event()

    def look_for_long(_: object) -> Path:
        looking.set()
        leave.wait()
        raise StoreRefused("not this one")

    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(guard.admit, tmp_path / "slow.db", look_for_long)
        looking.wait()
        answer = in_forked_child(lambda: str(Link(tmp_path / "other.db").path.name))
        leave.set()
        with pytest.raises(StoreRefused, match="not this one"):
            opening.result()
    assert answer == "other.db"
