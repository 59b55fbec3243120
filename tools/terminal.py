"""Terminals as pictures: programs and commands that really run, on a terminal of their own, and what they printed.

A screen is drawn as text, dark on every page, so that it can be read in light and in dark; the fonts are those of the
reader, and each piece is stretched to its columns, so that columns stay columns. Figures differ from run to run:
`plain` leaves them out, for whoever compares.
"""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

SHOWN = Path(__file__).parent / "shown"
COLUMNS, SECONDS = 96, 60.0
#: A picture is at least as wide as so many columns.
LEAST = 80
_WIDTH, _HEIGHT, _EDGE, _SIZE = 7.9, 19, 18, 13
_PAPER, _RULE, _INK, _DIM = "#161b22", "#444c56", "#e6edf3", "#9aa5b1"
#: By the numbers of a terminal's colours: red, green and yellow.
_INKS = {1: "#ff8e86", 2: "#7ee787", 3: "#e3b341"}
#: A display that stays in place goes up and erases its lines before it writes them anew.
_REDRAW = re.compile(r"\r?(?:\x1b\[\d*[AK])+")
_NOT_COLOUR = re.compile(r"\x1b\[[?\d;]*[a-ln-zA-Z]|\r")
_FIGURE = re.compile(r"\d[\d,.:-]*(?: (?:ms|s|min|h)\b)?")


def status() -> str:
    """`ramify status --watch`, half-way through a run."""
    with _folder("shop.py") as folder, _running(folder, "shop.py"):
        # A look at which many are done and some are left: the same words on a slow machine.
        frame = _watched(
            folder, "ramify status --watch", re.compile(r"\d,\d{3} done.* failed.* ended\r\n.* ready", re.DOTALL)
        )
    return screen("A run half-way through, as `ramify status --watch` shows it", [("ramify status --watch", frame)])


def show() -> str:
    """`ramify show` of a DAG in which an item failed, and `ramify errors`."""
    with _folder("etl.py") as folder:
        subprocess.run([sys.executable, "etl.py"], cwd=folder, capture_output=True, timeout=SECONDS, check=True)
        commands = ("ramify show", "ramify errors")
        printed = [(command, _printed(folder, command)) for command in commands]
    return screen("A DAG in which one item of a map failed, as `ramify show` shows it", printed)


def screen(title: str, session: Sequence[tuple[str, str]]) -> str:
    """Draw commands and what they printed, with its colours, as SVG."""
    lines = list(_lines(session))
    width = 2 * _EDGE + _WIDTH * max(LEAST, *(line.cell_len for line in lines))
    height = 2 * _EDGE + _HEIGHT * (len(lines) - 1) + _SIZE
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f'<rect x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="8" fill="{_PAPER}" stroke="{_RULE}"/>',
        f'<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{_SIZE}" fill="{_INK}">',
    ]
    for number, line in enumerate(lines):
        drawn += _pieces(line, _EDGE + _SIZE - 2 + number * _HEIGHT)
    return "\n".join([*drawn, "</g>", "</svg>"]) + "\n"


def plain(svg: str) -> list[str]:
    """The text of a screen without its figures, line by line."""
    rows: dict[str, str] = {}
    for y, text in re.findall(r'<text x="[\d.]+" y="(\d+)"[^>]*>([^<]*)</text>', svg):
        rows[y] = f"{rows.get(y, '')} {text}"
    return [" ".join(_FIGURE.sub("0", text).split()) for text in rows.values()]


def _lines(session: Sequence[tuple[str, str]]) -> Iterator[Text]:
    for number, (command, printed) in enumerate(session):
        if number:
            yield Text()
        yield Text.assemble(("$ ", "dim"), (command, "bold"))
        yield from (Text.from_ansi(line) for line in printed.splitlines())


def _pieces(line: Text, y: int) -> Iterator[str]:
    at = 0
    for text, style, _ in Segment.simplify(line.render(Console(width=1000))):
        inside = text.strip("\n")
        shown = inside.strip(" ")
        if shown:
            x = _EDGE + _WIDTH * (at + len(inside) - len(inside.lstrip(" ")))
            yield (
                f'<text x="{x:.1f}" y="{y}" textLength="{_WIDTH * len(shown):.1f}" xml:space="preserve"'
                f"{_look(style)}>{escape(shown)}</text>"
            )
        at += len(inside)


def _look(style: Style | None) -> str:
    if style is None:
        return ""
    number = None if style.color is None else style.color.number
    colour = _DIM if number is None and style.dim else _INKS.get(number or 0)
    return (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if style.bold else "")


@contextmanager
def _folder(program: str) -> Iterator[Path]:
    """Make a folder with one program of `shown/` in it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(SHOWN / program, folder)
        yield Path(folder)


@contextmanager
def _running(folder: Path, program: str) -> Iterator[None]:
    """Run a program for the length of a block, from the moment when it has begun."""
    with subprocess.Popen([sys.executable, program], cwd=folder, stderr=subprocess.DEVNULL) as process:
        try:
            _await(lambda: any(_asks(folder, "ramify runs --json")), f"{program} starts no run")
            yield
        finally:
            process.kill()


def _printed(folder: Path, command: str) -> str:
    """Run a command to its end on a terminal of its own."""
    with _on_a_terminal(folder, command) as (_, read):
        return _NOT_COLOUR.sub("", "".join(iter(read, "")))


def _watched(folder: Path, command: str, wanted: re.Pattern[str]) -> str:
    """Watch a display that stays in place until a look at it is as wanted; answer that look."""
    with _on_a_terminal(folder, command) as (process, read):
        above, seen = "", ""
        while piece := read():
            seen += piece
            before, *looks = _REDRAW.split(seen)
            above = before.partition("\x1b[?25l")[0]
            # The last look may not be whole yet; the one before it is.
            for look in filter(wanted.search, looks[:-1]):
                process.send_signal(signal.SIGINT)
                return _NOT_COLOUR.sub("", above + look)
    raise RuntimeError(f"`{command}` never showed what it should: {seen!r}")


@contextmanager
def _on_a_terminal(folder: Path, command: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """Start a command on a terminal, and give a function that reads what it prints: nothing at its end."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAMIFY", "NO_COLOR"))}
    process = subprocess.Popen(
        _words(command), cwd=folder, env={**kept, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    until = time.monotonic() + SECONDS
    decoder = codecs.getincrementaldecoder("utf-8")()

    def read() -> str:
        while select.select([ours], [], [], max(0.0, until - time.monotonic()))[0]:
            try:
                piece = os.read(ours, 65_536)
            except OSError:
                return ""  # nobody has the terminal any more
            if text := decoder.decode(piece):
                return text
            if not piece:
                return ""
        raise TimeoutError(f"`{command}` printed nothing more, and did not end, in {SECONDS:g} s")

    try:
        yield process, read
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _asks(folder: Path, command: str) -> list[str]:
    asked = subprocess.run(_words(command), cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    return asked.stdout.splitlines()


def _words(command: str) -> list[str]:
    return [sys.executable, "-m", *command.split()]


def _await(is_so: Callable[[], bool], complaint: str) -> None:
    until = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(complaint)
        time.sleep(0.1)
