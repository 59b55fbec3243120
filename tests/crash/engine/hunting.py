"""Hunting programs: one is killed, at a crash point or at any moment, and started again with the same line, until one
gets to its end. What came of that is for the verdict to say, which knows what had to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.crash.clients import LIMIT, Client, Clients

#: How many kills of one program are enough.
MOST_KILLS = 4
#: What is wrong with a folder in which programs were killed: the folder, the seed, and how many were.
Verdict = Callable[[Path, int, int], list[str]]


@dataclass(frozen=True)
class Hunt:
    """Programs that do a certain work, and how they are judged. A random kill comes within `late` seconds."""

    clients: Clients
    work: str
    verdict: Verdict
    late: float = 0.2
    threads: tuple[int, ...] = (0, 1, 2)

    def begin(self, folder: Path, seed: int = 0, *options: str) -> Client:
        """Let a program begin."""
        client = self.clients.next()
        client.begin(self.work, folder, seed, *options)
        return client

    def kill_at(self, folder: Path, point: str, at: int, *options: str) -> None:
        """Kill a program when it comes to a point for that time, and let another one finish."""
        assert self._killed_at(folder, point, at, *options), f"{point} was not reached {at} times"

    def kill_at_each(self, folder: Path, point: str, most: int) -> None:
        """Kill one at each time, up to so many: a program that takes more at once comes to a point more rarely."""
        times = next((at - 1 for at in range(1, most + 1) if not self._killed_at(folder / f"{at}", point, at)), most)
        assert 2 * times >= most, f"{point} was reached {times} times only"

    def _killed_at(self, folder: Path, point: str, at: int, *options: str) -> bool:
        folder.mkdir(exist_ok=True)
        code = self.begin(folder, 0, *options, f"point={point}", f"at={at}").code_within(LIMIT)
        assert code in (0, -9), f"the client ended with {code}"
        if code:
            assert self.begin(folder, 0, *options).ends_within(LIMIT)
        assert self.verdict(folder, 0, int(code != 0)) == []
        return code != 0

    def kill_often(self, folder: Path, chance: random.Random, times: int) -> int:
        """Kill programs at random moments, with so many seeds one after the other; how many were killed."""
        return sum(self._kill(folder / f"store-{at}", chance) for at in range(times))

    def _kill(self, folder: Path, chance: random.Random) -> int:
        folder.mkdir()
        seed, kills = chance.randrange(1, 2**31), 0
        print(f"{folder.name}: seed {seed}")
        while True:
            client = self.begin(folder, seed, f"threads={chance.choice(self.threads)}")
            if client.ends_within(LIMIT if kills == MOST_KILLS else chance.uniform(0.01, self.late)):
                break
            client.kill()
            kills += 1
        assert self.verdict(folder, seed, kills) == []
        return kills
