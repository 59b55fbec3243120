"""Programs, scenes and an engine for the regressions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.clients import STORE, WITNESS
from tests.crash.engine import program
from tests.crash.engine.conftest import clients, scene
from tests.crash.engine.told import ToldEngine

__all__ = ["clients", "scene"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ToldEngine]:
    """The program's own engine, in this process, on the store of the test's folder."""
    program.open_at(str(tmp_path / STORE), str(tmp_path / WITNESS), {"durability": "process"})
    yield program.engine
    program.engine.close()
