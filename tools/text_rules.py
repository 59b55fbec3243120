"""House rules that need no more than a file's text: sizes, addresses, sleeps, the environment and the map.

Each rule takes the root of a tree and yields what breaks it, so a test can plant a violation in a tree of its own.
There is no list of exceptions: a rule that does not fit is changed for everybody.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.tree import Finding, files, modules, name_of, parse, text_of

LARGEST_MODULE = 440

# The one module that may look at the environment; everything else is told by its caller.
READS_ENVIRONMENT = "src/ramify/cli/config.py"

# The one module that may tell msgspec of a type.
WORKS_CLASSES_OUT = "src/ramify/model/decoder.py"

# Written so that these lines do not match themselves.
_MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:(?:work|root)(?![\w-])|(?:home|Users)/[A-Za-z])")
_REGISTRY = re.compile(
    r"pypi\.(?:org|python)|pythonhosted\.|registry\.(?:npmjs|yarnpkg)|anaconda\.org|https?://\S+/simple\b"
)
_INDEX_OPTION = re.compile(r"^\s*--(?:extra-)?index-url|^\s*--find-links", re.MULTILINE)
_SLEEP = re.compile(r"\btime\.sleep\s*\(|\bfrom\s+time\s+import\b[^\n]*\bsleep\b")
_QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"\.?[\w-][\w.-]*(?:/[\w.-]+)*/?")
_FILE_ENDINGS = (".py", ".md", ".toml", ".txt", ".sql", ".lua", ".json", ".c")
_MADE_BY_MAKE = {".venv", ".bench-venv", "reports"}


def module_sizes(root: Path) -> Iterator[Finding]:
    """No module in `src` is longer than `LARGEST_MODULE` lines."""
    for path in modules(root, "src"):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > LARGEST_MODULE:
            yield Finding(name_of(root, path), lines, f"{lines} lines, more than {LARGEST_MODULE}: split it")


def module_docstrings(root: Path) -> Iterator[Finding]:
    """Every module says what it is for, what it promises and what it leaves out."""
    for folder in ("src", "tests", "tools", "bench"):
        for path in modules(root, folder):
            tree = parse(path)
            if tree.body and ast.get_docstring(tree) is None:
                yield Finding(name_of(root, path), 1, "no module docstring: say what this room is for")


def machine_addresses(root: Path) -> Iterator[Finding]:
    """No tracked file names a folder of one machine or a host to download from."""
    for path in files(root):
        text = text_of(path)
        if text is None:
            continue
        for pattern, what in (
            (_MACHINE_PATH, "an absolute path of one machine"),
            (_REGISTRY, "a package registry's address"),
            (_INDEX_OPTION, "a package index option"),
        ):
            for line, found in _matches(pattern, text):
                yield Finding(name_of(root, path), line, f"{what}: {found!r}")


def sleeps_in_tests(root: Path) -> Iterator[Finding]:
    """Tests wait for facts, never for time."""
    for path in modules(root, "tests"):
        for line, _ in _matches(_SLEEP, path.read_text(encoding="utf-8")):
            yield Finding(name_of(root, path), line, "a sleep: wait for the event itself, or move the fake clock")


def environment_reads(root: Path) -> Iterator[Finding]:
    """Only the command line's configuration reads the environment."""
    for path in modules(root, "src"):
        if name_of(root, path) == READS_ENVIRONMENT:
            continue
        for node in ast.walk(parse(path)):
            match node:
                case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv"):
                    spelled = f"os.{node.attr}"
                case ast.ImportFrom(module="os", names=names) if {"environ", "getenv"} & {n.name for n in names}:
                    spelled = "from os import"
                case _:
                    continue
            yield Finding(name_of(root, path), node.lineno, f"{spelled}: take it as an argument instead")


def types_given_to_msgspec(root: Path) -> Iterator[Finding]:
    """Only one module lets msgspec work classes out: threads that do so at once crash the interpreter."""
    for path in modules(root, "src"):
        if name_of(root, path) == WORKS_CLASSES_OUT:
            continue
        for node in ast.walk(parse(path)):
            match node:
                case ast.Attribute(value=ast.Name(id="msgspec"), attr="convert"):
                    spelled = "msgspec.convert"
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id="msgspec")), attr="Decoder"):
                    spelled = "Decoder"
                case ast.Call(func=ast.Attribute(attr="decode"), keywords=named) if any(n.arg == "type" for n in named):
                    spelled = "decode(type=...)"
                case _:
                    continue
            yield Finding(name_of(root, path), node.lineno, f"{spelled}: use `ramify.model.decoder`")


def paths_in_the_map(root: Path) -> Iterator[Finding]:
    """Every path that ARCHITECTURE.md names in backticks exists, from the root or from `src/ramify`."""
    page = root / "ARCHITECTURE.md"
    if not page.exists():
        yield Finding("ARCHITECTURE.md", 1, "missing: the map of the house")
        return
    text = _FENCE.sub(lambda fence: "\n" * fence.group().count("\n"), page.read_text(encoding="utf-8"))
    for match in _QUOTED.finditer(text):
        named = match.group(1)
        if _looks_like_a_path(named) and not _exists(root, named):
            line = text.count("\n", 0, match.start()) + 1
            yield Finding("ARCHITECTURE.md", line, f"`{named}` does not exist")


def _looks_like_a_path(named: str) -> bool:
    return _PATH.fullmatch(named) is not None and ("/" in named or named.endswith(_FILE_ENDINGS))


def _exists(root: Path, named: str) -> bool:
    if Path(named).parts[0] in _MADE_BY_MAKE:
        return True
    return any((start / named).exists() for start in (root, root / "src" / "ramify"))


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group().strip()
