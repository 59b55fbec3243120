"""How much: tasks to hold in memory, to claim at once, to lease at once. From measured times, nothing else.

A window of about half a second of work is held beside what runs, so that a new job of another run waits for no more
than that and one task; of tasks that take longer, or were never measured, nothing. Where tasks become longer, what is
held by then may be far too much, and some of it goes back. Claims start small, at most double from one to the next, and
leave the others their share of what is left. Chunks hold a few milliseconds of work, down to one task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from ramify.kernel.tuning import (
    CHUNK_AT_MOST,
    CHUNK_SECONDS,
    CLAIM_SECONDS,
    FORGOTTEN_AFTER,
    HALF_FORGOTTEN,
    HORIZON,
    NEAR,
    QUICK,
    SHORTEST_TASK,
    TELLS_ALONE,
    TOO_MANY,
    UNSEEN,
    WINDOWS,
)


class Mean:
    """The mean time of a task over about the last few hundred of them, or what was done in the last moment."""

    __slots__ = ("_count", "_longest", "_second", "_seconds")

    def __init__(self) -> None:
        self._count = 0.0
        self._seconds = 0.0
        #: The longest of the last few, and the one after it.
        self._longest = self._second = 0.0

    def add(self, count: int, seconds: float, workers: int) -> None:
        """Some tasks took this long, one after the other, while so many workers did others."""
        near, each = 0.5 ** (count / NEAR), seconds / count
        longest, second = near * self._longest, near * self._second
        tells = each >= TELLS_ALONE or not self._count
        self._longest = max(longest, each)
        self._second = self._longest if tells else max(second, min(longest, each))
        fade = 0.5 ** (count / HALF_FORGOTTEN) * max(0.0, 1 - seconds / workers / FORGOTTEN_AFTER)
        self._count = fade * self._count + count
        self._seconds = fade * self._seconds + seconds

    @property
    def seconds(self) -> float:
        """The mean."""
        return max(self._seconds / self._count, SHORTEST_TASK)

    @property
    def proven(self) -> float:
        """The same, but no more than another of the last few took: one alone may have waited for what has passed."""
        return max(min(self.seconds, self._second), SHORTEST_TASK)


_PROVEN = attrgetter("proven")


class Sizes:
    """Measured times by kind, and what follows from them. `held` counts the tasks in memory by kind."""

    def __init__(self, claim_at_most: int) -> None:
        self._claim_at_most = claim_at_most
        self._means: dict[str, Mean] = {}
        self._latest: float | None = None
        self._last = 0
        self._ran_since_claim = False
        self._seen_ready: int | None = None
        self.peers = 1

    def ran(self, kind: str, count: int, seconds: float, workers: int = 1) -> None:
        """Some tasks of a kind took this long, one after the other, while so many workers did others."""
        mean = self._means.get(kind)
        if mean is None:
            mean = self._means[kind] = Mean()
        mean.add(count, seconds, workers)
        self._latest = mean.seconds
        self._ran_since_claim = True

    def claimed(self, tasks: int, ready: int) -> None:
        """A claim brought `tasks` and left `ready` for others."""
        self._seen_ready = ready
        if tasks:
            self._last = tasks
            self._ran_since_claim = False

    def untold(self) -> None:
        """Forget how much is left: a round opened, or the store changed."""
        self._seen_ready = None

    @property
    def is_more(self) -> bool:
        """True if the last claim left something for the next one."""
        return bool(self._seen_ready)

    def window(self, workers: int, held: Mapping[str, int]) -> int:
        """How many tasks to hold: running ones and those that come next."""
        return self._window(workers, self._mean(workers, held))

    def _window(self, workers: int, mean: float | None) -> int:
        return workers + (0 if mean is None else min(WINDOWS * self._claim_at_most, int(HORIZON * workers / mean)))

    def limit(self, workers: int, held: Mapping[str, int]) -> int:
        """How many tasks to ask for. 0: enough for now."""
        window = self.window(workers, held)
        inside = sum(held.values())
        if 2 * inside > window and inside >= workers:
            return 0
        limit = min(window - inside, max(2 * self._last, 2 * workers), self._claim_at_most)
        if self.peers > 1:
            limit = min(limit, self._share(workers, held, inside))
        return max(1, limit)

    def surplus(self, workers: int, held: Mapping[str, int]) -> int:
        """How many of those that are held should go back. None before one of them was tried: others might come instead,
        and nothing would ever run.
        """
        mean = self._mean(workers, held, _PROVEN) if self._ran_since_claim else None
        if mean is None:
            return 0
        window, inside = self._window(workers, mean), sum(held.values())
        if inside <= TOO_MANY * window:
            return 0
        # As after the first claim: it may be that only some take that long.
        self._last = 0
        return inside - window

    def _mean(
        self, workers: int, held: Mapping[str, int], of: Callable[[Mean], float] = attrgetter("seconds")
    ) -> float | None:
        """The mean time of what is held. None when it is not known: nothing ran yet, or all workers are busy with
        kinds that were never measured, and more of them would be hoarded blindly.
        """
        seconds, known, unknown = 0.0, 0, 0
        for kind, many in held.items():
            if many <= 0:
                continue
            mean = self._means.get(kind)
            if mean is None:
                unknown += many
            else:
                seconds += many * of(mean)
                known += many
        if unknown >= workers:
            return None
        return seconds / known if known else self._latest

    def _share(self, workers: int, held: Mapping[str, int], inside: int) -> int:
        least = max(1, workers - inside)
        mean = self._mean(workers, held)
        if mean is not None:
            least = max(least, int(CLAIM_SECONDS * workers / mean))
        return max(least, UNSEEN if self._seen_ready is None else self._seen_ready // (2 * self.peers))

    def within(self, kind: str, seconds: float, workers: int) -> int | None:
        """How many tasks of a kind so many workers do in so many seconds; None if none was measured."""
        mean = self._means.get(kind)
        return None if mean is None else int(seconds * workers / mean.seconds)

    def are_quick(self, held: Mapping[str, int]) -> bool:
        """Return whether all that is held is of kinds that take next to no time."""
        return all(kind in self._means and self._means[kind].seconds < QUICK for kind, many in held.items() if many > 0)

    def chunk(self, kind: str, ready: int, workers: int) -> int:
        """How many tasks of a kind to lease at once, with `ready` waiting for all workers."""
        mean = self._means.get(kind)
        if mean is None:
            return 1
        return max(1, min(int(CHUNK_SECONDS / mean.seconds), CHUNK_AT_MOST, -(-ready // workers)))
