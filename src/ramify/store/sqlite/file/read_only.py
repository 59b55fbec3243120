"""How a file is opened by somebody who only looks: also through a symbolic link, and where nothing can be written.

A link to the file is followed to the real one first, so that there is one name and one write-ahead log, whoever looks.
(Who writes must give the real path; a link may point elsewhere tomorrow.)

Where it can be written, a file is opened as ever. On a read-only file system, or in somebody else's folder, SQLite
reads it together with its log as long as both files of the log are there. A file without a log is taken for one that
nobody changes; should somebody change it through another mount meanwhile, a look may be wrong or fail, and the next one
is right again.
"""

from __future__ import annotations

import os
from pathlib import Path

from ramify.errors import StoreRefused
from ramify.store.sqlite.file.location import check_file


def check_to_read(path: str | os.PathLike[str]) -> Path:
    """The real path of a file that exists and may be looked at; nothing is created."""
    try:
        where = Path(os.path.realpath(path, strict=True))
    except OSError as error:
        raise StoreRefused(f"{path} cannot be looked at ({error.strerror})") from error
    if can_write(where):
        return check_file(where)
    return check_file(where, wanted=os.R_OK)


def can_write(where: Path) -> bool:
    """Return whether the file and its folder can be written here."""
    return os.access(where, os.W_OK) and os.access(where.parent, os.W_OK | os.X_OK)


def read_only_name(where: Path) -> str:
    """Return what SQLite is told to open where nothing can be written."""
    if not _size(f"{where}-wal"):
        return f"{where.as_uri()}?immutable=1"
    if not os.path.exists(f"{where}-shm"):
        raise StoreRefused(
            f"{where} cannot be read here: its write-ahead log holds commits, and to read them SQLite must write "
            f"{where.name}-shm. Copy the file together with its -wal to a place that can be written, and read it there"
        )
    return str(where)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
