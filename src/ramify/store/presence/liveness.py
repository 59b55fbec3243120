"""Liveness: who is alive, told by lock files in one folder.

Each process holds a `flock` on a file of its own, `<folder>/<process>.lock`, for as long as it lives:

    lock free, or file gone   dead, for certain and at once: the kernel frees it with the process
    lock held                 not known; the beat decides, for a forked child may have kept the lock

A beat is a small write to that file (monotonic time, boot id, pid), not to the database: it waits behind no commit and
costs no fsync. The file also tells people whether its process is inside a write transaction and since when, and since
when and why it cannot write at all; it is written in place, so that a full disk does not keep it from saying so.

A process may call others dead for their silence only if it has itself beaten without a gap for as long
(`clean_window`): after a suspended laptop or a stalled disk everybody looks silent to whoever wakes first.

Nothing is decided here. A file that a cleaner removed is made again by the next beat; until then its process looks
dead, which is safe: its claims are offered again and its own late commit is refused.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ramify.errors import BadPayload, StoreRefused, StoreUnavailable
from ramify.store import forks, here
from ramify.store.clock import Clock
from ramify.store.contract import GAP_SHARE, LEFT_TO_PARENT
from ramify.store.presence.lock_record import Alive, beat_for, read
from ramify.store.record import remove

SECOND = 1_000_000
UNKNOWN_BOOT = "unknown"


@dataclass(frozen=True, slots=True)
class Dead:
    """The process is gone. `same_boot` is False when the machine was restarted since, or nothing is left to tell."""

    certain: bool = False
    same_boot: bool = True


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that holds the write lock now, and since when (monotonic)."""

    process: int
    pid: int
    since: int


@dataclass(slots=True)
class Gaps:
    """The gaps between the beats of one process: enough of them to answer for any length of window.

    Only a gap that no later one equals matters, so `ends` holds them in falling order of length, each with the time it
    ended. Entering counts as a gap without beginning.
    """

    last: int
    ends: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends.append((float("inf"), self.last))

    def beat(self, now: int) -> None:
        """Take note of a beat."""
        gap = now - self.last
        while self.ends[-1][0] <= gap:
            self.ends.pop()
        self.ends.append((gap, now))
        self.last = now

    def since(self, longest: int) -> int:
        """When the last gap longer than `longest` ended."""
        return next(end for gap, end in reversed(self.ends) if gap > longest)

    def are_clean(self, now: int, window: int) -> bool:
        """Return whether there was no gap over its share of the window in the whole window up to now."""
        longest = window // GAP_SHARE
        return now - self.last <= longest and now - self.since(longest) >= window


@dataclass(slots=True)
class _Held:
    """A lock file of this process."""

    process: int
    pid: int
    path: Path
    gaps: Gaps
    file: int = -1
    writing: int | None = None
    away: int | None = None
    why: str = ""
    number: int = 0


class Liveness:
    """The lock files of one folder: those this process holds, and those of others."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        boot_id: str | None = None,
        dead_after: float = 60.0,
        durability: str = "",
    ) -> None:
        """`dead_after` only decides which gaps `since` tells others about; the verdict takes its own."""
        self.folder = folder
        self._clock = clock
        self._boot_id = this_boot() if boot_id is None else boot_id
        self._longest_gap = int(dead_after * SECOND) // GAP_SHARE
        self._durability = durability
        self._lock = threading.Lock()
        self._held: dict[int, _Held] = {}
        self._found_dead: dict[int, int] = {}
        self._orphaned = False
        forks.register(self)

    def enter(self, process: int, pid: int) -> None:
        """Take this process's lock. Call it before its row is written, so that no row is ever without its lock.

        Entering again through the same store changes nothing: the row may not have been written the first time.
        """
        with self._mine():
            if process in self._held:
                return
            held = _Held(process, pid, self._path(process), Gaps(self._clock.monotonic()))
            if os.path.lexists(held.path):
                raise BadPayload(f"process {process:x} has entered before; an incarnation enters once")
            self._create(held)
            self._held[process] = held

    def beat(self, process: int) -> None:
        """Say "alive", in place of a process that entered elsewhere if need be. Also mends a lock file that is gone."""
        with self._mine():
            held = self._held.get(process)
            if held is None:
                beat_for(self._path(process), self._clock.monotonic())
                return
            held.gaps.beat(self._clock.monotonic())
            if _is_at(held.file, held.path):
                self._write(held)
            else:
                self._create(held)

    def leave(self, process: int) -> None:
        """Let the lock go and remove its file. Does nothing for a process that did not enter here."""
        with self._mine():
            held = self._held.pop(process, None)
            if held is not None:
                with suppress(OSError):
                    if _is_at(held.file, held.path):
                        os.unlink(held.path)
                os.close(held.file)

    def close(self) -> None:
        """Let all locks go; their processes are dead to others from now on. The files stay and tell of which boot."""
        with self._lock:
            for held in self._held.values():
                os.close(held.file)
            self._held.clear()

    def writing(self, process: int, since: int | None) -> None:
        """Note that this process got the write lock, or let it go. For people only, so trouble here is ignored."""
        with self._mine():
            held = self._held.get(process)
            if held is not None:
                held.writing = since
                with suppress(StoreUnavailable):
                    self._write(held)

    def numbered(self, process: int, number: int) -> None:
        """Note which verb of this process was committed last; it is written with whatever is written next."""
        with self._mine():
            held = self._held.get(process)
            if held is not None:
                held.number = number

    def away(self, process: int, why: str | None) -> None:
        """Note why this process cannot write, or with None that it can; it stays away since the first time."""
        with self._mine():
            held = self._held.get(process)
            if held is None or (why is None) == (held.away is None):
                return
            held.away, held.why = (None, "") if why is None else (self._clock.monotonic(), why)
            with suppress(StoreUnavailable):
                self._write(held)

    def probe(self, process: int) -> Alive | Dead:
        """Return what the lock file of any process tells."""
        try:
            file = os.open(self._path(process), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            # Where the store itself is not, nothing is known: all may be back in a moment.
            if isinstance(error, FileNotFoundError) and os.path.isdir(self.folder.parent):
                return Dead(certain=True, same_boot=False)
            raise self._trouble(error) from error
        try:
            # Shared, so that two who probe at once do not take each other for the process.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return read(file) or Alive(0, 0, "")
        except OSError as error:
            raise self._trouble(error) from error
        else:
            found = read(file)
            return Dead(certain=True, same_boot=found is not None and found.boot_id == self._boot_id)
        finally:
            os.close(file)

    def alive(self, process: int) -> Alive | None:
        """Return what a living process tells; None when it is dead."""
        found = self.probe(process)
        return found if isinstance(found, Alive) else None

    def age(self, since: int) -> float:
        """The seconds since a time that a lock file told."""
        return max(0, self._clock.monotonic() - since) / SECOND

    def judge(self, reaper: int, process: int, dead_after: float) -> Dead | None:
        """Return whether a process is dead to a reaper: for certain, or because it was silent for too long."""
        found = self.probe(process)
        if isinstance(found, Dead):
            return found
        silent = self._clock.monotonic() - found.beat > dead_after * SECOND
        return Dead() if silent and self.clean_window(reaper, dead_after) else None

    def clean_window(self, process: int, dead_after: float) -> bool:
        """Return whether this process has beaten for `dead_after` seconds without a gap, and may judge others."""
        with self._mine():
            held = self._held.get(process)
            return held is not None and held.gaps.are_clean(self._clock.monotonic(), int(dead_after * SECOND))

    def holder(self) -> Writer | None:
        """The process that has been writing longest; None when no lock file says so."""
        writers = []
        for process in self.known():
            found = self.probe(process)
            if isinstance(found, Alive) and found.writing is not None:
                writers.append(Writer(process, found.pid, found.writing))
        return min(writers, key=lambda writer: writer.since, default=None)

    def holder_in_words(self) -> str | None:
        """Describe the process that is writing, for the text of a time-out."""
        writer = self.holder()
        if writer is None:
            return None
        return f"process {writer.process:x} (pid {writer.pid}) has been writing for {self.age(writer.since):.1f} s"

    def known(self) -> list[int]:
        """The processes that have a lock file, dead or alive."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._trouble(error) from error
        found = []
        for name in names:
            with suppress(ValueError):
                if name.endswith(".lock"):
                    found.append(int(name.removesuffix(".lock"), 16))
        return found

    def committed(self) -> dict[int, Alive]:
        """Return what processes of this boot, dead or alive, noted as committed: the database must hold as much.

        Only of this boot: when the machine goes down, a note may outlive a commit that was not made safe for that.
        """
        found = {}
        for process in self.known():
            with suppress(OSError):
                file = os.open(self._path(process), os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    told = read(file)
                finally:
                    os.close(file)
                if told is not None and told.number and told.boot_id == self._boot_id != UNKNOWN_BOOT:
                    found[process] = told
        return found

    def forget_dead(self) -> None:
        """Remove the lock files of all dead processes: what they worked on is no more."""
        self.forget(*self.known())

    def forget(self, *processes: int) -> None:
        """Remove the lock files of dead processes; those of living ones stay."""
        for process in processes:
            if process not in self._held and isinstance(self.probe(process), Dead):
                with suppress(OSError):
                    os.unlink(self._path(process))
                remove(self.folder, process)
                self._found_dead.pop(process, None)

    def is_left_to(self, process: int, parent: int | None, is_seen: bool = True) -> bool:
        """Return whether a dead process is still left to its parent, who knows more about its death, and lives.

        A parent that cannot be seen from here, in another container say, may live.
        """
        if parent is None or (is_seen and not _is_running(parent)):
            return False
        now = self._clock.monotonic()
        return now - self._found_dead.setdefault(process, now) < LEFT_TO_PARENT * SECOND

    def orphan(self) -> None:
        """In a forked child: close the locks without unlocking, so that they end with the parent."""
        self._orphaned = True
        self._lock = threading.Lock()
        for held in self._held.values():
            with suppress(OSError):
                os.close(held.file)
        self._held.clear()

    def _mine(self) -> threading.Lock:
        """Return the lock on what this process holds. Not a generator: Ctrl-C can strike as one ends, and it would hold
        the lock until the error is forgotten, while the next step of that very thread waits for it.
        """
        if self._orphaned:
            raise StoreRefused(
                f"{self.folder}: this process was forked from the one that holds these locks. Open the store again"
            )
        return self._lock

    def _path(self, process: int) -> Path:
        return self.folder / f"{process:016x}.lock"

    def _create(self, held: _Held) -> None:
        """Put a new lock file in place, locked before anybody can see it."""
        unnamed = held.path.with_suffix(".new")
        file = -1
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            unnamed.unlink(missing_ok=True)
            file = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            os.fchmod(file, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(file, self._record(held), 0)
            # CRASH: an unlocked `.new` file -> nobody looks at it, and it holds nothing.
            os.replace(unnamed, held.path)
        except OSError as error:
            if file >= 0:
                os.close(file)
            raise self._trouble(error) from error
        if held.file >= 0:
            os.close(held.file)
        held.file = file

    def _write(self, held: _Held) -> None:
        try:
            os.pwrite(held.file, self._record(held), 0)
        except OSError as error:
            raise self._trouble(error) from error

    def _record(self, held: _Held) -> bytes:
        gaps = held.gaps
        told = Alive(
            gaps.last, gaps.since(self._longest_gap), self._boot_id, held.pid, held.writing, held.away, held.why,
            held.number, self._durability,
        )  # fmt: skip
        return told.encode()

    def _trouble(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"{self.folder}: a lock file cannot be used ({error.strerror}); try again")


def this_boot() -> str:
    """A name for the time since this machine was started; one for all times where the system does not tell."""
    return here.boot() or UNKNOWN_BOOT


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It belongs to somebody else, so it is there.
        return True
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        named = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    found = os.fstat(file)
    return (named.st_dev, named.st_ino) == (found.st_dev, found.st_ino)
