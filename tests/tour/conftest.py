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
    engines = [value for value in vars(request.module).values() if isinstance(value, Engine)]
    for engine in engines:
        # A file of an engine is in the folder in which the engine was made, and these were made by an import.
        monkeypatch.setattr(engine._runtime, "url", tmp_path / engine._runtime.url)
    yield
    for engine in engines:
        engine.close()
