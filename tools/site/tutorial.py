"""The tutorial: a page for each chapter of tests/tour, made of the test file that proves it.

A chapter's docstring is its heading and introduction. Each test is a section: its name is the heading, its docstring
the text, its body the code. Tasks above a test are shown in its section; those above the first one, before it. Comments
that stand alone, outside of any function, are text; `# ---- a title ----` is a heading.

It promises that a page shows all of the file but the lines that only a test needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

_CHAPTER = re.compile(r"test_(\d+)_(\w+)")
_NUMBER = re.compile(r"^\d+\. ")
_RULE = re.compile(r"# -{2,} (.+?) -{2,}")
#: Lines that a reader's program does not have.
_ONLY_A_TEST = re.compile(r"^from __future__ |^@pytest\.fixture\(autouse")
_IGNORE = re.compile(r"  # (?:type: ignore|pyright: ignore|noqa)\b.*$", re.MULTILINE)
#: Words that headings write otherwise than names of functions can.
_NAMES = {
    "dag": "DAG", "dags": "DAGs", "i": "I", "id": "ID", "pytest": "pytest", "sql": "SQL", "json": "JSON",
    "ramify": "Ramify", "sigterm": "SIGTERM", "python": "Python",
}  # fmt: skip


@dataclass(frozen=True)
class Chapter:
    """A file of the tour as a page: its address, its title, its introduction and its sections."""

    path: str
    title: str
    intro: str
    body: str

    @property
    def text(self) -> str:
        """The page."""
        return f"# {self.title}\n\n{self.intro}\n\n{self.body}"


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the chapters in order, after a page that lists them."""
    chapters = [chapter_of(path) for path in sorted((root / "tests" / "tour").glob("test_*.py"))]
    yield "tutorial/index.md", _contents(root, chapters)
    yield from ((f"tutorial/{chapter.path}", chapter.text) for chapter in chapters)


def chapter_of(path: Path) -> Chapter:
    """Read one test file as a chapter."""
    source = path.read_text(encoding="utf-8")
    heading, _, intro = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    found = _CHAPTER.fullmatch(path.stem)
    assert found is not None, f"{path.name}: a chapter is called test_NN_title.py"
    title = _NUMBER.sub("", heading).rstrip(".")
    return Chapter(f"{found[1]}-{found[2].replace('_', '-')}.md", title, intro.strip(), _sections(source))


def sentence_of(name: str) -> str:
    """Return the heading that the name of a test stands for."""
    words = [_NAMES.get(word, word) for word in name.removeprefix("test_").split("_")]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def _contents(root: Path, chapters: list[Chapter]) -> str:
    about = (root / "tests" / "tour" / "README.md").read_text(encoding="utf-8")
    lines = {found[1]: found[2] for found in re.finditer(r"\(test_\d+_(\w+)\.py\): (.+)", about)}
    rows = [
        f"{number}. [{chapter.title}]({chapter.path}): {lines[chapter.path[3:-3].replace('-', '_')]}"
        for number, chapter in enumerate(chapters, 1)
    ]
    intro = (
        "Read the chapters in order, or start with the one you need. Every line of code on these pages is part of a "
        "test, so each `assert` holds."
    )
    return f"# Tutorial\n\n{intro}\n\n" + "\n".join(rows) + "\n"


def _sections(source: str) -> str:
    """The sections in order. What a test needs is shown below its heading; only the first has the program above it."""
    lines = source.splitlines()
    parts: list[str] = []
    code: list[str] = []
    is_first = True

    def take() -> list[str]:
        text = _cleaned("\n".join(code))
        code.clear()
        return [_fenced(text)] if text else []

    tree = ast.parse(source)
    for start, end, node in _pieces(tree, lines, tree.body[0].end_lineno or 0):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            if is_first:
                parts += take()
            heading, *about, body = _section(node, lines)
            parts += [heading, *about, *take(), body]
            is_first = False
        elif node is not None or not "".join(lines[start:end]).strip():
            code += lines[start:end]
        else:
            parts += [*take(), _prose("\n".join(lines[start:end]).strip())]
    return "\n\n".join([*parts, *take()]) + "\n"


def _pieces(tree: ast.Module, lines: list[str], first: int) -> Iterator[tuple[int, int, ast.stmt | None]]:
    """Yield statements and, without one, the comments between them, as ranges of lines."""
    at = first
    for node in tree.body[1:]:
        start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]) - 1
        # A comment right above a statement belongs to it.
        while start > at and lines[start - 1].startswith("#") and not _RULE.fullmatch(lines[start - 1]):
            start -= 1
        yield at, start, None
        yield start, node.end_lineno or start, node
        at = node.end_lineno or start
    yield at, len(lines), None


def _section(node: ast.FunctionDef, lines: list[str]) -> list[str]:
    parts = [f"## {sentence_of(node.name)}"]
    about = ast.get_docstring(node)
    begin = (node.body[0].lineno - 1) if about is None else (node.body[0].end_lineno or 0)
    if about is None:
        # Comments before the first statement.
        while begin > node.lineno and lines[begin - 1].lstrip().startswith("#"):
            begin -= 1
    else:
        parts.append(about)
    return [*parts, _fenced(_cleaned(dedent("\n".join(lines[begin : node.end_lineno]))))]


def _prose(comments: str) -> str:
    parts = []
    for paragraph in comments.split("\n\n"):
        if rule := _RULE.fullmatch(paragraph.strip()):
            parts.append(f"## {rule[1][:1].upper()}{rule[1][1:]}")
        else:
            parts.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in paragraph.strip().splitlines()))
    return "\n\n".join(parts)


def _cleaned(code: str) -> str:
    kept = [line for line in _IGNORE.sub("", code).splitlines() if not _ONLY_A_TEST.match(line)]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(kept).strip("\n"))


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"
