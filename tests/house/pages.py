"""Pages of the documentation as sessions: files to write, programs and commands to run, outputs to compare.

A page is played from top to bottom in an empty folder:

    ```python title="walk.py"   is written to that file
    ```python                   runs as a program, and must succeed
    ```console                  lines after `$ ` run in a shell; the lines below each are what it prints

`…` in an expected line matches any text; alone on a line it matches any number of lines. `# exits with 1` after a
command is the exit code it must have. A command that ends with `&` runs until the page ends. Other blocks are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 120
ANY = "…"

_FENCE = re.compile(r"^```(?P<tag>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_EXITS = re.compile(r"\s+# exits with (\d+)$")


class PageError(AssertionError):
    """A page says one thing and the product does another."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it stands for, its text and its line on the page."""

    language: str
    title: str | None
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A line of a console block, with the output and exit code it promises."""

    typed: str
    expected: tuple[str, ...]
    exits: int

    @property
    def stays(self) -> bool:
        """Whether it runs beside the rest of the page."""
        return self.typed.endswith("&")


def pages() -> Iterator[Path]:
    """The README and every page below docs/."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _FENCE.finditer(text):
        tag = found["tag"].strip()
        title = _TITLE.search(tag)
        line = text.count("\n", 0, found.start()) + 1
        yield Block(tag.split(" ")[0], title[1] if title else None, found["body"], line)


def commands(text: str) -> Iterator[Command]:
    """The commands of a console block."""
    typed, expected = None, list[str]()
    for line in [*text.splitlines(), "$ "]:
        if not line.startswith("$ "):
            expected.append(line.rstrip())
            continue
        if typed is not None:
            exits = _EXITS.search(typed)
            yield Command(_EXITS.sub("", typed), tuple(expected), int(exits[1]) if exits else 0)
        typed, expected = line.removeprefix("$ "), []


def play(page: Path, folder: Path) -> None:
    """Play a page in a folder. Raise PageError where the page is wrong."""
    beside: list[subprocess.Popen[bytes]] = []
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            match block:
                case Block(language="python", title=str(title)):
                    compile(block.text, title, "exec")
                    (folder / title).parent.mkdir(parents=True, exist_ok=True)
                    (folder / title).write_text(block.text, encoding="utf-8")
                case Block(language="python"):
                    _expect(where, Command(f"{sys.executable} -c {shlex.quote(block.text)}", (ANY,), 0), folder)
                case Block(language="console"):
                    for command in commands(block.text):
                        if command.stays:
                            beside.append(_start(command.typed.removesuffix("&"), folder))
                        else:
                            _expect(where, command, folder)
                case Block(title=str(title)):
                    (folder / title).write_text(block.text, encoding="utf-8")
    finally:
        for process in beside:
            os.killpg(process.pid, signal.SIGTERM)
        for process in beside:
            process.wait(SECONDS)


def matches(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Whether an output is as expected, line by line."""
    pattern = "".join(
        "(?:.*\n)*?" if line == ANY else ".*?".join(map(re.escape, line.split(ANY))) + "\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def _expect(where: str, command: Command, folder: Path) -> None:
    ran = _start(command.typed, folder, stdout=subprocess.PIPE)
    try:
        output = ran.communicate(timeout=SECONDS)[0].decode()
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        ran.communicate()
        raise PageError(f"{where}: `{command.typed}` did not end in {SECONDS} s") from None
    said = f"{where}: `{command.typed}`"
    if ran.returncode != command.exits:
        raise PageError(f"{said} exited with {ran.returncode} instead of {command.exits}:\n{output}")
    if not matches(command.expected, output.splitlines()):
        raise PageError(f"{said} printed\n{output}instead of\n" + "\n".join(command.expected))


def _start(typed: str, folder: Path, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    # A session of pytest on a page must not take the plug-ins and options of this one.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "RAMIFY"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{outside['PATH']}"
    return subprocess.Popen(
        ["bash", "-c", typed],
        cwd=folder,
        env={**outside, "PATH": path, "HOME": str(folder), "COLUMNS": "120", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
