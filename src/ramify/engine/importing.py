"""Whether the user's module is being imported by somebody who wants its engine, and not run as a program.

A worker process imports the module in which the engine is made. If that module starts a run at its top, every worker
would start one, each with workers of its own. So would the command line, before it does what it was asked for. So
starting is refused while such an import goes on, with one clear line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
            f'engine.{verb}() was called while {_importing[-1]}; put the line under `if __name__ == "__main__":`'
        )
