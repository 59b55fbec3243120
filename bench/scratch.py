"""Scratch stores: a fresh store for each turn of a contest, removed afterwards, and what its durability costs.

The folder matters: on a file system in memory an fsync is free and a "durable" figure is not one. `machine` says in
one line what the figures were paid on.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import apsw

from ramify.store.contract import Store
from ramify.store.open import Durability, open_store

KEEPS: dict[str, str] = {
    "none": "nothing is kept: memory only",
    "process": "a killed process loses nothing, a power cut may lose the last commits (no fsync per commit)",
    "power": "a power cut loses nothing that was committed (fsync per commit)",
}


@contextmanager
def folder_in(folder: Path) -> Iterator[Path]:
    """A folder of one turn, removed with all that is in it."""
    with tempfile.TemporaryDirectory(prefix="ramify-bench-", dir=folder) as name:
        yield Path(name)


@contextmanager
def sqlite_store(folder: Path, durability: Durability = "power") -> Iterator[tuple[Store, Path]]:
    """A fresh SQLite store and its file. Closing it is not part of any measured time."""
    with folder_in(folder) as place:
        path = place / "bench.db"
        store = open_store(path, durability=durability)
        try:
            yield store, path
        finally:
            store.close()


@contextmanager
def memory_store() -> Iterator[Store]:
    """A fresh store in memory."""
    store = open_store("memory:")
    try:
        yield store
    finally:
        store.close()


def bytes_of(path: Path) -> int:
    """What a closed store takes on disk, with whatever lies beside it under the same name."""
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*") if file.is_file())


def machine(folder: Path) -> str:
    """One line about what the figures were measured on."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}, {folder} on {file_system(folder)}, "
        f"fsync {fsync_seconds(folder) * 1e3:.2f} ms, load {os.getloadavg()[0]:.1f}"
    )


def file_system(folder: Path) -> str:
    """The type of the file system a folder is on, or "unknown" where the system does not say."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    best, found = "", "unknown"
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, place, kind, *_ = line.split()
        if folder.resolve().is_relative_to(place) and len(place) >= len(best):
            best, found = place, kind
    return found


def fsync_seconds(folder: Path, times: int = 50) -> float:
    """The median time to make one more page durable in this folder."""
    page = bytes(4096)
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(page)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    return median(taken)
