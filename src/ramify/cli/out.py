"""Output of commands: lines, tables and JSON, with everything escaped on the way out.

There is one seam to standard output, and it is here: a line is built from pieces of text, each made safe, and only this
module adds the colours. So no text of a task can reach the terminal raw, whichever command prints it. Markup is not
interpreted anywhere: a task may be called `[bold]`.

JSON is one object a line, in ASCII, so it is safe on a terminal too. It is whole; for people, a very long text is cut.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click
import msgspec

from ramify.cli import config
from ramify.errors import ConfigError
from ramify.inspect.text import STYLES, Piece, columns, safe_text, shortened
from ramify.inspect.text import tell as tell

#: A text of a task that is longer is cut in what people read, and never in JSON.
LONGEST = 1_000


class Out:
    """Standard output of one command, as lines for people or as JSON."""

    def __init__(self, *, as_json: bool = False, file: IO[str] | None = None) -> None:
        self.as_json = as_json
        self._file = file

    @property
    def is_terminal(self) -> bool:
        """True if people look at it live."""
        return not self.as_json and self._stream().isatty()

    def say(self, *pieces: Piece) -> None:
        """One line. Whatever is in it, it stays one line."""
        self._write("".join(map(self._styled, pieces)).rstrip())

    def block(self, text: str, indent: str) -> None:
        """Say a text of several lines, each of them indented."""
        for line in text.splitlines():
            self.say(indent, line)

    def json(self, value: Mapping[str, Any]) -> None:
        """One object on one line."""
        self._write(json.dumps(plain(value), ensure_ascii=True, default=str))

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[Piece]], *, right: frozenset[int] = frozenset()
    ) -> None:
        """Rows in columns, each as wide as it must be; on a terminal the last one is cut at the edge."""
        if not rows:
            return
        cells = [[_text(piece) for piece in row] for row in rows]
        widths = [max(columns(cell) for cell in column) for column in zip(heads, *cells, strict=True)]
        room = self._room(widths)
        for row, texts in zip([[("head", head) for head in heads], *rows], [list(heads), *cells], strict=True):
            self._write(self._padded(row, texts, widths, right, room))

    def _padded(
        self, row: Sequence[Piece], texts: Sequence[str], widths: Sequence[int], right: frozenset[int], room: int | None
    ) -> str:
        line = []
        for place, (piece, text, width) in enumerate(zip(row, texts, widths, strict=True)):
            shown = text if place < len(row) - 1 or room is None else shortened(text, room)
            gap = " " * (width - columns(shown)) if place < len(row) - 1 or place in right else ""
            styled = self._painted(piece, shown)
            line.append(gap + styled if place in right else styled + gap)
        return "  ".join(line).rstrip()

    def _room(self, widths: Sequence[int]) -> int | None:
        if not self.is_terminal:
            return None
        used = sum(widths[:-1]) + 2 * (len(widths) - 1)
        return max(10, shutil.get_terminal_size().columns - used)

    def _styled(self, piece: Piece) -> str:
        return self._painted(piece, _text(piece))

    def _painted(self, piece: Piece, safe: str) -> str:
        return click.style(safe, **STYLES[piece[0]]) if isinstance(piece, tuple) and self._colourful() else safe

    def _colourful(self) -> bool:
        return self.is_terminal and config.wants_colour()

    def _stream(self) -> IO[str]:
        stream = self._file if self._file is not None else sys.stdout
        if stream is None:
            raise ConfigError("standard output is closed. Run the command with it open.")
        return stream

    def _write(self, line: str) -> None:
        stream = self._stream()
        # A terminal of another encoding must not end the command: what it cannot show is escaped as well.
        encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            hush()
            raise ConfigError(f"the answer could not be written ({error.strerror})") from error


def hush() -> None:
    """Nobody reads standard output any more: what is left of it must not be a trouble when this process ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def plain(value: Any) -> Any:
    """A value of ours as what JSON knows: structs as objects, their bytes as text."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(part) for name, part in msgspec.structs.asdict(value).items()}
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Sequence):
        return [plain(part) for part in value]
    return value


def _text(piece: Piece) -> str:
    text = piece if isinstance(piece, str) else piece[1]
    if len(text) <= LONGEST:
        return safe_text(text)
    return f"{safe_text(text[:LONGEST])}… ({len(text):,} characters; --json has all of them)"
