"""The witness: what clients say they did, kept outside the store under test.

One line for each thing, written with one `write` to a file that is only appended to, so the lines of several processes
stand in the order in which they were written and a killed process leaves no half of one. What a client is about to do
is said before it does it, and what it was told is said after.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Said(StrEnum):
    """What a line says."""

    CLAIM = "claim"  #: these tasks are mine under this token
    START = "start"  #: I begin an attempt
    EFFECT = "effect"  #: I did what the task is for
    COMMIT_BEGIN = "commit_begin"  #: I am about to hand in these ends
    COMMIT_ACK = "commit_ack"  #: the store said they are in
    COMMIT_ERR = "commit_err"  #: the store did not say; I send the same again
    REFUSED = "refused"  #: the store said that my token is void
    FULL = "full"  #: the store said that the disk is full
    AWAY = "away"  #: the store does not answer
    BACK = "back"  #: the store answers again
    BURIED = "buried"  #: I declared somebody dead
    STOPPING = "stopping"  #: I was asked to stop
    BROKE = "broke"  #: an armed crash point raised, and I work again
    FINISHED = "finished"  #: there is nothing left to do
    APPEND_BEGIN = "append_begin"  #: I am about to append under this first id
    APPEND_ACK = "append_ack"  #: the store said it is in


@dataclass(frozen=True)
class Line:
    """One thing that a process said. `seq` is what a commit answered, or the first id of an append."""

    said: Said
    process: int
    token: str = ""
    tasks: tuple[int, ...] = ()
    seq: int = 0


class Witness:
    """The lines of a file, and a way to add to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def say(self, said: Said, process: int, *, token: bytes = b"", tasks: tuple[int, ...] = (), seq: int = 0) -> None:
        """Add a line."""
        line = json.dumps([said.value, process, token.hex(), tasks, seq]) + "\n"
        os.write(self._file, line.encode())

    def lines(self) -> list[Line]:
        """Everything said so far, in order."""
        found = []
        for text in self.path.read_text().splitlines():
            said, process, token, tasks, seq = json.loads(text)
            found.append(Line(Said(said), process, token, tuple(tasks), seq))
        return found

    def close(self) -> None:
        """Say nothing more."""
        os.close(self._file)
