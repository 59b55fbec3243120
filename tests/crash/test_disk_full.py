"""A full disk: the store says so, loses nothing, and goes on by itself when there is room again.

Forty sizes in steps of a page, so that the end of the disk falls into every part of a commit, of a checkpoint and of
the creation of the file; and once for real, on a small file system of its own.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ramify.errors import StoreUnavailable
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.file.link import Link
from tests.crash import judge
from tests.crash.clients import LIMIT, STORE, Clients
from tests.crash.disk import GO, Answer, Change, Disk, Step
from tests.crash.scenario import TREE, Died, Player
from tests.crash.tree import draw_seed, grow
from tests.crash.witness import Said, Witness
from tests.store.sqlite.real import one_table

PAGE = 4096
SIZES = 40


class Quota:
    """A disk with room for so many bytes. A write that does not fit is cut short, as a real disk does."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.refusals = 0
        self._sizes: dict[Path, int] = {}

    @property
    def used(self) -> int:
        """The bytes of all files."""
        return sum(self._sizes.values())

    def __call__(self, step: Step) -> Answer:
        size = self._sizes.get(step.path, 0)
        if step.change is Change.DELETE:
            self._sizes.pop(step.path, None)
        elif step.change is Change.TRUNCATE:
            self._sizes[step.path] = min(size, step.offset)
        elif step.change is Change.WRITE:
            free = self.room - self.used
            end = step.offset + len(step.content)
            if end > size + free:
                self.refusals += 1
                self._sizes[step.path] = max(size, size + free)
                return Answer(apsw.SQLITE_FULL, max(0, size + free - step.offset))
            self._sizes[step.path] = max(size, end)
        return GO


def room_for_an_empty_store(folder: Path) -> int:
    """How many bytes it takes to create one."""
    quota = Quota(2**40)
    folder.mkdir()
    with Disk(folder, quota):
        player = Player(folder)
        player.open()
        used = quota.used
        player.close()
    return used


@pytest.mark.parametrize("part", range(4))
def test_a_full_disk_is_said_and_survived_and_work_goes_on_when_there_is_room(part: int, tmp_path: Path) -> None:
    # The first sizes are too small for an empty store, the others end in the middle of the work.
    smallest = room_for_an_empty_store(tmp_path / "empty") - 8 * PAGE
    for number in range(part, SIZES, 4):
        fill(tmp_path / str(number), smallest + number * PAGE, dies=number % 3 == 0)


def fill(folder: Path, room: int, *, dies: bool) -> None:
    """Play on a disk of that size, which grows a little each time the store says that it is full."""
    folder.mkdir()
    player = Player(folder)
    quota = Quota(room)
    said = 0

    def trouble(error: StoreUnavailable) -> None:
        nonlocal said
        said += 1
        assert "the disk is full" in str(error)
        assert "Free some space" in str(error)
        if player.store is not None:
            assert judge.in_between(player.store, TREE, player.lines()) == []
        quota.room += 16 * PAGE
        if dies:
            raise Died

    with Disk(folder, quota):
        try:
            player.play(trouble)
        except Died:
            player.close()
            quota.room = 2**40
            player.finish()
        complaints = player.verdict()
    assert complaints == []
    assert said, f"{room} bytes were enough"
    player.witness.close()
    shutil.rmtree(folder)


def test_a_little_space_lets_work_continue_when_the_log_fills_the_disk(tmp_path: Path) -> None:
    quota, size, fits = Quota(2**20), 100_000, 10

    def write() -> None:
        with link.write() as db:
            db.execute("INSERT OR REPLACE INTO t (x, who) VALUES (1, ?)", ("x" * size,))

    with Disk(tmp_path, quota), closing(Link(tmp_path / STORE, on_first_open=one_table)) as link:
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            for _ in range(2 * fits):
                write()
        # Enough for the store, which lacks most of what is in the log, and for no more than a few transactions.
        quota.room += 3 * size
        for _ in range(fits // 2):
            write()


def _why_not_mount(folder: Path) -> str | None:
    """Why a file system of our own cannot be mounted here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "mounting a small file system needs root and unshare"
    mount = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(folder)]
    tried = subprocess.run(mount, capture_output=True, text=True)
    return f"mounting a small file system does not work here: {tried.stderr.strip()}" if tried.returncode else None


#: Mounted in a namespace of its own, it goes with the client; what it held is copied out first.
MOUNT = 'out=$1; shift; mount -t tmpfs -o size=1m,mode=700 none "$0" && "$@" && cp -r "$0"/. "$out"'


def test_a_really_full_disk_is_survived(tmp_path: Path, clients: Clients, seed: random.Random) -> None:
    why_not = _why_not_mount(tmp_path)
    if why_not is not None:
        pytest.skip(why_not)
    mounted, out = tmp_path / "mounted", tmp_path / "out"
    mounted.mkdir()
    out.mkdir()
    number = draw_seed(seed, fewest=100)
    print(f"tree seed {number}")
    client = clients.add(("unshare", "-m", "sh", "-c", MOUNT, str(mounted), str(out)))
    client.begin("tree", mounted, number, f"mounted={mounted}", witness=tmp_path / "witness")
    assert client.ends_within(LIMIT)
    lines = Witness(tmp_path / "witness").lines()
    assert any(line.said is Said.FULL for line in lines)
    store = SqliteStore(out / STORE)
    assert judge.at_the_end(store, grow(number), lines) == []
    store.close()
