"""Fixtures of the crash tier: clients that do not outlive their test, and folders that are a store's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.clients import Clients


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    """The clients of this test."""
    made = Clients(tmp_path)
    yield made
    made.dispose()
