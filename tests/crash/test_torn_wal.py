"""A torn log: the store opens at the last commit that is whole, and a damaged file is never taken for an empty one.

One store is made with a known number of commits and the length of its log after each. Then copies of its files are cut
off or changed by one bit, and each must open with exactly the commits that lie before the damage.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ramify.errors import SchemaTooNew, StoreBroken, StoreRefused
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.sqlite import SqliteStore
from ramify.testing import oracle
from tests.crash.clients import STORE
from tests.crash.disk import Disk

LOG = f"{STORE}-wal"
COMMITS = 12
HEADER = 32
#: Bytes of the header of a database file.
FILE_HEADER = 100
#: The first of them, which say what the file is.
MAGIC = 16
#: The one field about which SQLite itself says no more than that it is unsupported.
SCHEMA_FORMAT = range(44, 48)

Count = Callable[[str, object], None]


@dataclass(frozen=True)
class Original:
    """The files of a store whose process died, and the length of the log after each commit (the first: after none)."""

    folder: Path
    lengths: tuple[int, ...]

    def commits_within(self, length: int) -> int:
        """How many commits lie wholly within the first `length` bytes of the log."""
        return max(0, sum(end <= length for end in self.lengths) - 1)


@pytest.fixture
def original(tmp_path: Path) -> Original:
    folder = tmp_path / "original"
    folder.mkdir()
    with Disk(folder) as disk:
        store = SqliteStore(folder / STORE)
        process = new_process_id()
        store.enter(NewProcess(process))
        first = store.reserve(1 + COMMITS + 10 * COMMITS)
        run = store.start(NewRun(first, "torn"), [NewTasks(first + 1, "work", [b"0"] * COMMITS)]).run.id
        lengths = [os.stat(folder / LOG).st_size]
        claims = [store.claim(Stamp(process, n), Want(frozenset({"work"}), 1)).claims[0] for n in range(1, COMMITS + 1)]
        lengths = [os.stat(folder / LOG).st_size]
        for number, claim in enumerate(claims):
            children = NewTasks(first + 1 + COMMITS + 10 * number, "child", [b"1"] * (number % 10 + 1), claim.tasks[0])
            store.commit(Stamp(process, COMMITS + 1 + number), [Part(claim.token, claim.tasks, children=[children])])
            lengths.append(os.stat(folder / LOG).st_size)
        assert store.reads.run(run).name == "torn"
        disk.dead = True
        store.close()
    return Original(folder, tuple(lengths))


def opened(original: Original, change: Callable[[Path], None], tmp_path: Path) -> int:
    """How many commits a copy has after a change to its files; it must open and be whole."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (STORE, LOG):
        shutil.copyfile(original.folder / name, copy / name)
        (copy / name).chmod(0o600)
    change(copy)
    with Disk(copy):
        store = SqliteStore(copy / STORE)
        assert oracle.check(store) == []
        found = committed(store)
        run = store.reads.find_run("torn")
        if run is not None:
            children = store.reads.tasks(run.id, kind="child", limit=1000).rows
            assert len(children) == sum(number % 10 + 1 for number in range(found))
        store.close()
    shutil.rmtree(copy)
    return found


def committed(store: SqliteStore) -> int:
    """How many commits of the process are in the log, which has no gap. The start of the run is there as well."""
    commits = store.reads.tail(0).commits
    assert [commit.seq for commit in commits] == list(range(1, len(commits) + 1))
    return sum(commit.events > 0 for commit in commits)


def cut_at(length: int) -> Callable[[Path], None]:
    """A change that leaves only so many bytes of the log."""
    return lambda copy: os.truncate(copy / LOG, length)


def flip_at(place: int, bit: int) -> Callable[[Path], None]:
    """A change of one bit of the log."""
    return lambda copy: flip(copy / LOG, place, bit)


def test_a_log_cut_off_anywhere_opens_at_the_last_whole_commit(
    original: Original, tmp_path: Path, seed: random.Random, record_property: Count
) -> None:
    last = original.lengths[-1]
    # Every commit's end and its neighbours, and places in between.
    places = {end + near for end in original.lengths for near in (-1, 0, 1) if end + near <= last}
    places |= {seed.randint(original.lengths[0], last) for _ in range(60)}
    for length in sorted(places):
        found = opened(original, cut_at(length), tmp_path)
        assert found == original.commits_within(length), length
    record_property("places", len(places))


def flip(path: Path, place: int, bit: int) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def test_a_flipped_bit_in_the_log_opens_at_the_commit_before_it(
    original: Original, tmp_path: Path, seed: random.Random, record_property: Count
) -> None:
    flips = 80
    for _ in range(flips):
        place, bit = seed.randrange(original.lengths[0], original.lengths[-1]), seed.randrange(8)
        found = opened(original, flip_at(place, bit), tmp_path)
        assert found == original.commits_within(place), (place, bit)
    record_property("places", flips)


@pytest.mark.full
def test_a_flipped_bit_in_any_sector_of_the_log_opens_at_the_commit_before_it(
    original: Original, tmp_path: Path, seed: random.Random, record_property: Count
) -> None:
    places = range(original.lengths[0], original.lengths[-1], 512)
    for start in places:
        place, bit = min(start + seed.randrange(512), original.lengths[-1] - 1), seed.randrange(8)
        found = opened(original, flip_at(place, bit), tmp_path)
        assert found == original.commits_within(place), (place, bit)
    record_property("places", len(places))


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"garbage " * 1000], ids=["zeros", "garbage"])
def test_what_stands_after_the_last_commit_in_the_log_is_ignored(
    tail: bytes, original: Original, tmp_path: Path
) -> None:
    def lengthen(copy: Path) -> None:
        with (copy / LOG).open("ab") as log:
            log.write(tail)

    assert opened(original, lengthen, tmp_path) == COMMITS


def test_a_log_whose_end_became_zeros_opens_at_the_last_whole_commit(original: Original, tmp_path: Path) -> None:
    def blank(copy: Path) -> None:
        os.truncate(copy / LOG, original.lengths[-3] + 100)
        os.truncate(copy / LOG, original.lengths[-1])

    assert opened(original, blank, tmp_path) == COMMITS - 2


def test_a_log_with_a_damaged_header_is_ignored_as_a_whole(
    original: Original, tmp_path: Path, seed: random.Random
) -> None:
    for place in range(HEADER):
        bit = seed.randrange(8)
        assert opened(original, flip_at(place, bit), tmp_path) == 0


def test_a_flipped_bit_in_the_header_of_the_file_is_refused_or_harmless(
    original: Original, tmp_path: Path, seed: random.Random, record_property: Count
) -> None:
    flips = [(place, seed.randrange(8)) for place in range(FILE_HEADER)]
    record_property("refused", refused(original, tmp_path, flips))


@pytest.mark.full
def test_any_flipped_bit_in_the_header_of_the_file_is_refused_or_harmless(
    original: Original, tmp_path: Path, record_property: Count
) -> None:
    flips = [(place, bit) for place in range(FILE_HEADER) for bit in range(8)]
    record_property("refused", refused(original, tmp_path, flips))


def refused(original: Original, tmp_path: Path, flips: Sequence[tuple[int, int]]) -> int:
    """Flip one bit after the other; how often the store was refused. It is never taken for an empty one."""
    # Opened and closed once, so that everything is in the file and nothing in a log.
    SqliteStore(original.folder / STORE).close()
    assert not (original.folder / LOG).exists()
    times = 0
    for place, bit in flips:
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copyfile(original.folder / STORE, copy / STORE)
        (copy / STORE).chmod(0o600)
        flip(copy / STORE, place, bit)
        text = refusal(copy)
        assert text is None or str(copy / STORE) in text
        assert text is None or "should not happen" not in text or place in SCHEMA_FORMAT, text
        assert text is not None or place >= MAGIC, f"bit {bit} of byte {place} was not looked at"
        times += text is not None
        shutil.rmtree(copy)
    return times


def refusal(folder: Path) -> str | None:
    """The text with which the store is refused; None when it opens with everything in it."""
    with Disk(folder):
        store = None
        try:
            store = SqliteStore(folder / STORE)
            complaints, commits = oracle.check(store), committed(store)
        except (StoreBroken, StoreRefused, SchemaTooNew) as error:
            return str(error)
        finally:
            if store is not None:
                store.close()
        assert (complaints, commits) == ([], COMMITS)
        return None
