"""Crash points: named places between two durable steps at which a test can end, break or freeze the process.

`reach(name)` does nothing unless a test armed that name in this very process. A point belongs in `POINTS`, and the
crash tests go through all of them: a point that no test reaches fails the build.
"""

from __future__ import annotations

from collections.abc import Callable

#: Every point, in the order of a task's way through the kernel.
POINTS = (
    "entered",
    "before-claim",
    "after-claim",
    "leased",
    "before-attempt",
    "after-attempt",
    "before-stage",
    "after-stage",
    "before-commit",
    "after-commit",
    "before-advance",
    "after-advance",
    "before-beat",
    "after-beat",
    "before-reap",
    "after-reap",
    "before-release",
    "after-release",
    "before-reserve",
    "after-reserve",
    "before-retry",
    "before-note",
    "draining",
    "before-leave",
    "after-leave",
)

_armed: dict[str, Callable[[], None]] = {}


def arm(name: str, action: Callable[[], None]) -> None:
    """Call `action` whenever the point is reached from now on."""
    if name not in POINTS:
        raise ValueError(f"no crash point {name!r}; there are {', '.join(POINTS)}")
    _armed[name] = action


def disarm() -> None:
    """Forget every armed point."""
    _armed.clear()


def reach(name: str) -> None:
    """Say that this point was reached."""
    if _armed and (action := _armed.get(name)) is not None:
        action()
