"""The project's files as a rule sees them, and what a rule says about one of them.

`files` walks the tree as a fresh clone would hold it: everything except `.git` and what `.gitignore` names. It needs no
git, so it works in an unpacked archive too. It understands the two forms our `.gitignore` uses, a name and `*.ending`,
and refuses any other rather than guess.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule at one place."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


Rule = Callable[[Path], Iterator[Finding]]


def files(root: Path, *endings: str) -> Iterator[Path]:
    """Every file that belongs to the project, in order; with `endings`, only those."""
    yield from _walk(root, _ignored(root), endings)


def modules(root: Path, folder: str) -> Iterator[Path]:
    """Every Python file below `folder`."""
    start = root / folder
    if start.is_dir():
        yield from _walk(start, _ignored(root), (".py",))


def name_of(root: Path, path: Path) -> str:
    """The path as people write it: from the root, with slashes."""
    return path.relative_to(root).as_posix()


def parse(path: Path) -> ast.Module:
    """The module's syntax tree; each version of a file is parsed once however many rules ask."""
    return _parse(path.read_text(encoding="utf-8"), str(path))


def text_of(path: Path) -> str | None:
    """The file's text, or None for a binary file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def _parse(source: str, name: str) -> ast.Module:
    return ast.parse(source, name)


def _walk(start: Path, ignored: frozenset[str], endings: tuple[str, ...]) -> Iterator[Path]:
    for path in sorted(start.iterdir()):
        if path.is_symlink() or any(fnmatchcase(path.name, pattern) for pattern in ignored):
            continue
        if path.is_dir():
            yield from _walk(path, ignored, endings)
        elif not endings or path.name.endswith(endings):
            yield path


def _ignored(root: Path) -> frozenset[str]:
    listing = root / ".gitignore"
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    patterns = {".git"}
    for line in (raw.strip() for raw in lines):
        if not line or line.startswith("#"):
            continue
        pattern = line.removesuffix("/")
        if "/" in pattern or pattern.startswith("!"):
            raise ValueError(f".gitignore: {line!r} is neither a name nor an ending; tools/tree.py knows only those")
        patterns.add(pattern)
    return frozenset(patterns)
