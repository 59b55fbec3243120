"""Pressure: whether this process should hold less memory, whether one was killed for holding too much, and whether a
process has used up its file descriptors.

Memory is measured on Linux; elsewhere it is never called scarce.
"""

from __future__ import annotations

import contextlib
import errno
import os
from functools import cache
from pathlib import Path

from ramify.kernel.tuning import FREE_SHARE, OWN_SHARE

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")
_VMSTAT = Path("/proc/vmstat")
_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")
_PAGE = 4096


def is_scarce() -> bool:
    """Return whether memory is scarce right now."""
    resident = resident_bytes()
    limit = _limit()
    if resident is not None and limit is not None and resident > OWN_SHARE * limit:
        return True
    total, free = _machine()
    # Only who uses much can help by using less.
    return total > 0 and free < FREE_SHARE * total and (resident or 0) > 0.1 * total


def resident_bytes() -> int | None:
    """The memory this process uses; None where nobody tells."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


def is_out_of_files() -> bool:
    """Return whether this process cannot open one more file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


def out_of_memory_kills() -> int | None:
    """How often a process of our group was killed for lack of memory; of the machine where groups do not count them."""
    for path in _kill_counts():
        with contextlib.suppress(OSError, ValueError):
            counts = dict(line.split() for line in path.read_text().splitlines())
            if "oom_kill" in counts:
                return int(counts["oom_kill"])
    return None


@cache
def _kill_counts() -> tuple[Path, ...]:
    """Where that is counted, best first."""
    found = []
    with contextlib.suppress(OSError):
        for line in _OWN_GROUP.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            # In a container the name may be that outside of it, where we cannot look.
            for group in (name.lstrip("/"), ""):
                if not controllers:
                    found.append(_GROUPS / group / "memory.events")
                elif "memory" in controllers.split(","):
                    found.append(_GROUPS / "memory" / group / "memory.oom_control")
    return (*found, _VMSTAT)


@cache
def _limit() -> int | None:
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return None


def _machine() -> tuple[int, int]:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return 0, 0
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if len(line.split()) > 1}
    return kilobytes.get("MemTotal", 0) * 1024, kilobytes.get("MemAvailable", 0) * 1024
