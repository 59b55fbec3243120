"""Rules of prose: the subject of a sentence is a concrete noun, and it comes first.

A text is headless when it opens with a clause instead of a noun or a verb ("What became of it", "Those that wait",
"Whether it ended"). Documentation of public names, help texts and pages must have none. Everything else has a number
in `tools/prose.toml` that may only go down: a tree with more fails, and so does a tree with fewer until it is lowered.
`python -m tools.prose` lists every one.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.exports import definitions
from tools.tree import Finding, files, modules, name_of, parse

# How many headless texts a tree still has, by rule; a rule that is not named there has none.
COMMITTED = "tools/prose.toml"

# Where public names are bound, besides the modules of `CONTRIB`. `child.py` and `__main__.py` are run, not imported.
PUBLIC = ("src/ramify/__init__.py", "src/ramify/testing/__init__.py", "src/ramify/errors.py", "src/ramify/types.py")
CONTRIB = "src/ramify/contrib"
COMMANDS = "src/ramify/cli"
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "GLOSSARY.md", "docs/")

_OPENING = (
    r"(?:What(?:ever)?|Whether|Who(?:ever|m|se)?|Those|Of"
    r"|That (?:the|a|an|it|its|this|these|nothing|nobody|somebody|no|every|each|all|one))\b"
)
_HEADLESS = re.compile(_OPENING)
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2[^\S\n]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SENTENCE = re.compile(rf"(?:^|(?<=[.!?])\s+|(?<=:)\s+)[*_(\"]*({_OPENING})[^.!?]*(?:[.!?]|$)", re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.|>|:)\s+")
_QUOTED = re.compile(r"`[^`]*`")
_RULER = re.compile(r"^\s*\|[\s:|-]+\|\s*$")

Text = tuple[int, str]


def headless_docstrings(root: Path) -> Iterator[Finding]:
    """Docstrings in `src` that open with a headless clause are as many as committed, no more and no fewer."""
    yield from _counted(root, "headless_docstrings", [*_in_docstrings(root)])


def headless_public_docstrings(root: Path) -> Iterator[Finding]:
    """No public class, function or method, and no command or option, has a documentation that opens headless."""
    seen: set[tuple[str, int]] = set()
    for path, node in _public(root):
        for line, text in _docstrings(node, private=False):
            place = (name_of(root, path), line)
            if _HEADLESS.match(text) and place not in seen:
                seen.add(place)
                yield Finding(*place, f"public, and opens headless: {_short(text)!r}")
    for path in modules(root, COMMANDS):
        for node in ast.walk(parse(path)):
            match node:
                case ast.keyword(arg="help", value=ast.Constant(value=str(text))) if _HEADLESS.match(text):
                    yield Finding(
                        name_of(root, path), node.value.lineno, f"a help that opens headless: {_short(text)!r}"
                    )


def headless_sentences(root: Path) -> Iterator[Finding]:
    """Sentences on the pages that open headless are as many as committed. Headings and questions are no sentences."""
    yield from _counted(root, "headless_sentences", [*_on_pages(root)])


def _in_docstrings(root: Path) -> Iterator[Finding]:
    for path in modules(root, "src"):
        for line, text in _docstrings(parse(path)):
            if _HEADLESS.match(text):
                yield Finding(name_of(root, path), line, f"opens headless: {_short(text)!r}")


def _on_pages(root: Path) -> Iterator[Finding]:
    for path in files(root, ".md"):
        if name_of(root, path).startswith(PAGES):
            for line, text in _sentences(path.read_text(encoding="utf-8")):
                yield Finding(name_of(root, path), line, f"opens headless: {_short(text)!r}")


def _counted(root: Path, rule: str, found: list[Finding]) -> Iterator[Finding]:
    page = root / COMMITTED
    committed = tomllib.loads(page.read_text(encoding="utf-8")).get(rule, 0) if page.exists() else 0
    if len(found) > committed == 0:
        yield from found
    elif len(found) > committed:
        yield Finding(COMMITTED, 1, f"{rule}: {len(found)}, more than {committed}; `python -m tools.prose` lists them")
    elif len(found) < committed:
        yield Finding(COMMITTED, 1, f"{rule}: {len(found)}, fewer than {committed}; lower the number")


def _public(root: Path) -> Iterator[tuple[Path, ast.AST]]:
    for name in PUBLIC:
        if (root / name).exists():
            yield from definitions(root, root / name)
    for path in modules(root, CONTRIB):
        yield path, parse(path)
    for path in modules(root, f"{COMMANDS}/commands"):
        yield path, parse(path)


def _docstrings(node: ast.AST, private: bool = True) -> Iterator[Text]:
    """The first docstring of `node`, and those of what it defines."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if not private and not isinstance(node, ast.Module) and node.name.startswith("_"):
            return
        text = ast.get_docstring(node)
        if text:
            yield node.body[0].lineno, text
        for child in ast.walk(node) if private else ast.iter_child_nodes(node):
            if child is not node and isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if not private:
                    yield from _docstrings(child, private=False)
                elif inner := ast.get_docstring(child):
                    yield child.body[0].lineno, inner


def _sentences(page: str) -> Iterator[Text]:
    """Each headless sentence of a page with its line: of paragraphs, items and cells of tables."""
    page = _FENCE.sub(lambda fence: "\n" * fence.group().count("\n"), page)
    page = _COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), page)
    for line, block in _blocks(page.splitlines()):
        for match in _SENTENCE.finditer(block):
            if not match.group().rstrip().endswith("?"):
                start = match.start(1)
                yield line + block.count("\n", 0, start), block[start:]


def _blocks(lines: list[str]) -> Iterator[Text]:
    """Paragraphs, items and cells as one text each, with code in backticks blotted out."""
    block: list[str] = []
    start = 1
    for number, line in enumerate([*lines, ""], 1):
        after = lines[number] if number < len(lines) else ""
        item = _ITEM.match(line)
        apart = not line.strip() or line.startswith(("#", "|", "    ")) or item is not None
        if apart and block:
            yield start, "\n".join(block)
            block = []
        if line.startswith("|"):
            if not _RULER.match(line) and not _RULER.match(after):
                for cell in _QUOTED.sub("x", line).strip().strip("|").split("|"):
                    yield number, cell.strip()
        elif line.strip() and not line.startswith(("#", "    ")):
            if not block:
                start = number
            block.append(_QUOTED.sub("x", line[item.end() :] if item else line))


def _short(text: str) -> str:
    return " ".join(text.split())[:60]


if __name__ == "__main__":
    for each in (*_in_docstrings(Path.cwd()), *_on_pages(Path.cwd())):
        print(each)
