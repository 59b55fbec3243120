"""What the chapters do not talk about: each story happens in an empty folder, and its engine is closed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify import Engine


@pytest.fixture(autouse=True)
def in_an_empty_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    for value in vars(request.module).values():
        if isinstance(value, Engine):
            value.close()
