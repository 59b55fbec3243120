"""A folder with one store in it, somebody to work on it, and a way to type commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ramify.cli.main import main
from ramify.store.sqlite import SqliteStore
from ramify.testing.conformance import House

#: What a hostile file name, error or argument may hold: escapes, controls, bidi, separators, surrogates, markup.
HOSTILE = (
    "a\x1b[31m\x1b]0;owned\x07\x9b2J\r\n\t\x00\x7f\u202eb\u2066c\u2028\u200b\U000e0041[bold red]x[/] :smile:\udcff"
)
#: What must never be seen raw.
RAW = "\x1b\x07\x9b\r\x00\x7f\u202e\u2066\u2028\u200b\U000e0041\udcff"


@dataclass(frozen=True)
class Desk:
    """Somebody types commands in a folder."""

    folder: Path
    house: House

    def type(self, *args: str, code: int | None = 0) -> Result:
        """The outcome of a command, which must end with this code, or with any when it is None."""
        result = CliRunner().invoke(main, list(args), prog_name="ramify")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code in (None, result.exit_code), f"{args}: exit {result.exit_code}\n{result.output}"
        return result

    def out(self, *args: str, code: int = 0) -> str:
        """What a command prints on standard output."""
        return self.type(*args, code=code).stdout

    def err(self, *args: str, code: int = 0) -> str:
        """What a command prints on standard error."""
        return self.type(*args, code=code).stderr

    def json(self, *args: str, code: int = 0) -> list[dict[str, Any]]:
        """The objects a command prints with `--json`."""
        lines = self.out(*args, "--json", code=code).splitlines()
        assert all(line.isascii() for line in lines)
        return [json.loads(line) for line in lines]

    def ids(self, run: int) -> Sequence[int]:
        """The tasks of a run."""
        return [task.id for task in self.house.store.reads.tasks(run).rows]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, and nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMIFY_URL", raising=False)
    return tmp_path


@pytest.fixture
def desk(folder: Path) -> Iterator[Desk]:
    """A folder with the store `walk.db`, on the real clock."""
    house = House(lambda clock: SqliteStore(folder / "walk.db"), lambda store: store.close())
    yield Desk(folder, house)
    house.close()
