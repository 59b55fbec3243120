"""Pages of the documentation as sessions: files to write, programs and commands to run, outputs to compare.

A page is played from top to bottom in an empty folder:

    ```python title="walk.py"   is written to that file
    ```python                   runs as a program, and must succeed
    ```console                  lines after `$ ` run in a shell; the lines below each are what it prints

`…` in an expected line matches any text; alone on a line it matches any number of lines. In a block that is marked
`numbers="vary"`, each number matches any other. `# exits with 1` after a command names the exit code it must have. A
command that ends with `&` runs until the page ends. Other blocks are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 120
ANY = "…"

_FENCE = re.compile(r"^```(?P<tag>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_VARY = 'numbers="vary"'
#: One with a comma at every thousand: a program that prints 6311 does not print what a page shows as 6,311.
_NUMBER = re.compile(r" *(?<![0-9,.])[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]+)?(?![0-9])")
_EXITS = re.compile(r"\s+# exits with (\d+)$")


class PageError(AssertionError):
    """A page says one thing and the product does another."""


@dataclass(frozen=True)
class Block:
    """A fenced block: language, the file it stands for, text, line, and whether its numbers are examples."""

    language: str
    title: str | None
    text: str
    line: int
    varies: bool = False


@dataclass(frozen=True)
class Command:
    """A line of a console block, with the output and exit code it promises."""

    typed: str
    expected: tuple[str, ...]
    exits: int
    varies: bool = False

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
        yield Block(tag.split(" ")[0], title[1] if title else None, found["body"], line, _VARY in tag)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    typed, expected = None, list[str]()
    for line in [*block.text.splitlines(), "$ "]:
        if not line.startswith("$ "):
            expected.append(line.rstrip())
            continue
        if typed is not None:
            exits = _EXITS.search(typed)
            code = int(exits[1]) if exits else 0
            yield Command(_EXITS.sub("", typed), tuple(expected), code, block.varies)
        typed, expected = line.removeprefix("$ "), []


def play(page: Path, folder: Path, bin: Path | None = None) -> None:
    """Play a page in a folder. Raise PageError where the page is wrong.

    `bin` holds the commands of another environment: then nothing of this one is within reach, and the folder is the
    home folder.
    """
    beside: list[subprocess.Popen[bytes]] = []
    known = _environment(folder) if bin is None else _bare_environment(folder, bin)
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            match block:
                case Block(language="python", title=str(title)):
                    compile(block.text, title, "exec")
                    (folder / title).parent.mkdir(parents=True, exist_ok=True)
                    (folder / title).write_text(block.text, encoding="utf-8")
                case Block(language="python"):
                    _expect(where, Command(f"python -c {shlex.quote(block.text)}", (ANY,), 0), folder, known)
                case Block(language="console"):
                    for command in commands(block):
                        if command.stays:
                            beside.append(_start(command.typed.removesuffix("&"), folder, known))
                        else:
                            _expect(where, command, folder, known)
                case Block(title=str(title)):
                    (folder / title).write_text(block.text, encoding="utf-8")
    finally:
        for process in beside:
            os.killpg(process.pid, signal.SIGTERM)
        for process in beside:
            process.wait(SECONDS)


def matches(expected: Sequence[str], printed: Sequence[str], varies: bool = False) -> bool:
    """Return whether an output is as expected, line by line."""
    if varies:
        # A longer number may take the place of a space before it.
        expected, printed = (tuple(_NUMBER.sub(" 0", line) for line in lines) for lines in (expected, printed))
    pattern = "".join(
        "(?:.*\n)*?" if line == ANY else ".*?".join(map(re.escape, line.split(ANY))) + "\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def _expect(where: str, command: Command, folder: Path, known: Mapping[str, str]) -> None:
    ran = _start(command.typed, folder, known, stdout=subprocess.PIPE)
    try:
        output = ran.communicate(timeout=SECONDS)[0].decode()
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        ran.communicate()
        raise PageError(f"{where}: `{command.typed}` did not end in {SECONDS} s") from None
    said = f"{where}: `{command.typed}`"
    if ran.returncode != command.exits:
        raise PageError(f"{said} exited with {ran.returncode} instead of {command.exits}:\n{output}")
    if not matches(command.expected, output.splitlines(), command.varies):
        raise PageError(f"{said} printed\n{output}instead of\n" + "\n".join(command.expected))


def _environment(folder: Path) -> dict[str, str]:
    """The variables of this process, for commands of this environment."""
    # A session of pytest on a page must not take the plug-ins and options of this one.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "RAMIFY"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{outside['PATH']}"
    return {**outside, "PATH": path, "HOME": str(folder), "COLUMNS": "120", "NO_COLOR": "1"}


def _bare_environment(folder: Path, bin: Path) -> dict[str, str]:
    """The variables of a new user, for commands of another environment."""
    ours = Path(sys.executable).parent
    others = [each for each in os.environ["PATH"].split(os.pathsep) if each and Path(each) != ours]
    path = os.pathsep.join([str(bin), *others])
    return {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "COLUMNS": "120", "NO_COLOR": "1"}


def _start(
    typed: str, folder: Path, known: Mapping[str, str], stdout: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", "-c", typed],
        cwd=folder,
        env=known,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
