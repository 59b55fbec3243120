"""The table of behaviour by store, made of tests/behaviour: a section for each file, a row for each test.

It promises that a row is a test, and that the test runs on each store whose column is marked. A test that is about no
store has no row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.site.tutorial import sentence_of

PAGE = "reference/behaviour.md"
#: What stores are called where people read of them.
TITLES = {"memory": "memory", "sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}
_INTRO = """# Behaviour by store

Each row is a test that runs on every store whose column is marked, so a program behaves the same on all of them. The
memory store lives inside one program: rows about several processes leave it out.
"""


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page."""
    folder = root / "tests" / "behaviour"
    stores = stores_of(folder / "conftest.py")
    head = f"| | {' | '.join(TITLES[store] for store in stores)} |\n|---|{':-:|' * len(stores)}"
    sections = []
    for path in sorted(folder.glob("test_*.py")):
        module = ast.parse(path.read_text())
        rows = [_row(test, stores) for test in _tests(module)]
        if rows:
            about = " ".join((ast.get_docstring(module) or "").split("\n\n")[0].split())
            sections.append(f"## {sentence_of(path.stem)}\n\n{about}\n\n{head}\n" + "\n".join(rows))
    yield PAGE, "\n\n".join([_INTRO, *sections]) + "\n"


def stores_of(conftest: Path) -> Sequence[str]:
    """The stores on which behaviour is told: the keys of STORES."""
    named = (node for node in ast.parse(conftest.read_text()).body if isinstance(node, ast.AnnAssign))
    for node in named:
        if ast.unparse(node.target) == "STORES" and isinstance(node.value, ast.Dict):
            return [ast.literal_eval(key) for key in node.value.keys if key is not None]
    raise ValueError(f"{conftest.name} names no STORES")


def _tests(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """The tests that get a store: all that take a fixture of ours."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and node.args.args:
            yield node


def _row(test: ast.FunctionDef, stores: Sequence[str]) -> str:
    # In a store that lives inside one program there are no other processes.
    leaves_out = {"memory"} if "pytest.skip(" in ast.unparse(test) else set()
    marks = " | ".join("" if store in leaves_out else "✓" for store in stores)
    return f"| {sentence_of(test.name)} | {marks} |"
