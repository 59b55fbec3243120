"""Programs that do not outlive their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.clients import Clients
from tests.crash.engine.scene import Scene

PROGRAM = "tests.crash.engine.program"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """The programs of a file of tests: those that are loaded ahead for one test are used by the next."""
    made = Clients(tmp_path_factory.mktemp("programs"), PROGRAM)
    yield made
    made.dispose()


@pytest.fixture
def scene(tmp_path: Path, clients: Clients) -> Iterator[Scene]:
    """A scene for this test."""
    made = Scene(tmp_path, clients)
    yield made
    made.close()
