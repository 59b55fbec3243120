"""From a URL to a store."""

import os
from pathlib import Path

import pytest

from ramify.errors import ConfigError, StoreBroken, StoreRefused
from ramify.store.open import open_store


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("walk.db", "walk.db"),
        ("sqlite:///walk.db", "walk.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("no ending", "no ending"),
    ],
)
def test_a_file_name_is_a_sqlite_store(url: str, file: str) -> None:
    store = open_store(url)
    assert (store.describe().name, Path(file).exists()) == ("sqlite", True)
    store.close()


def test_four_slashes_are_an_absolute_path(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/walk.db")
    assert (tmp_path / "walk.db").exists()
    store.close()


@pytest.mark.parametrize("url", ["~/walk.db", "sqlite:///~/walk.db", Path("~/walk.db")])
def test_a_tilde_is_the_home_folder(url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    open_store(url).close()
    assert (home / "walk.db").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    store = open_store(tmp_path / "memory:")
    assert store.describe().name == "sqlite"
    store.close()


def test_the_default_is_ramify_db_in_this_folder() -> None:
    open_store().close()
    assert Path("ramify.db").exists()


@pytest.mark.parametrize("name", ["memory:", ":memory:"])
def test_memory_keeps_nothing_and_says_so(name: str) -> None:
    store = open_store(name)
    assert "nothing" in store.describe().keeps
    store.close()
    assert os.listdir() == []


@pytest.mark.parametrize("urls", [("memory:", "memory:"), ("a.db", "b.db")])
def test_two_stores_have_two_ids(urls: tuple[str, str]) -> None:
    one, other = map(open_store, urls)
    assert one.id != other.id
    one.close()
    other.close()


def test_the_durability_is_said_at_start() -> None:
    power, process = open_store("a.db"), open_store("b.db", durability="process")
    assert "through power loss" in power.describe().keeps
    assert "except power loss" in process.describe().keeps
    power.close()
    process.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "expected a file name or a store URL"),
        ("a\0b", "expected a file name"),
        ("postgresql://host/x", "PostgreSQL store is not built yet"),
        ("redis://host", "Redis store is not built yet"),
        ("big.duckdb", "DuckDB store is not built yet"),
        ("mysql://host", "unknown scheme"),
        ("sqlite:walk.db", "Write sqlite:///name.db"),
        ("sqlite:///", "Write sqlite:///name.db"),
    ],
)
def test_what_is_no_store_is_refused_with_what_to_give(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        open_store(url)
    assert list(Path().iterdir()) == []


def test_a_durability_nobody_offers_is_refused() -> None:
    with pytest.raises(ConfigError, match="durability='fast'"):
        open_store("a.db", durability="fast")  # type: ignore[arg-type]


def test_a_folder_that_is_missing_is_named() -> None:
    with pytest.raises(StoreRefused, match="Create missing first"):
        open_store("missing/walk.db")


def test_a_store_that_was_taken_away_is_not_made_anew_by_who_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StoreBroken, match="moved or deleted while work was going on"):
        open_store(tmp_path / "walk.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_who_only_looks_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="cannot be looked at"):
        open_store(tmp_path / "walk.db", reading=True)
    assert list(tmp_path.iterdir()) == []
