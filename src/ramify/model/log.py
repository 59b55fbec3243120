"""Log lines of tasks, as they are stored with a run. They tell people what happened; the work never depends on them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from ramify.errors import BadPayload
from ramify.model.outcome import storable

MAX_LOG_TEXT = 8_000
MAX_LOGGER = 200
_LARGEST = 2**63 - 1


class LogLine(msgspec.Struct, frozen=True):
    """One line. `n` numbers the lines of a process from 1, so that writing them twice is writing them once."""

    n: int
    at: int
    run: int
    task: int | None
    attempt: int
    level: int
    logger: str
    text: str


class StoredLine(msgspec.Struct, frozen=True):
    """A line as it is read: who wrote it, and its place in the order in which lines arrived."""

    seq: int
    process: int
    line: LogLine


def storable_lines(lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines with texts that can always be written: cut to a sane length, and free of lone surrogates."""
    for line in lines:
        numbers = (line.n, line.at, line.run, line.task or 0, line.attempt, line.level)
        if not all(-_LARGEST <= number <= _LARGEST for number in numbers):
            raise BadPayload(f"line {line.n} holds a number that does not fit: {numbers}")
    return [
        structs.replace(line, logger=storable(line.logger, MAX_LOGGER), text=storable(line.text, MAX_LOG_TEXT))
        for line in lines
    ]
