"""Pages of the programs in examples/: the docstring as the text, and the program below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a page for each program, and one that lists them."""
    rows = []
    for path in sorted((root / "examples").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(source)) or ""
        title = path.stem.replace("_", " ").capitalize()
        summary, _, rest = about.partition("\n\n")
        code = f'```python title="{path.name}"\n{_without_docstring(source)}```\n'
        rows.append(f"| [{title}]({path.stem}.md) | {' '.join(summary.split())} |")
        yield f"examples/{path.stem}.md", f"# {title}\n\n{summary}\n\n{rest}\n\n{code}"
    heading = "# Examples\n\nComplete programs from the folder `examples/`. Each of them runs in the tests.\n\n"
    yield "examples/index.md", heading + "\n".join(["| program | about |", "|---|---|", *rows]) + "\n"


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    return "\n".join(source.splitlines()[first.end_lineno or 0 :]).strip() + "\n"
