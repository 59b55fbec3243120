"""Whether this process is a worker that is importing the user's module.

A worker process imports the module in which the engine is made. If that module starts a run at its top, every worker
would start one, each with workers of its own. So starting is refused while such an import goes on, with one clear line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ramify.errors import ConfigError

_importing: list[str] = []


@contextmanager
def importing(module: str) -> Iterator[None]:
    """Refuse to start anything until the block ends: a worker imports `module`."""
    _importing.append(module)
    try:
        yield
    finally:
        _importing.pop()


def check_not_importing(verb: str) -> None:
    """ConfigError while a worker process imports a module."""
    if _importing:
        raise ConfigError(
            f"engine.{verb}() was called while a worker process imports {_importing[-1]}; "
            'put the line under `if __name__ == "__main__":`'
        )
