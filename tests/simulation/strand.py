"""Strands: generators that sleep in virtual time, and stand still while their process does."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Strand:
    """What would be a thread. `stir` ends a sleep early; a process that is frozen or dead takes no turns."""

    __slots__ = ("_story", "_ticket", "is_over", "process")

    def __init__(self, process: Process, story: Generator[float, None, None]) -> None:
        self.process = process
        self.is_over = False
        self._story = story
        self._ticket = 0
        self._sleep(process.world.luck.random() * 1e-4)

    def resume(self, ticket: int) -> None:
        """Its sleep is over."""
        process = self.process
        if ticket != self._ticket or not process.is_alive or self.is_over:
            return
        world = process.world
        if world.now < process.frozen_until:
            # On waking, everybody in the process hurries, in any order.
            self._sleep(process.frozen_until - world.now + world.luck.random() * 0.01)
            return
        try:
            delay = next(self._story)
        except StopIteration:
            self.is_over = True
        else:
            self._sleep(delay)
        if process.is_touched:
            process.is_touched = False
            world.watch.books(process)

    def stir(self) -> None:
        """Wake it up soon."""
        self._sleep(self.process.world.luck.random() * 1e-4)

    def _sleep(self, seconds: float) -> None:
        self._ticket += 1
        self.process.world.after(seconds, self, self._ticket)
