"""The rules of words: `src` uses every word of the glossary, has no name from its "Not used", and no class name twice.

`GLOSSARY.md` is the only list. A name is looked at where it is made (a module, class, function, argument, variable or
attribute), part by part, so `task_data` and `DataStore` are found and `metadata` and a call of `.items()` are not.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.tree import Finding, modules, name_of, parse

_HEADING = re.compile(r"^##\s+Not used\s*$", re.MULTILINE)
_ROW = re.compile(r"^\|\s*\*{0,2}([a-z]+)\*{0,2}\s*\|", re.MULTILINE)
_ENTRY = re.compile(r"\*\*([^*]+)\*\*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def banned_words(root: Path) -> frozenset[str]:
    """The first column of the table under the glossary's heading "Not used"."""
    text = (root / "GLOSSARY.md").read_text(encoding="utf-8")
    heading = _HEADING.search(text)
    section = text[heading.end() :].split("\n## ")[0] if heading else ""
    words = frozenset(_ROW.findall(section)) - {"word"}
    if not words:
        raise ValueError('GLOSSARY.md has no table of words under "## Not used"')
    return words


def banned_names(root: Path) -> Iterator[Finding]:
    """No name made in `src` contains a word that the glossary does not use."""
    banned = banned_words(root)
    for path in modules(root, "src"):
        for line, name in _names(path):
            for word in sorted(_words(name) & banned):
                yield Finding(name_of(root, path), line, f"{name}: the glossary does not use {word!r}")


def glossary_words(root: Path) -> Iterator[Finding]:
    """Each bold word of the glossary occurs in `src`, as part of a name or in text, and is defined once."""
    text = _Text.of(root)
    defined: dict[str, int] = {}
    for number, line in enumerate((root / "GLOSSARY.md").read_text(encoding="utf-8").splitlines(), 1):
        for entry in _ENTRY.findall(line):
            for word in entry.split(", "):
                if word in defined:
                    yield Finding("GLOSSARY.md", number, f"{word!r} is defined at line {defined[word]} too")
                elif word not in text:
                    yield Finding("GLOSSARY.md", number, f"{word!r} occurs nowhere in src")
                defined[word] = number


def class_names(root: Path) -> Iterator[Finding]:
    """No two classes in `src` have the same name, unless they are private to their modules."""
    seen: dict[str, str] = {}
    for path in modules(root, "src"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                place = f"{name_of(root, path)}:{node.lineno}"
                other = seen.setdefault(node.name, place)
                if other != place:
                    yield Finding(name_of(root, path), node.lineno, f"{node.name} is also a class at {other}")


@dataclass(frozen=True)
class _Text:
    """All words of the names and texts of `src`, in order and in small letters."""

    words: str

    @classmethod
    def of(cls, root: Path) -> Self:
        parts = (part.lower() for path in modules(root, "src") for part in _PART.findall(path.read_text("utf-8")))
        stems = " ".join(path.stem.replace("_", " ") for path in modules(root, "src"))
        return cls(f" {' '.join(parts)} {stems} ")

    def __contains__(self, entry: str) -> bool:
        plain = " ".join(part.lower() for part in _PART.findall(entry))
        return re.search(rf" {plain}(?:s|ed|d)? ", self.words) is not None


def _words(name: str) -> set[str]:
    if name.startswith("__") and name.endswith("__"):
        return set()
    parts = {part.lower() for part in _PART.findall(name)}
    return parts | {part.removesuffix("s") for part in parts}


def _names(path: Path) -> Iterator[tuple[int, str]]:
    yield 1, path.parent.name if path.name == "__init__.py" else path.stem
    for node in ast.walk(parse(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
