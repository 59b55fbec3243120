"""The stores on which behaviour is told, each with time in the hands of a test. A new store is a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

import pytest

from ramify.testing.using import Workbench, using
from tests.behaviour.office import engine, trace

STORES: dict[str, Callable[[Path], str | PathLike[str]]] = {
    "memory": lambda folder: "memory:",
    "sqlite": lambda folder: folder / "behaviour.db",
}
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(params=STORES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """The office on an empty store."""
    trace.clear()
    with using(engine, STORES[request.param](tmp_path), now=NOON) as bench:
        yield bench
