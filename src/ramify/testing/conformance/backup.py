"""`backup`: a copy of the store as a new file, while others work; or a clear word that this store is no file.

What the copy holds is for the store's own tests to open and see: the suite has no way to open another place.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from ramify.errors import StoreRefused
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.registry import case


def _copied(house: House, target: Path) -> bool:
    """Return whether this store can be copied."""
    try:
        house.store.backup(target)
    except StoreRefused:
        return False
    return True


@case("backup")
def a_backup_is_a_file_or_it_is_refused(house: House) -> None:
    house.run(house.tasks(3))
    house.worker().take(1)
    with TemporaryDirectory() as folder:
        target = Path(folder, "copy.db")
        with house.nothing_changes():
            copied = _copied(house, target)
        assert os.listdir(folder) == (["copy.db"] if copied else [])
        assert not copied or target.stat().st_size > 0


@case("backup")
def a_backup_is_never_written_over_anything(house: House) -> None:
    with TemporaryDirectory() as folder:
        target = Path(folder, "copy.db")
        target.write_bytes(b"mine")
        dangling = Path(folder, "link.db")
        dangling.symlink_to(Path(folder, "nowhere"))
        for taken in (target, dangling):
            with refused(StoreRefused):
                house.store.backup(taken)
        assert target.read_bytes() == b"mine"
        assert sorted(os.listdir(folder)) == ["copy.db", "link.db"]
