"""An older Ramify keeps its hands off a newer file, and everybody off other programs' files."""

import sqlite3
from pathlib import Path

import pytest

from ramify.errors import SchemaTooNew, StoreRefused
from ramify.model.digest import digest_of
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.schema import APPLICATION_ID, TABLES, VERSION


def test_a_fresh_file_carries_our_mark_and_version(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "a.db").close()
    db = sqlite3.connect(tmp_path / "a.db")
    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    db.close()


def test_a_newer_file_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "a.db").close()
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(SchemaTooNew, match="written by a newer Ramify"):
        SqliteStore(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_file_from_before_the_first_release_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "a.db").close()
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute(f"PRAGMA user_version = {VERSION - 1}")
    db.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(StoreRefused, match="before the first release"):
        SqliteStore(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_bytes() == before


@pytest.mark.parametrize("statement", ["CREATE TABLE mine (x)", "PRAGMA user_version = 7", "PRAGMA application_id = 3"])
def test_a_database_of_another_program_is_refused(tmp_path: Path, statement: str) -> None:
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute(statement)
    db.execute("VACUUM")
    db.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(StoreRefused, match="another program"):
        SqliteStore(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch(mode=0o600)
    store = SqliteStore(tmp_path / "a.db")
    assert store.reserve(1) == 1
    store.close()


def test_tables_do_not_change_without_a_new_version() -> None:
    # A file with other tables under the same number would be taken for one of ours. Raise VERSION first, then this.
    assert (VERSION, digest_of(TABLES.encode(), 8).hex()) == (18, "b58e4774c28ae9f0")
