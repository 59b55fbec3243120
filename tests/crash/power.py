"""Lost power: what a disk may hold when everything that was not synced is in doubt.

A `Power` watches the steps of a `Disk` and knows, for each file, what a sync has made certain and which later writes
are only on their way. When the power goes, each of those writes is kept, lost or torn at sectors, independently of the
others, as real disks do; so are names that were created or deleted since their folder was last synced. SQLite syncs
the folder with the first sync of a log or journal that it created, and with a delete if it asks for that.

The `-shm` file is memory and never survives.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.disk import GO, Answer, Change, Step

SECTOR = 512


@dataclass
class _File:
    """One file, whatever its name: its certain content and the changes on their way, in order."""

    certain: bytearray = field(default_factory=bytearray)
    underway: list[Step] = field(default_factory=list)
    is_new: bool = True

    def settle(self) -> None:
        """A sync: everything on its way has arrived."""
        for step in self.underway:
            _apply(self.certain, step)
        self.underway.clear()

    def left(self, chance: random.Random) -> bytes:
        """What may be left of it."""
        content = bytearray(self.certain)
        losing = chance.choice((0.0, 0.2, 0.5, 1.0))
        for step in self.underway:
            if chance.random() < losing:
                continue
            for piece in _sectors(step) if chance.random() < 0.3 else (step,):
                if piece is step or chance.random() < 0.5:
                    _apply(content, piece)
        return bytes(content)


class Power:
    """A fault that is none, and that can tell afterwards what a power cut at this moment leaves."""

    def __init__(self) -> None:
        self._now: dict[str, _File] = {}
        self._certain: dict[str, _File] = {}

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Power:
        """One that knows what was done so far."""
        made = cls()
        for step in steps:
            made(step)
        return made

    def __call__(self, step: Step) -> Answer:
        name = step.path.name
        if step.change is Change.MAP:
            return GO
        if step.change is Change.DELETE:
            self._now.pop(name, None)
            if step.lasting:
                self._settle_names()
            return GO
        file = self._now.setdefault(name, _File())
        if step.change in (Change.WRITE, Change.TRUNCATE):
            file.underway.append(step)
        elif step.change is Change.SYNC:
            file.settle()
            if file.is_new and name.endswith(("-wal", "-journal")):
                self._settle_names()
            file.is_new = False
        return GO

    def forget(self, step: Step) -> None:
        """The sync of a file failed, and with that the system forgot what was on its way.

        Linux does so: the pages count as written from then on, and a later sync succeeds without them.
        """
        self._now[step.path.name].underway.clear()

    def _settle_names(self) -> None:
        self._certain = dict(self._now)

    def cut(self, folder: Path, chance: random.Random) -> None:
        """Write into an empty folder what a power cut might have left."""
        for name in sorted(self._now.keys() | self._certain.keys()):
            file = chance.choice((self._now.get(name), self._certain.get(name)))
            if file is not None:
                (folder / name).write_bytes(file.left(chance))
                (folder / name).chmod(0o600)


def _apply(content: bytearray, step: Step) -> None:
    if step.change is Change.TRUNCATE:
        del content[step.offset :]
        return
    content.extend(bytes(max(0, step.offset - len(content))))
    content[step.offset : step.offset + len(step.content)] = step.content


def _sectors(step: Step) -> list[Step]:
    """The pieces in which a write may arrive."""
    if step.change is not Change.WRITE:
        return [step]
    pieces = []
    at = 0
    while at < len(step.content):
        size = SECTOR - (step.offset + at) % SECTOR
        pieces.append(Step(step.change, step.path, step.offset + at, step.content[at : at + size]))
        at += size
    return pieces
