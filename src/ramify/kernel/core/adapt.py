"""Adaptation: how many tasks at a time, from what was measured. Pure arithmetic; the caller brings time and numbers.

Threads that wait leave the processor idle, so more of them help; threads that compute in Python stand in line for one
lock, so more of them hurt. Whether this process keeps a core busy tells the two apart and gives the direction; the
measured throughput then decides whether a step was right, and one that was wrong is taken back and not tried again for
a while. Lack of memory halves the number at once; it grows back slowly.

Says nothing about single kinds: what few of one kind may do at a time is a limit, and leaves the workers to the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from ramify.kernel.tuning import ADAPT_WINDOW, BUSY, GAIN, IDLE, ONE_CORE, PROVEN, SETTLED_FOR


@dataclass(slots=True)
class Window:
    """The events since it began."""

    began: float
    cpu: float
    tasks: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    starved: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A new number, and why."""

    before: int
    now: int
    why: str


class Adapter:
    """The number of threads, or of coroutines. With `fixed` it never changes."""

    def __init__(self, of: str, first: int, most: int, *, fixed: bool = False) -> None:
        self.of = of
        self.target = first
        self._most = most
        self._fixed = fixed
        self._window: Window | None = None
        self._before: tuple[int, float] | None = None
        self._settled_until = 0.0
        self._ceiling = most

    def ran(self, tasks: int, seconds: float, busy: float, now: float, cpu: float) -> None:
        """Some tasks came back: so long they took, so much of it they computed.

        `cpu` is the processor time this whole process has used so far.
        """
        window = self._window
        if window is None:
            window = self._window = Window(now, cpu)
        window.tasks += tasks
        window.seconds += seconds
        window.busy += busy

    def starved(self) -> None:
        """There was less work than workers, in the store too: what is seen says nothing about more of them."""
        if self._window is not None:
            self._window.starved = True

    def judge(self, now: float, scarce: bool, cpu: float) -> Change | None:
        """Look at the window, if it is long enough; `scarce` when memory is."""
        if self._fixed:
            return None
        if scarce and self.target > 1 and now >= self._settled_until:
            self._settled_until = now + 1.0
            self._before = self._window = None
            self._ceiling = max(1, self.target // 2)
            return self._set(self._ceiling, "memory is scarce")
        window = self._window
        if window is None or now - window.began < ADAPT_WINDOW or window.tasks < self.target:
            return None
        self._window = None
        elapsed = now - window.began
        rate, cores = window.tasks / elapsed, (cpu - window.cpu) / elapsed
        # Standing in line for Python's lock makes tasks look idle, but no more so than by as many as stand there.
        computes = window.busy * 2 * (self.target + 1) > window.seconds
        if window.starved:
            self._before = None
            if now >= self._settled_until and cores > BUSY and computes:
                return self._fewer(cores, rate)
            return None
        waits = window.busy < BUSY * window.seconds
        return self._verdict(rate, now) or self._next(cores, computes, waits, rate, now)

    def _verdict(self, rate: float, now: float) -> Change | None:
        """Was the last step right? If not, go back."""
        if self._before is None:
            return None
        (number, old), self._before = self._before, None
        grew = self.target > number
        if grew and rate < GAIN * old:
            self._settled_until = now + SETTLED_FOR
            return self._set(number, "more did not help")
        if not grew and rate < old / GAIN:
            self._settled_until = now + SETTLED_FOR
            return self._set(number, "fewer were slower")
        return None

    def _next(self, cores: float, computes: bool, waits: bool, rate: float, now: float) -> Change | None:
        if now < self._settled_until:
            return None
        self._ceiling = min(self._most, 2 * self._ceiling)
        if cores > BUSY:
            return self._fewer(cores, rate) if computes else None
        if waits and self.target < self._ceiling:
            self._before = (self.target, rate)
            # As many as would fill the core, in steps: the further off, the larger.
            return self._set(min(self._ceiling, (4 if cores < IDLE else 2) * self.target), "tasks wait")
        return None

    def _fewer(self, cores: float, rate: float) -> Change | None:
        """They compute: no more of them than there are cores at work for them."""
        if self.target == 1 or self.target > PROVEN or cores > BUSY * self.target:
            # Each computes on a core of its own: the handler lets go of Python's lock.
            return None
        if cores > ONE_CORE:
            # Some of them ran side by side; whether fewer do as well must be seen.
            self._before = (self.target, rate)
        return self._set(max(1, min(self.target - 1, round(cores))), "tasks compute")

    def _set(self, target: int, why: str) -> Change:
        change = Change(self.target, target, why)
        self.target = target
        return change
