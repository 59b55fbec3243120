"""Which store a command means, and the only place that reads the environment.

In this order: `-s URL|file`; `RAMIFY_URL`; `store` under `[tool.ramify]` in the nearest pyproject.toml; the only Ramify
file in this folder. A store that is not there is an error, never a new file: commands that look must not create.

A file is told to be ours by its lock folder beside it or by the mark in its first bytes. Files with a lock folder are
not opened for that: closing a descriptor of a database that a store of this process has open would drop its locks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ramify.errors import ConfigError
from ramify.store.url import file_of, shown

VARIABLE = "RAMIFY_URL"
#: "Rmfy", the application id in the header of our SQLite files, and where it is.
_MARK, _MARK_AT = b"Rmfy", 68
_MAGIC = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")
#: How many files a refusal names.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Chosen:
    """A store, and how it was chosen."""

    url: str = field(repr=False)
    because: str

    @property
    def shown(self) -> str:
        """The URL without a password in it."""
        return shown(self.url)


def choose(given: str | None, folder: Path | None = None) -> Chosen:
    """The store that is meant; ConfigError says what to do when that is not clear, or when it is not there."""
    place = Path.cwd() if folder is None else folder
    return existing(_chosen(given, place), place)


def existing(chosen: Chosen, folder: Path) -> Chosen:
    """The same choice, once it is known to be there."""
    path = file_of(chosen.url)
    if path is None:
        return chosen
    if not os.path.lexists(folder / path):
        raise ConfigError(f"{path}: no such file ({chosen.because}). Give a store with -s URL|FILE.")
    if not is_ours(folder / path):
        raise ConfigError(f"{path}: expected a Ramify store ({chosen.because}). Give one with -s URL|FILE.")
    return chosen


def wants_colour() -> bool:
    """Return whether colours may be used on a terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_ours(path: Path) -> bool:
    """Return whether a file is a Ramify store, without opening one that may be in use."""
    if not path.is_file():
        return False
    # A link to a store is followed: the files that belong to it are beside the real one.
    path = path.resolve()
    if os.path.isdir(f"{path}-live"):
        return True
    try:
        with open(path, "rb") as file:
            head = file.read(_MARK_AT + len(_MARK))
    except OSError:
        return False
    return head.startswith(_MAGIC) and head.endswith(_MARK)


def _chosen(given: str | None, folder: Path) -> Chosen:
    if given:
        return Chosen(given, "given with -s")
    if named := os.environ.get(VARIABLE):
        return Chosen(named, f"from {VARIABLE}")
    if configured := _from_pyproject(folder):
        return configured
    return _only_file(folder)


def _from_pyproject(folder: Path) -> Chosen | None:
    place = next((p / "pyproject.toml" for p in (folder, *folder.parents) if (p / "pyproject.toml").is_file()), None)
    if place is None:
        return None
    import tomllib

    try:
        with open(place, "rb") as file:
            table = tomllib.load(file).get("tool", {}).get("ramify", {})
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{place} cannot be read: {error}") from error
    store = table.get("store") if isinstance(table, dict) else None
    if store is None:
        return None
    if not isinstance(store, str) or not store:
        raise ConfigError(f'{place}: expected store under [tool.ramify] as text. Write store = "walk.db".')
    return Chosen(_beside(place.parent, store, folder), f"from [tool.ramify] in {_near(place, folder)}")


def _beside(home: Path, store: str, folder: Path) -> str:
    """A relative file of a pyproject.toml is relative to it, not to where the command was typed."""
    path = file_of(store)
    if path is None or path.is_absolute():
        return store
    return str(_near(home / path, folder))


def _near(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _only_file(folder: Path) -> Chosen:
    found = sorted(_files_of_ours(folder))
    if len(found) == 1:
        return Chosen(found[0], "the only Ramify file in this folder")
    if not found:
        raise ConfigError(
            f"no store: this folder has no Ramify file, and neither {VARIABLE} nor [tool.ramify] names one. "
            "Give one with -s URL|FILE."
        )
    names = ", ".join(found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
    raise ConfigError(f"{len(found)} Ramify files are in this folder: {names}. Choose one with -s.")


def _files_of_ours(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.endswith(_BESIDE) and entry.is_file(follow_symlinks=False) and is_ours(Path(entry)):
                    yield entry.name
    except OSError as error:
        raise ConfigError(f"this folder cannot be read ({error.strerror}). Give a store with -s URL|FILE.") from error
