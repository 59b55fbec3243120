"""The log stays in proportion to its store and to its disk, and gives its space back."""

import time
from contextlib import closing
from pathlib import Path

from ramify.store.sqlite.file.link import Link
from ramify.store.sqlite.file.wal import FEWEST_PAGES, MOST_PAGES, PAGE
from tests.store.sqlite.real import one_table, with_own_mounts

MANY = 100_000


def write(link: Link, size: int) -> None:
    """Replace the one row of the store: the store stays as large as it is, and the log becomes longer."""
    with link.write() as db:
        db.execute("INSERT OR REPLACE INTO t (x, who) VALUES (1, ?)", ("x" * size,))


def log_of(link: Link) -> int:
    return Path(f"{link.path}-wal").stat().st_size


def test_a_small_store_has_a_small_log(tmp_path: Path) -> None:
    with closing(Link(tmp_path / "a.db", durability="process", on_first_open=one_table)) as link:
        sizes = []
        for _ in range(200):
            write(link, MANY)
            sizes.append(log_of(link))
        assert max(sizes) < 1.2 * FEWEST_PAGES * PAGE
        assert link.path.stat().st_size < 10 * MANY


def test_a_large_store_has_a_log_that_is_not_emptied_all_the_time(tmp_path: Path) -> None:
    with closing(Link(tmp_path / "a.db", durability="process", on_first_open=one_table)) as link:
        with link.write() as db:
            db.execute("INSERT INTO t (x, who) VALUES (2, ?)", ("x" * 2 * MOST_PAGES * PAGE,))
        for _ in range(3):
            write(link, MANY)
        with link.write() as db:
            assert db.execute("PRAGMA wal_autocheckpoint").fetchall() == [(MOST_PAGES,)]


def test_a_log_much_larger_than_its_store_is_cut_back_once_nobody_reads(tmp_path: Path) -> None:
    most = 2 * FEWEST_PAGES * PAGE
    with closing(Link(tmp_path / "a.db", durability="process", on_first_open=one_table)) as link:
        with link.read() as db:
            db.execute("SELECT count(*) FROM t").fetchall()
            while log_of(link) < 1.5 * most:
                write(link, MANY)
        begun = time.monotonic()
        while log_of(link) > most // 2:
            write(link, 10)
            assert time.monotonic() - begun < 30, "the log was not cut back"


#: Writes far more than fits, and prints how large the log was at most.
SMALL_DISK = f"""
mount -t tmpfs -o size=2m none "$2"
exec "$1" - "$2" <<'PROGRAM'
import sys
from pathlib import Path
from ramify.store.sqlite.file.link import Link
from tests.store.sqlite.real import one_table
from tests.store.sqlite.file.test_wal import log_of, write
link = Link(Path(sys.argv[1]) / "a.db", on_first_open=one_table)
sizes = []
for _ in range(100):
    write(link, {MANY})
    sizes.append(log_of(link))
link.close()
print(max(sizes))
PROGRAM
"""


def test_a_log_does_not_fill_a_small_disk_by_itself(tmp_path: Path) -> None:
    assert int(with_own_mounts(SMALL_DISK, tmp_path)) <= 1 << 20
