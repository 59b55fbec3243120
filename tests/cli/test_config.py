"""Which store a command means. A command that looks never creates."""

import os
from pathlib import Path

import pytest

from ramify.cli.config import Chosen, choose, is_ours
from ramify.errors import ConfigError
from ramify.store.open import open_store
from tests.cli.conftest import Desk


def store(path: str) -> None:
    open_store(path).close()


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_is_given_wins_over_everything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("given.db", "named.db", "configured.db"):
        store(name)
    monkeypatch.setenv("RAMIFY_URL", "named.db")
    Path("pyproject.toml").write_text('[tool.ramify]\nstore = "configured.db"\n')
    assert choose("given.db").url == "given.db"
    assert choose(None).url == "named.db"
    monkeypatch.delenv("RAMIFY_URL")
    assert choose(None).url == "configured.db"
    Path("pyproject.toml").write_text("[tool.other]\n")
    with pytest.raises(ConfigError, match="3 Ramify files"):
        choose(None)


@pytest.mark.parametrize("url", ["~/walk.db", "sqlite:///~/walk.db"])
def test_a_tilde_is_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    (folder / "home").mkdir()
    monkeypatch.setenv("HOME", str(folder / "home"))
    store(url)
    assert choose(url).url == url
    monkeypatch.setenv("RAMIFY_URL", url)
    assert choose(None).url == url
    monkeypatch.delenv("RAMIFY_URL")
    Path("pyproject.toml").write_text(f'[tool.ramify]\nstore = "{url}"\n')
    assert choose(None).url == url


def test_each_way_says_where_it_came_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("walk.db")
    assert choose(None).because == "the only Ramify file in this folder"
    Path("pyproject.toml").write_text('[tool.ramify]\nstore = "walk.db"\n')
    assert choose(None).because == "from [tool.ramify] in pyproject.toml"
    monkeypatch.setenv("RAMIFY_URL", "walk.db")
    assert choose(None).because == "from RAMIFY_URL"


def test_a_relative_store_of_a_pyproject_is_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("walk.db")
    Path("pyproject.toml").write_text('[tool.ramify]\nstore = "walk.db"\n')
    Path("deep/down").mkdir(parents=True)
    monkeypatch.chdir("deep/down")
    assert Path(choose(None).url) == folder / "walk.db"


def test_the_nearest_pyproject_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pyproject.toml").write_text('[tool.ramify]\nstore = "walk.db"\n')
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    Path("pyproject.toml").write_text("")
    with pytest.raises(ConfigError, match="no store"):
        choose(None)


@pytest.mark.parametrize("text", ["[tool.ramify]\nstore = 3\n", '[tool.ramify]\nstore = ""\n', "not toml"])
def test_a_pyproject_that_makes_no_sense_is_named(folder: Path, text: str) -> None:
    Path("pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"pyproject\.toml"):
        choose(None)


def test_only_files_of_ours_count(folder: Path) -> None:
    import apsw

    store("walk.db")
    apsw.Connection("other.db").execute("CREATE TABLE t (x)")
    Path("text.db").write_text("hello")
    Path("empty.db").touch()
    Path("link.db").symlink_to("walk.db")
    assert choose(None).url == "walk.db"
    assert not is_ours(Path("other.db"))


def test_a_copy_without_its_lock_folder_is_known_by_its_first_bytes(folder: Path) -> None:
    store("walk.db")
    Path("copy.db").write_bytes(Path("walk.db").read_bytes())
    assert is_ours(Path("copy.db"))


def test_a_store_that_was_killed_before_its_first_checkpoint_is_known(folder: Path) -> None:
    """The mark is then only in the write-ahead log, and the first bytes do not tell."""
    open_here = open_store("walk.db")
    try:
        assert is_ours(Path("walk.db"))
        assert choose(None).url == "walk.db"
    finally:
        open_here.close()


def test_a_store_that_is_open_in_this_process_is_not_opened_to_look_at_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_here = open_store("walk.db")
    try:
        monkeypatch.setattr("builtins.open", None)
        assert choose("walk.db").url == "walk.db"
    finally:
        open_here.close()


@pytest.mark.parametrize("url", ["gone.db", "sqlite:///gone.db", "sub/gone.db"])
def test_a_missing_store_is_an_error_and_not_a_new_file(folder: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        choose(url)
    assert listing(folder) == set()


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(84)])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(folder: Path, content: bytes) -> None:
    Path("x.db").write_bytes(content)
    with pytest.raises(ConfigError, match="expected a Ramify store"):
        choose("x.db")
    assert (listing(folder), Path("x.db").read_bytes()) == ({"x.db"}, content)


@pytest.mark.parametrize("url", ["memory:", ":memory:"])
def test_memory_cannot_be_looked_at_from_outside(desk: Desk, url: str) -> None:
    told = desk.err("-s", url, "status", code=3)
    assert "inside one program, and cannot be read from here" in told


def test_no_store_at_all_says_what_can_be_given(folder: Path) -> None:
    with pytest.raises(ConfigError, match="-s URL"):
        choose(None)
    assert os.listdir() == []


def test_a_password_is_not_shown() -> None:
    chosen = Chosen("postgresql://ann:secret@host/x", "given with -s")
    assert chosen.shown == "postgresql://ann:***@host/x"
    assert "secret" not in repr(chosen)
