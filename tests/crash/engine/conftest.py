"""Programs that do not outlive their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.clients import Clients
from tests.crash.engine.scene import Scene


@pytest.fixture(scope="module")
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """The programs of a file of tests, as its `PROGRAM` says: those loaded ahead for one test are used by the next."""
    program = getattr(request.module, "PROGRAM", "tests.crash.engine.program")
    made = Clients(tmp_path_factory.mktemp("programs"), program)
    yield made
    made.dispose()


@pytest.fixture
def scene(tmp_path: Path, clients: Clients) -> Iterator[Scene]:
    """A scene for this test."""
    made = Scene(tmp_path, clients)
    yield made
    made.close()
