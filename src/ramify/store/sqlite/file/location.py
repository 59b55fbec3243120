"""The location of a database file: whether SQLite can keep our promises there.

A file system that another kernel can write to, a file with several names, or one that everybody may write, breaks them
in ways no test of ours would see. So such locations are refused when the store is opened, each with what to do instead.
A missing file is created here, readable by its owner only.

Deliberately absent: any repair. Nothing is chmodded, moved or deleted. File systems are told apart on Linux only; on
other systems a network file system is not noticed.
"""

from __future__ import annotations

import ctypes
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ramify.errors import StoreBroken, StoreRefused, StoreUnavailable
from ramify.store.clock import SystemClock
from ramify.store.presence.liveness import Liveness
from ramify.store.sqlite.file.file_watch import check_not_overwritten, forget_overwritten
from ramify.store.sqlite.file.guard import guard
from ramify.store.sqlite.file.posix_locks import user_without_shm
from ramify.store.sqlite.file.write_queue import nap

#: The first with the cure for the WAL-reset race, which corrupts databases that two processes write.
OLDEST_SQLITE = (3, 51, 3)

_MAGIC = b"SQLite format 3\0"
#: What SQLite's unix file layer can name, less the longest ending it adds itself.
_LONGEST_PATH = 512 - len("-journal") - 1

_LOCAL_ADVICE = (
    "put the store on a local disk of this machine, or use postgresql:// when several machines must share it"
)
_RESTORE = "Put the file back together with its -wal, or restore a backup"
#: How long another process may take to open its files or to close them.
_OPENING_SECONDS = 1.0
#: `f_type` of file systems where locks or shared memory do not reach every process that can open the file.
_FOREIGN = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x01021997: "9p (a folder shared from outside this virtual machine or sandbox)",
    0x65735546: "FUSE (sshfs, virtiofs and other folders served by a program)",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x564C: "NCP",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0x7461636F: "OCFS2",
    0x01161970: "GFS2",
    0xAAD7AAEA: "PanFS",
    0x786F4256: "VirtualBox's shared folders",
    0xBACBACBC: "VMware's shared folders",
    0x7C7C6673: "Parallels' shared folders",
}


def check_sqlite_version(version: str) -> None:
    """Refuse a SQLite that can corrupt a database which several processes write."""
    numbers = tuple(int(part) for part in version.split("."))
    if numbers < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreRefused(
            f"SQLite {version} can corrupt a database that two processes write (its WAL-reset bug); "
            f"{oldest} or newer is needed: pip install --upgrade apsw"
        )


def check_there(path: str | os.PathLike[str]) -> None:
    """StoreBroken when a file that was there is not any more, StoreUnavailable when its folder is not."""
    if not os.path.lexists(path):
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise StoreUnavailable(f"{folder}: the folder of the store is gone or was moved away. Put it back")
        raise StoreBroken(
            f"{os.path.abspath(path)} was moved or deleted while work was going on. Stop all processes that use it and "
            "put the file back together with its -wal, or restore a backup; no new store is made in its place"
        )


def check_location(path: str | os.PathLike[str], *, fs_type: Callable[[Path], int] | None = None) -> Path:
    """The absolute path of a regular file that exists and may be opened as a database, created if it was missing.

    A crash right after the creation leaves an empty file, which is a fresh store to the next one.
    """
    where = _in_real_folder(path)
    ask = fs_type if fs_type is not None else file_system_type
    _check_file_system(where.parent, ask)
    _check_permission(where.parent, "folder", os.W_OK | os.X_OK)
    with guard.lock:
        if not os.path.lexists(where):
            _check_not_left_behind(where)
            _create(where)
        return check_file(where, fs_type=ask)


def check_file(where: Path, *, wanted: int = os.R_OK | os.W_OK, fs_type: Callable[[Path], int] | None = None) -> Path:
    """The same path, once it is known to name a regular file with one name that may be opened as a database."""
    with guard.lock:
        found = _check_file(where)
        check_not_overwritten(where)
        _check_file_system(where, fs_type if fs_type is not None else file_system_type)
        _check_permission(where, "file", wanted)
        if not guard.is_live((found.st_dev, found.st_ino)):
            _check_first_bytes(where)
    return where


def make_live_folder(where: Path) -> None:
    """Create the folder beside a database for its lock files, if it is missing."""
    folder = _live(where)
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    except OSError as error:
        raise StoreRefused(f"{folder}: the folder for lock files cannot be created ({error.strerror})") from error
    check_live_folder(where)


def check_live_folder(where: Path) -> None:
    """Refuse a folder for lock files that others may write in; one that is missing will do."""
    folder = _live(where)
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreRefused(f"{folder}: the folder for lock files cannot be looked at ({error.strerror})") from error
    if not stat.S_ISDIR(found.st_mode):
        raise StoreRefused(f"{folder} must be a folder for lock files, and is not. Move it away")
    if found.st_mode & stat.S_IWOTH:
        raise StoreRefused(f"{folder} may be written by everybody on this machine. Run: chmod o-w {folder}")


def file_system_type(path: Path) -> int:
    """The kernel's number for the file system that holds a path; 0 where it cannot be asked."""
    if os.uname().sysname != "Linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    # `struct statfs` begins with the type and is 120 bytes long on 64-bit machines.
    answer = (ctypes.c_long * 64)()
    if libc.statfs(os.fsencode(path), ctypes.byref(answer)) != 0:
        number = ctypes.get_errno()
        raise StoreRefused(f"{path}: its file system cannot be asked what it is ({os.strerror(number)})")
    return answer[0] & 0xFFFFFFFF


def _in_real_folder(path: str | os.PathLike[str]) -> Path:
    given = Path(path)
    if given.name in ("", "..") or "\0" in str(given):
        raise StoreRefused(f"{str(given)!r} does not name a file")
    try:
        # SQLite refuses a path with a symbolic link anywhere in it, so folders are resolved first.
        folder = os.path.realpath(given.parent, strict=True)
    except OSError as error:
        raise StoreRefused(
            f"{given}: its folder cannot be opened ({error.strerror}). Create {given.parent} first"
        ) from error
    where = Path(folder, given.name)
    if not os.path.isdir(folder):
        raise StoreRefused(f"{given}: {folder} is not a folder")
    try:
        length = len(str(where).encode())
    except UnicodeEncodeError as error:
        raise StoreRefused(f"{where!r}: SQLite needs a path that is valid UTF-8. Give the file another name") from error
    if length > _LONGEST_PATH:
        raise StoreRefused(f"{where}: its path has {length} bytes and SQLite takes {_LONGEST_PATH}. Use a shorter one")
    return where


def _check_file_system(path: Path, fs_type: Callable[[Path], int]) -> None:
    name = _FOREIGN.get(fs_type(path))
    if name is not None:
        raise StoreRefused(f"{path} is on {name}, where SQLite's locks do not hold; {_LOCAL_ADVICE}")


def _check_permission(path: Path, what: str, wanted: int) -> None:
    if not os.access(path, wanted):
        verb = "write" if wanted & os.W_OK else "read"
        reason = ", or its file system is read-only" if wanted & os.W_OK else ""
        raise StoreRefused(f"{path}: this user may not {verb} this {what}{reason}")


def _check_not_left_behind(where: Path) -> None:
    """Refuse to begin anew while a process has the store that is gone, and beside its log.

    Lock files of its dead mean nothing any more.
    """
    _check_not_in_use(where)
    if _size(f"{where}-wal"):
        raise StoreRefused(
            f"{where} is gone, and its write-ahead log is still there with what was committed last. {_RESTORE}, or "
            f"remove {where}-wal to begin anew"
        )
    Liveness(_live(where), SystemClock()).forget_dead()
    forget_overwritten(where)


def _check_not_in_use(where: Path) -> None:
    """Refuse to do without a file that is not there while a living process has it open."""
    pids = _users(where)
    # Looked for last: whoever creates the file at this moment has it before it has a lock.
    if pids and not os.path.lexists(where):
        raise StoreRefused(
            f"{where} was moved or deleted while it was open in {pids}. Stop {pids} first. {_RESTORE}; who opens it "
            "then without either begins anew"
        )


def _users(where: Path) -> str:
    """The living processes that have the store open, in words; empty without any."""
    liveness = Liveness(_live(where), SystemClock())
    alive = filter(None, map(liveness.alive, liveness.known()))
    return " and ".join(f"process {pid}" for pid in sorted({each.pid for each in alive}))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _live(where: Path) -> Path:
    return Path(f"{where}-live")


def _create(where: Path) -> None:
    try:
        descriptor = os.open(where, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600)
    except FileExistsError:
        return  # another process was faster; its file is checked like any other
    except OSError as error:
        raise StoreRefused(f"{where}: the file cannot be created ({error.strerror})") from error
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _check_file(where: Path) -> os.stat_result:
    found = os.lstat(where)
    if stat.S_ISLNK(found.st_mode):
        raise StoreRefused(
            f"{where} is a symbolic link; two names of one database get two write-ahead logs, so give the real path: "
            f"{os.path.realpath(where)}"
        )
    if stat.S_ISDIR(found.st_mode):
        raise StoreRefused(f"{where} is a folder. Give the path of a file, such as {where / 'ramify.db'}")
    if not stat.S_ISREG(found.st_mode):
        raise StoreRefused(f"{where} is not a regular file (a device, a pipe or a socket)")
    if found.st_mode & stat.S_IWOTH:
        raise StoreRefused(f"{where} may be written by everybody on this machine. Run: chmod o-w {where}")
    if found.st_nlink > 1:
        raise StoreRefused(
            f"{where} has {found.st_nlink} names (hard links); two names of one database get two write-ahead logs, so "
            "remove the others, and copy stores with `ramify backup`"
        )
    if _is_mounted_alone(where):
        raise StoreRefused(
            f"{where} is mounted as a single file, so its write-ahead log beside it would stay behind; mount its folder"
        )
    return found


def _is_mounted_alone(where: Path) -> bool:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            points = {line.split(" ", 5)[4] for line in lines}
    except OSError:
        return False
    name = str(where)
    for character in "\\ \t\n":
        name = name.replace(character, f"\\{ord(character):03o}")
    return name in points


def _check_first_bytes(where: Path) -> None:
    # Looked for first: whoever creates the file at this moment has its first bytes in it before any of these.
    was_used = bool(_size(f"{where}-wal") or Liveness(_live(where), SystemClock()).known())
    descriptor = os.open(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        head = os.read(descriptor, len(_MAGIC))
        if head == _MAGIC:
            _check_shm(where, descriptor)
    finally:
        os.close(descriptor)
    # An empty file is a fresh store, unless there are signs that it was used. With a rollback journal beside it, a
    # power cut hit the very first write, and SQLite will undo it.
    if not head and was_used:
        stop = f"Stop {pids} first. " if (pids := _users(where)) else ""
        raise StoreRefused(
            f"{where} is empty, although it was a store: somebody emptied it. {stop}{_RESTORE}, or remove {where}-wal "
            f"and {where}-live to begin anew"
        )
    if head not in (b"", _MAGIC) and not os.path.lexists(f"{where}-journal"):
        raise StoreRefused(f"{where} is not a SQLite database. Give Ramify a file of its own")


def _check_shm(where: Path, descriptor: int) -> None:
    """Refuse to make a new -shm while a process has the file open with one that was removed: it would not see us."""
    end = time.monotonic() + _OPENING_SECONDS
    while (pid := user_without_shm(descriptor, f"{where}-shm")) is not None:
        # Whoever opens or closes the file at this moment has one lock without the other.
        if time.monotonic() > end:
            again = "SQLite makes the file anew from the -wal"
            if not os.path.lexists(f"{where}-wal"):
                again = f"without {where.name}-wal, which is gone as well, the last commits are missing"
            raise StoreRefused(
                f"{where}-shm was moved, replaced or deleted while the store was open in process {pid}. Stop all "
                f"processes that use the store, then start them again: {again}"
            )
        nap(10)
