"""Liveness: locks that end with their process, beats that tell of silence, and windows without a gap."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramify.errors import BadPayload, StoreUnavailable
from ramify.model.process import NewProcess
from ramify.store.clock import SystemClock
from ramify.store.contract import LEFT_TO_PARENT
from ramify.store.presence.liveness import Dead, Gaps, Liveness, Writer, this_boot
from ramify.store.presence.lock_record import Alive
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.file.link import Link
from ramify.testing.clock import SECOND, FakeClock
from tests.store.sqlite.real import Child, in_forked_child, one_table, with_own_mounts

ME = 0x1234

#: A process that enters as `ME`, says so, and then does what it is told by a line of Python.
HOLDER = """
import os, signal, sys
from pathlib import Path
from ramify.store.clock import SystemClock
from ramify.store.presence.liveness import Liveness
me = 0x1234
liveness = Liveness(Path(sys.argv[1]), SystemClock())
liveness.enter(me, os.getpid())
print("entered", flush=True)
while True:
    exec(input())
    print("did it", flush=True)
"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a.db-live"


@pytest.fixture
def mine(folder: Path, clock: FakeClock) -> Iterator[Liveness]:
    with closing(Liveness(folder, clock)) as liveness:
        yield liveness


@pytest.fixture
def theirs(folder: Path, clock: FakeClock) -> Iterator[Liveness]:
    """The same folder, as another process sees it."""
    with closing(Liveness(folder, clock)) as liveness:
        yield liveness


def beat_of(liveness: Liveness) -> int | None:
    found = liveness.alive(ME)
    return None if found is None else found.beat


def lock_of(folder: Path, process: int = ME) -> Path:
    return folder / f"{process:016x}.lock"


def test_a_process_that_entered_is_alive_and_tells_when_it_last_beat(
    mine: Liveness, theirs: Liveness, clock: FakeClock
) -> None:
    entered = clock.monotonic()
    mine.enter(ME, pid=77)
    assert theirs.probe(ME) == Alive(entered, entered, this_boot(), 77)
    clock.advance(5)
    assert theirs.probe(ME) == Alive(entered, entered, this_boot(), 77)
    mine.beat(ME)
    assert theirs.probe(ME) == Alive(entered + 5 * SECOND, entered, this_boot(), 77)
    assert beat_of(theirs) == entered + 5 * SECOND


def test_a_process_may_probe_itself(mine: Liveness) -> None:
    mine.enter(ME, 77)
    assert isinstance(mine.probe(ME), Alive)


def test_two_who_probe_at_once_do_not_see_each_other(mine: Liveness, theirs: Liveness, folder: Path) -> None:
    mine.enter(ME, 77)
    mine.close()
    prober = os.open(lock_of(folder), os.O_RDONLY)
    fcntl.flock(prober, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert theirs.probe(ME) == Dead(certain=True)
    os.close(prober)


def test_who_never_entered_is_dead_for_certain_and_nobody_knows_of_which_boot(theirs: Liveness) -> None:
    assert theirs.probe(ME) == Dead(certain=True, same_boot=False)
    assert theirs.alive(ME) is None


def test_who_left_has_no_file_and_may_leave_again(mine: Liveness, theirs: Liveness, folder: Path) -> None:
    mine.enter(ME, 77)
    mine.leave(ME)
    assert not lock_of(folder).exists()
    assert theirs.probe(ME) == Dead(certain=True, same_boot=False)
    mine.leave(ME)


def test_who_let_go_without_leaving_is_dead_at_once(mine: Liveness, theirs: Liveness) -> None:
    mine.enter(ME, 77)
    mine.close()
    assert theirs.probe(ME) == Dead(certain=True, same_boot=True)


def test_a_dead_process_of_another_boot_is_told_apart(folder: Path, clock: FakeClock, theirs: Liveness) -> None:
    with closing(Liveness(folder, clock, boot_id="the boot before")) as before:
        before.enter(ME, 77)
        assert isinstance(theirs.probe(ME), Alive)
    assert theirs.probe(ME) == Dead(certain=True, same_boot=False)


def test_this_boot_has_a_name_that_stays() -> None:
    assert this_boot() == this_boot()
    assert this_boot()


@pytest.mark.parametrize("mask", [0, 0o777])
def test_files_are_for_their_owner_only_whatever_the_umask(mine: Liveness, folder: Path, mask: int) -> None:
    folder.mkdir(0o700)
    former = os.umask(mask)
    try:
        mine.enter(ME, 77)
    finally:
        os.umask(former)
    assert stat.S_IMODE(lock_of(folder).stat().st_mode) == 0o600


def test_a_missing_folder_is_made_for_its_owner_only(mine: Liveness, folder: Path) -> None:
    former = os.umask(0)
    try:
        mine.enter(ME, 77)
    finally:
        os.umask(former)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_beat_makes_a_file_again_that_a_cleaner_removed(mine: Liveness, theirs: Liveness, folder: Path) -> None:
    mine.enter(ME, 77)
    for path in (lock_of(folder), None):
        if path is None:
            lock_of(folder).unlink()
            folder.rmdir()
        else:
            path.unlink()
        assert isinstance(theirs.probe(ME), Dead)
        mine.beat(ME)
        assert isinstance(theirs.probe(ME), Alive)
    mine.leave(ME)
    assert os.listdir(folder) == []


def test_a_beat_does_not_trust_a_file_that_somebody_put_in_its_place(
    mine: Liveness, theirs: Liveness, folder: Path
) -> None:
    mine.enter(ME, 77)
    lock_of(folder).unlink()
    lock_of(folder).touch()
    assert isinstance(theirs.probe(ME), Dead)
    mine.beat(ME)
    assert isinstance(theirs.probe(ME), Alive)


def test_a_record_that_cannot_be_read_is_no_beat_at_all(mine: Liveness, theirs: Liveness, folder: Path) -> None:
    mine.enter(ME, 77)
    os.truncate(lock_of(folder), 10)
    assert theirs.probe(ME) == Alive(0, 0, "")
    mine.beat(ME)
    assert beat_of(theirs) != 0
    os.truncate(lock_of(folder), 0)
    mine.close()
    assert theirs.probe(ME) == Dead(certain=True, same_boot=False)


def test_a_record_with_a_wrong_byte_is_no_beat_at_all(mine: Liveness, theirs: Liveness, folder: Path) -> None:
    mine.enter(ME, 77)
    content = bytearray(lock_of(folder).read_bytes())
    content[3] ^= 1
    lock_of(folder).write_bytes(content)
    assert theirs.probe(ME) == Alive(0, 0, "")


def test_a_beat_for_another_is_seen_and_changes_nothing_else(
    mine: Liveness, theirs: Liveness, clock: FakeClock
) -> None:
    mine.enter(ME, 77)
    before = theirs.alive(ME)
    assert before is not None
    clock.advance(1)
    theirs.beat(ME)
    assert theirs.alive(ME) == replace(before, beat=clock.monotonic())
    assert not theirs.clean_window(ME, 60)


def test_nobody_beats_for_who_let_its_lock_go(mine: Liveness, theirs: Liveness, clock: FakeClock) -> None:
    mine.enter(ME, 77)
    mine.close()
    clock.advance(1)
    theirs.beat(ME)
    assert theirs.alive(ME) is None


def test_entering_again_through_the_same_store_changes_nothing(
    mine: Liveness, theirs: Liveness, clock: FakeClock
) -> None:
    mine.enter(ME, 77)
    before = theirs.probe(ME)
    clock.advance(1)
    mine.enter(ME, 77)
    assert theirs.probe(ME) == before


def test_an_incarnation_enters_once_and_the_second_takes_nothing_away(mine: Liveness, theirs: Liveness) -> None:
    mine.enter(ME, 77)
    with pytest.raises(BadPayload, match="entered before"):
        theirs.enter(ME, 78)
    assert isinstance(theirs.probe(ME), Alive)
    mine.beat(ME)
    theirs.close()
    assert isinstance(theirs.probe(ME), Alive)


def test_a_full_disk_makes_a_beat_unavailable_and_keeps_the_lock(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from ramify.errors import StoreUnavailable
from ramify.store.clock import SystemClock
from ramify.store.presence.liveness import Liveness
from ramify.store.presence.lock_record import Alive
folder = Path(sys.argv[1])
mine, theirs = (Liveness(folder / "a.db-live", SystemClock()) for _ in range(2))
mine.enter(1, 77)
with open(folder / "filler", "wb") as filler:
    try:
        while True:
            filler.write(bytes(4096))
            filler.flush()
    except OSError:
        pass
    try:
        filler.close()
    except OSError:
        pass
mine.beat(1)  # in place, it needs no room
assert isinstance(theirs.probe(1), Alive)
try:
    mine.enter(2, 77)
    print("there was room")
except StoreUnavailable as error:
    print(error)
assert isinstance(theirs.probe(1), Alive)
os.unlink(folder / "filler")
mine.enter(2, 77)
assert isinstance(theirs.probe(2), Alive)
"""
    script = """
    mount -t tmpfs -o size=256k none "$2"
    exec "$1" -c "$3" "$2"
    """
    assert "No space left" in with_own_mounts(script, tmp_path, program)


def test_a_folder_that_cannot_be_used_is_unavailable(folder: Path, mine: Liveness) -> None:
    folder.parent.joinpath(folder.name).touch()
    with pytest.raises(StoreUnavailable, match="lock file"):
        mine.enter(ME, 77)


def test_forgetting_removes_the_dead_and_leaves_the_living(mine: Liveness, theirs: Liveness, folder: Path) -> None:
    mine.enter(ME, 77)
    mine.enter(ME + 1, 77)
    theirs.forget(ME)
    mine.forget(ME)
    assert sorted(theirs.known()) == [ME, ME + 1]
    mine.close()
    theirs.forget(ME)
    theirs.forget(ME)
    assert theirs.known() == [ME + 1]


def test_a_dead_process_is_left_to_its_parent_for_a_while(mine: Liveness, clock: FakeClock) -> None:
    """A parent knows how its child died; but one that does not come in time is not waited for."""
    assert mine.is_left_to(ME, os.getpid())
    clock.advance(LEFT_TO_PARENT - 0.1)
    assert mine.is_left_to(ME, os.getpid())
    clock.advance(0.2)
    assert not mine.is_left_to(ME, os.getpid())


def test_without_a_parent_that_lives_nobody_waits(mine: Liveness) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    assert not mine.is_left_to(ME, None)
    assert not mine.is_left_to(ME, gone.pid)
    assert mine.is_left_to(ME, gone.pid, is_seen=False)


def test_a_reaper_leaves_a_child_to_its_parent(tmp_path: Path, clock: FakeClock) -> None:
    ours, dead = (SqliteStore(tmp_path / "a.db", clock=clock) for _ in range(2))
    ours.enter(NewProcess(1))
    dead.enter(NewProcess(2, parent=os.getpid()))
    dead.close()
    assert ours.reap(1, 60.0).processes == ()
    clock.advance(LEFT_TO_PARENT + 1)
    assert ours.reap(1, 60.0).processes == (2,)
    ours.close()


def test_only_lock_files_are_taken_for_processes(mine: Liveness, folder: Path) -> None:
    assert mine.known() == []
    mine.enter(ME, 77)
    for name in ("turn", "readme.lock", "notes.txt", f"{ME:016x}.new"):
        (folder / name).touch()
    assert mine.known() == [ME]
    assert mine.holder() is None


def test_who_is_writing_is_told_with_its_pid_and_since_when(mine: Liveness, theirs: Liveness, clock: FakeClock) -> None:
    mine.enter(ME, 77)
    mine.enter(ME + 1, 78)
    assert theirs.holder() is None
    assert theirs.holder_in_words() is None
    since = clock.monotonic()
    mine.writing(ME, since)
    clock.advance(2.5)
    mine.writing(ME + 1, clock.monotonic())
    assert theirs.holder() == Writer(ME, 77, since)
    assert theirs.holder_in_words() == "process 1234 (pid 77) has been writing for 2.5 s"
    mine.beat(ME)
    assert theirs.holder() == Writer(ME, 77, since)
    mine.writing(ME, None)
    mine.writing(ME + 1, None)
    assert theirs.holder() is None


def test_why_a_process_cannot_write_is_told_since_the_first_time_and_until_it_can(
    mine: Liveness, theirs: Liveness, clock: FakeClock, folder: Path
) -> None:
    mine.enter(ME, 77)
    size = lock_of(folder).stat().st_size
    since = clock.monotonic()
    mine.away(ME, "the disk is full é" + 300 * "!")
    clock.advance(5)
    mine.away(ME, "something else")
    mine.beat(ME)
    found = theirs.alive(ME)
    assert found is not None
    assert found.away == since
    assert theirs.age(found.away) == 5
    assert found.why.startswith("the disk is full é!")
    # Written in place: a full disk does not keep it from being said.
    assert lock_of(folder).stat().st_size == size
    mine.away(ME, None)
    found = theirs.alive(ME)
    assert found is not None
    assert (found.away, found.why) == (None, "")


def test_a_dead_process_is_not_taken_for_the_writer(mine: Liveness, theirs: Liveness, clock: FakeClock) -> None:
    mine.enter(ME, 77)
    mine.writing(ME, clock.monotonic())
    mine.close()
    assert theirs.holder() is None


def test_a_write_lock_that_does_not_come_names_the_process_that_has_it(tmp_path: Path) -> None:
    program = """
    import os, sys
    from pathlib import Path
    from ramify.store.clock import SystemClock
    from ramify.store.sqlite.file.link import Link
    from ramify.store.presence.liveness import Liveness
    from tests.store.sqlite.real import one_table
    clock = SystemClock()
    link = Link(sys.argv[1], on_first_open=one_table)
    liveness = Liveness(Path(f"{link.path}-live"), clock)
    liveness.enter(0x1234, os.getpid())
    link.on_writing = lambda begins: liveness.writing(0x1234, clock.monotonic() if begins else None)
    with link.write() as db:
        print("writing", flush=True)
        input()
    """
    with Child(program, tmp_path / "a.db") as other:
        assert other.hear() == "writing"
        with closing(Link(tmp_path / "a.db", on_first_open=one_table, busy_timeout=0.05)) as link:
            link.holder = Liveness(Path(f"{link.path}-live"), SystemClock()).holder_in_words
            words = rf"process 1234 \(pid {other.pid}\) has been writing for"
            with pytest.raises(StoreUnavailable, match=words), link.write():
                pass


def test_a_window_is_clean_after_dead_after_of_steady_beats_and_not_before(mine: Liveness, clock: FakeClock) -> None:
    mine.enter(ME, 77)
    for _ in range(11):
        assert not mine.clean_window(ME, 60)
        clock.advance(5)
        mine.beat(ME)
    assert not mine.clean_window(ME, 60)
    clock.advance(5)
    assert mine.clean_window(ME, 60)
    assert not mine.clean_window(ME, 61)


def test_a_gap_of_more_than_half_of_dead_after_starts_the_window_anew(mine: Liveness, clock: FakeClock) -> None:
    mine.enter(ME, 77)
    for seconds in (30, 30):
        clock.advance(seconds)
        mine.beat(ME)
    assert mine.clean_window(ME, 60)
    clock.advance(30.1)
    assert not mine.clean_window(ME, 60)
    mine.beat(ME)
    gap_ended = clock.monotonic()
    for seconds in (20, 20, 19):
        clock.advance(seconds)
        mine.beat(ME)
        assert not mine.clean_window(ME, 60)
    clock.advance(1)
    assert mine.clean_window(ME, 60)
    found = mine.probe(ME)
    assert isinstance(found, Alive)
    assert found.since == gap_ended


def test_a_gap_can_matter_to_one_dead_after_and_not_to_another(mine: Liveness, clock: FakeClock) -> None:
    mine.enter(ME, 77)
    for _ in range(10):
        clock.advance(20)
        mine.beat(ME)
    assert mine.clean_window(ME, 40)
    assert not mine.clean_window(ME, 39)
    assert mine.clean_window(ME, 200)


def clean_by_definition(beats: list[int], now: int, window: int) -> bool:
    """Some beat is at least a window old, and from it to now no two neighbours are over half a window apart."""
    return any(
        now - beats[i] >= window and all(b - a <= window // 2 for a, b in pairwise([*beats[i:], now]))
        for i in range(len(beats))
    )


@given(
    gaps=st.lists(st.integers(0, 30), max_size=40),
    silence=st.integers(0, 30),
    window=st.integers(1, 100),
)
def test_gaps_answer_exactly_for_every_window(gaps: list[int], silence: int, window: int) -> None:
    beats = [0]
    found = Gaps(0)
    for gap in gaps:
        beats.append(beats[-1] + gap)
        found.beat(beats[-1])
    now = beats[-1] + silence
    assert found.are_clean(now, window) == clean_by_definition(beats, now, window)


def test_gaps_stay_few_while_beats_go_on_for_ever() -> None:
    gaps = Gaps(0)
    for n in range(100_000):
        gaps.beat(gaps.last + 5_000_000 + (n * 7919) % 1000)
    assert len(gaps.ends) < 30


def test_a_killed_process_is_dead_at_once(folder: Path) -> None:
    theirs = Liveness(folder, SystemClock())
    with Child(HOLDER, folder) as holder:
        assert holder.hear() == "entered"
        found = theirs.probe(ME)
        assert isinstance(found, Alive)
        assert found.pid == holder.pid
        holder.kill()
        assert theirs.probe(ME) == Dead(certain=True, same_boot=True)


def test_a_stopped_process_is_held_and_its_beat_stands_still(folder: Path) -> None:
    theirs = Liveness(folder, SystemClock())
    with Child(HOLDER, folder) as holder:
        assert holder.hear() == "entered"
        holder.say("liveness.beat(me)")
        assert holder.hear() == "did it"
        os.kill(holder.pid, signal.SIGSTOP)
        before = theirs.probe(ME)
        assert isinstance(before, Alive)
        assert theirs.probe(ME) == before
        os.kill(holder.pid, signal.SIGCONT)
        holder.say("liveness.beat(me)")
        assert holder.hear() == "did it"
        after = theirs.probe(ME)
        assert isinstance(after, Alive)
        assert after.beat > before.beat


@pytest.mark.parametrize(
    "fork",
    [
        "pid = os.fork() or (print('child', flush=True), signal.pause())",
        "import multiprocessing; c = multiprocessing.get_context('fork').Process("
        "target=lambda: (print('child', flush=True), signal.pause()), daemon=True); c.start(); pid = c.pid",
        "import subprocess; pid = subprocess.Popen(['sh', '-c', 'echo child; exec sleep 600']).pid",
    ],
    ids=["os.fork", "multiprocessing", "subprocess"],
)
def test_a_child_that_outlives_its_killed_parent_does_not_keep_the_lock(folder: Path, fork: str) -> None:
    theirs = Liveness(folder, SystemClock())
    with Child(HOLDER, folder) as holder:
        assert holder.hear() == "entered"
        holder.say(f"{fork}; print(pid, flush=True)")
        (grandchild,) = {holder.hear() for _ in range(3)} - {"child", "did it"}
        try:
            assert isinstance(theirs.probe(ME), Alive)
            holder.kill()
            os.kill(int(grandchild), 0)
            assert theirs.probe(ME) == Dead(certain=True, same_boot=True)
        finally:
            os.kill(int(grandchild), signal.SIGKILL)


def test_a_forked_child_neither_frees_the_lock_nor_uses_it(mine: Liveness, theirs: Liveness) -> None:
    mine.enter(ME, 77)
    assert in_forked_child(lambda: str(mine.beat(ME))).startswith("StoreRefused")  # type: ignore[func-returns-value]
    assert in_forked_child(lambda: str(mine.close())) == "None"  # type: ignore[func-returns-value]
    assert isinstance(theirs.probe(ME), Alive)
    mine.beat(ME)


def test_a_forked_child_may_probe(mine: Liveness) -> None:
    mine.enter(ME, 77)
    assert in_forked_child(lambda: type(mine.probe(ME)).__name__) == "Alive"
