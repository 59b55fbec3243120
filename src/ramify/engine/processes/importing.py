"""Imports of the user's module by a process that wants its engine, as opposed to running it as a program.

A worker process imports the module in which the engine is made. If that module starts a run at its top, every worker
would start one, each with workers of its own. So would the command line, before it does what it was asked for. So
starting is refused while such an import goes on, with one clear line; and, so that nothing is stored by then, a program
that would make its workers do so is refused before it starts any.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ramify.errors import ConfigError

_importing: list[str] = []


@contextmanager
def importing(module: str, by: str = "a worker process") -> Iterator[None]:
    """Refuse to start anything until the block ends: somebody imports `module` for its engine."""
    _importing.append(f"{by} imports {module}")
    try:
        yield
    finally:
        _importing.pop()


def check_not_importing(verb: str) -> None:
    """ConfigError while a module is imported for its engine."""
    if _importing:
        raise ConfigError(
            f'engine.{verb}() was called while {_importing[-1]}. Put the line under `if __name__ == "__main__":`.'
        )


def check_guarded(module: str) -> None:
    """ConfigError when this program starts from a line that its workers, which import `module`, would run too.

    It is a file or, in a program that was started with `python -m`, a name.
    """
    frame = sys._getframe()
    while frame.f_code.co_name != "<module>" or frame.f_globals.get("__name__") != "__main__":
        if frame.f_back is None:
            return
        frame = frame.f_back
    main, spec = frame.f_code.co_filename, frame.f_globals.get("__spec__")
    try:
        if (spec is None or spec.name != module) and not os.path.samefile(main, module):
            return
        statements = ast.parse(Path(main).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        # It was changed or taken away since; then the workers say what is wrong.
        return
    for statement in statements:
        if statement.lineno <= frame.f_lineno <= (statement.end_lineno or 0) and not _asks_for_name(statement):
            raise ConfigError(
                f"line {frame.f_lineno} of {main} starts worker processes, which import that file and would run it "
                'too. Put the line under `if __name__ == "__main__":`.'
            )


def _asks_for_name(statement: ast.stmt) -> bool:
    """Return whether `__name__` is compared with something, wherever in a statement."""
    compared = (part for node in ast.walk(statement) if isinstance(node, ast.Compare) for part in ast.walk(node))
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in compared)
