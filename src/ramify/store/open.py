"""From a URL to a store: the only table of backends.

    path.db, sqlite:///path    SQLite, the default; `~` at the beginning of a path is the home folder
    memory:                    the reference store, for tests; :memory:, as SQLite calls it, is the same

Backends are imported when they are asked for, so that importing Ramify needs no driver but the default's, and that
only when it is used.
"""

from __future__ import annotations

import os
from typing import Literal
from urllib.parse import unquote, urlsplit

from ramify.errors import ConfigError
from ramify.store.clock import Clock
from ramify.store.contract import Store
from ramify.store.url import IN_MEMORY, shown

Durability = Literal["power", "process"]

#: Schemes that will have stores of their own; named so that the answer is not "no such file".
PLANNED = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "rediss": "Redis",
    "duckdb": "DuckDB",
}


def open_store(
    url: str | os.PathLike[str] = "ramify.db",
    *,
    durability: Durability = "power",
    clock: Clock | None = None,
    reading: bool = False,
    create: bool = True,
    folder: str | None = None,
) -> Store:
    """The store behind a URL or a file name. ConfigError says what can be given.

    A relative file is one of `folder`, or of the folder in which the process is now. Who only looks says `reading`:
    nothing is created then, and it works where nothing can be written. With `create=False` a file that is not there is
    StoreBroken: it was, and somebody took it away.
    """
    if durability not in ("power", "process"):
        raise ConfigError(
            f'durability={durability!r}: expected "power" (every commit survives a power cut) or "process" '
            "(faster; survives everything but a power cut)."
        )
    text = os.fspath(url)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f'{shown(text)!r}: expected a file name or a store URL. Write Engine("walk.db").')
    if text in IN_MEMORY:
        from ramify.store.memory import MemoryStore

        return MemoryStore(clock=clock)
    path = os.path.expanduser(_sqlite_path(text) if isinstance(url, str) else text)
    from ramify.store.sqlite import SqliteStore

    place = path if folder is None else os.path.join(folder, path)
    return SqliteStore(place, durability=durability, clock=clock, reading=reading, create=create)


def _sqlite_path(url: str) -> str:
    """The file a text means: itself, or what `sqlite:///` points at (three slashes: relative; four: absolute)."""
    scheme, colon, rest = url.partition(":")
    if scheme in PLANNED and rest.startswith("//"):
        raise ConfigError(
            f"{urlsplit(url).scheme}: a {PLANNED[scheme]} store is not built yet. Use a file name, or memory:"
        )
    if scheme == "sqlite" and colon:
        path = unquote(rest[3:]) if rest.startswith("///") else ""
        if not path:
            raise ConfigError(
                f"{shown(url)!r}: expected a file in the URL. Write sqlite:///name.db for a relative path, "
                "sqlite:////dir/name.db for an absolute one."
            )
        return path
    if "://" in url:
        raise ConfigError(f"{shown(url)!r}: unknown scheme. Give a file name, sqlite:///file or memory:")
    if url.endswith(".duckdb"):
        raise ConfigError(f"{shown(url)!r}: a DuckDB store is not built yet. Use a file that ends in .db, or memory:")
    return url
